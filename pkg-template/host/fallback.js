// A server with OpenAI's API that answers what the device cannot, for pages with the option `fallback`.
import { childOf, unlessAborted, whenAborted } from "../abort.js";
import { TabloomError, invalid, kindOf } from "../error.js";
import { noValue, unread } from "../found.js";
import { toJson } from "../json.js";
import { addressOf } from "../models/address.js";
import { every } from "./page.js";

/** @import { Call, Serving } from "../calls/calls.js" */
/** @import { LoadedInfo } from "./messages.js" */

/** Error codes for which the server may answer. */
const REASONS = /** @type {const} */ ([
  "no_gpu",
  "too_large",
  "out_of_memory",
  "device_lost_again",
  "pipeline",
  "over_budget",
  "queue_full",
  "no_host",
  "start_failed",
  "engine_crashed",
]);

/** @type {Record<string, string>} the server's path for each type of call; other calls have none */
const PATHS = { chat: "chat/completions", complete: "completions", embed: "embeddings" };

/** Milliseconds that a server may be silent. */
const PATIENCE = 5 * 60_000;

/** A call that a server answers. */
class Relay {
  /** @type {() => void} */
  #more = () => {};

  /**
   * @param {AbortController} life
   * @param {number} credit how many chunks the reader has room for
   */
  constructor(life, credit) {
    this.life = life;
    this.credit = credit;
  }

  /** @param {number} chunks */
  grant(chunks) {
    this.credit += chunks;
    this.#more();
  }

  /** Waits until the reader has room for a chunk, and takes it. */
  async take() {
    while (this.credit <= 0) {
      /** @type {Promise<void>} */
      const granted = new Promise((resolve) => (this.#more = resolve));
      await unlessAborted(granted, this.life.signal);
    }
    this.credit -= 1;
  }
}

/**
 * An engine's session, with a server behind it.
 *
 * If the device refuses a call for one of the reasons, the server is asked, unless a part of the answer
 * has come already; `served_by` in answers and chunks says who answered.
 *
 * @implements {Serving}
 */
class Fallback {
  #device;
  #model;
  #server;
  #covers;
  /** @type {TabloomError | null} why the device has no model */
  #missing = null;
  #closed = new AbortController();
  /** @type {WeakMap<Call, Call>} as the device knows them */
  #attempts = new WeakMap();
  /** @type {WeakMap<Call, Relay>} those that the server answers */
  #relays = new WeakMap();

  /**
   * @param {ReturnType<typeof check>} server
   * @param {ReturnType<typeof coverage>} covers
   * @param {Serving} device
   * @param {string} model the page's address or name of the model
   */
  constructor(server, covers, device, model) {
    this.#server = server;
    this.#covers = covers;
    this.#device = device;
    this.#model = model;
  }

  get host() {
    return this.#missing ? null : this.#device.host;
  }

  /** @returns {LoadedInfo | null} */
  get info() {
    const { baseURL, model } = this.#server;
    const fallback = { baseURL, model, reason: this.#missing?.code ?? null };
    const { info } = this.#device;
    if (!this.#missing) return info && { ...info, fallback };
    return {
      model: this.#model,
      architecture: "",
      device: "none",
      adapter: "",
      software: false,
      context: 0,
      weightBytes: 0,
      stored: false,
      draft: null,
      sampling: null,
      fallback,
    };
  }

  /** @param {(progress: import("../types.js").Progress) => void} [onProgress] */
  async start(onProgress) {
    try {
      await this.#device.start(onProgress);
    } catch (/** @type {any} */ error) {
      if (this.#closed.signal.aborted || !this.#covers(error)) throw error;
      this.#missing = error;
    }
  }

  /**
   * @param {Call} call
   * @param {AbortSignal | null} [signal]
   * @param {boolean} [mayLeave] whether the server may be asked
   */
  ask(call, signal, mayLeave = true) {
    if (this.#closed.signal.aborted) return call.fail(this.#closed.signal.reason);
    let begun = false;
    const fail = (/** @type {Error} */ error) => {
      const stays = begun || !mayLeave || signal?.aborted || this.#closed.signal.aborted;
      try {
        if (stays || !this.#covers(error)) call.fail(error);
        else this.#relay(call, error, signal);
      } catch (/** @type {any} */ refused) {
        call.fail(refused);
      }
    };
    const attempt = {
      message: () => call.message(),
      answer(/** @type {import("./messages.js").Answer} */ answer) {
        if (answer.type === "error") return fail(new TabloomError(answer.error));
        begun ||= answer.type !== "accepted";
        call.answer(answer);
      },
      fail,
      get complete() {
        return call.complete;
      },
    };
    this.#attempts.set(call, attempt);
    this.#device.ask(attempt, signal);
  }

  /**
   * @param {Call} call
   * @param {{type: "credit", chunks: number}} message
   */
  notify(call, message) {
    const relay = this.#relays.get(call);
    if (relay) relay.grant(message.chunks);
    else this.#device.notify(this.#attempts.get(call) ?? call, message);
  }

  /** @param {Call} call */
  cancel(call) {
    const relay = this.#relays.get(call);
    if (relay) relay.life.abort();
    else this.#device.cancel(this.#attempts.get(call) ?? call);
  }

  /** @param {Error} error */
  close(error) {
    this.#closed.abort(error);
    this.#device.close(error);
  }

  /**
   * @param {Call} call
   * @param {Error} error of the device
   * @param {AbortSignal | null} [signal]
   */
  async #relay(call, error, signal) {
    /** @type {any} */
    const { type, request, credit } = call.message();
    const path = PATHS[type];
    if (!path) return call.fail(error);
    const life = childOf(this.#closed.signal);
    if (signal) whenAborted(signal, () => life.abort(signal.reason), life.signal);
    const relay = new Relay(life, credit);
    this.#relays.set(call, relay);
    try {
      const response = await this.#post(path, request, life);
      if (request.stream) await stream(call, response, relay);
      else {
        const value = parse(await patient(response.text().catch(unreachable), life));
        call.answer({ type: "value", value: { ...value, served_by: "fallback" } });
      }
    } catch (/** @type {any} */ error) {
      call.fail(life.signal.aborted ? life.signal.reason : error);
    } finally {
      life.abort();
    }
  }

  /**
   * @param {string} path
   * @param {any} request
   * @param {AbortController} life
   */
  async #post(path, { speculative_decoding, ...request }, life) {
    const { baseURL, model, apiKey } = this.#server;
    const key = typeof apiKey === "function" ? await patient(Promise.resolve(apiKey()), life) : apiKey;
    const headers = new Headers({ "content-type": "application/json", ...authorization(key) });
    const init = { method: "POST", headers, body: toJson({ ...request, model }), signal: life.signal };
    const response = await patient(fetch(`${baseURL}/${path}`, init).catch(unreachable), life);
    if (response.ok) return response;
    throw refusal(response.status, await patient(response.text().catch(unreachable), life));
  }
}

/**
 * Passes on a stream of server-sent events.
 *
 * @param {Call} call
 * @param {Response} response
 * @param {Relay} relay
 */
async function stream(call, response, relay) {
  call.answer({ type: "accepted" });
  for await (const data of events(response, relay.life)) {
    if (data === "[DONE]") return call.answer({ type: "end" });
    const chunk = parse(data);
    if (chunk.error) throw serverError(chunk.error, response.status);
    if (!Array.isArray(chunk.choices)) throw foreign(data);
    await relay.take();
    const [choice] = chunk.choices;
    // This stream is never asked again, so its tokens do not matter, only whether the choice has ended.
    const ended = choice?.finish_reason ? 0 : null;
    call.answer({ type: "chunk", value: { ...chunk, served_by: "fallback" }, tokens: [], ended });
  }
  if (!call.complete) throw failed("truncated", "the server's stream broke off. Ask again");
  call.answer({ type: "end" });
}

/**
 * The data of server-sent events; servers of this API write each in one line.
 *
 * @param {Response} response
 * @param {AbortController} life
 */
async function* events({ body }, life) {
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; reader; ) {
    const { value = "\n", done } = await patient(reader.read().catch(unreachable), life);
    const lines = (rest + value).split(/[\r\n]+/);
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) yield line.slice("data:".length).trim();
    if (done) return;
  }
}

/**
 * What `promise` gives, unless the server or the page is silent for too long.
 *
 * @template T
 * @param {Promise<T>} promise
 * @param {AbortController} life
 */
async function patient(promise, life) {
  const silent = failed("fetch", "the fallback's server is silent. Try again, or check its address");
  const wait = childOf(life.signal);
  every(PATIENCE, () => life.abort(silent), wait.signal);
  try {
    return await unlessAborted(promise, life.signal);
  } finally {
    wait.abort();
  }
}

/**
 * @param {unknown} error what `fetch` or a response's body is rejected with
 * @returns {never}
 */
function unreachable(error) {
  // Browsers throw it where the network fails, or the server does not allow the origin.
  if (!(error instanceof TypeError)) throw error;
  const advice = "Check its address and that it allows this origin (CORS)";
  throw failed("fetch", `the fallback's server could not be reached: ${error.message}. ${advice}`);
}

/**
 * @param {string} text
 * @returns {any} an object
 */
function parse(text) {
  try {
    const value = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Reported below.
  }
  throw foreign(text);
}

/** @param {string} text that is no answer */
function foreign(text) {
  const found = JSON.stringify(text.slice(0, 40));
  return failed("malformed", `the fallback's server sent ${found}, expected an answer of OpenAI's API`);
}

/**
 * The error in a server's response.
 *
 * @param {number} status
 * @param {string} text
 */
function refusal(status, text) {
  try {
    const { error } = JSON.parse(text);
    if (typeof error?.message === "string") return serverError(error, status);
  } catch {
    // Reported below.
  }
  const found = JSON.stringify(text.slice(0, 40));
  return failed("fetch", `the fallback's server answered with status ${status}: ${found}`, { status });
}

/**
 * @param {any} error OpenAI's error object
 * @param {number} status
 */
function serverError({ message, type, code, param }, status) {
  const name = [code, type].find((name) => name && typeof name === "string") ?? "server_error";
  return failed(name, `${message}`, { status }, typeof param === "string" ? param : null);
}

/**
 * @param {string} code
 * @param {string} message
 * @param {object} [details]
 * @param {string | null} [param]
 */
function failed(code, message, details, param) {
  // A server may have codes of its own.
  const own = /** @type {import("../types.js").ErrorCode} */ (code);
  return new TabloomError({ code: own, message, param, details: { ...details, served_by: "fallback" } });
}

/**
 * What puts a server behind a device; throws where it is not well described.
 *
 * @param {import("../types.js").FallbackOptions} options
 * @returns {(device: Serving, model: string) => Serving}
 */
export function behind(options) {
  try {
    const { when, ...server } = options;
    const [checked, covers] = [check(server), coverage(when)];
    return (device, model) => new Fallback(checked, covers, device, model);
  } catch (thrown) {
    throw thrown instanceof TabloomError ? thrown : unread("fallback", thrown);
  }
}

/** @param {Record<string, any>} options */
function check({ baseURL, model, apiKey, ...others }) {
  const unknown = Object.keys(others).find((name) => others[name] != null);
  if (unknown) {
    throw invalid(`fallback.${unknown}`, "there is no such option. Expected some of baseURL, model, apiKey, when");
  }
  const address = typeof baseURL === "string" || kindOf(baseURL) === "URL" ? resolved(baseURL) : "";
  if (!/^https?:/.test(address)) throw wrong("baseURL", baseURL, "the address of a server");
  if (typeof model !== "string" || !model) throw wrong("model", model, "the server's name of a model");
  if (typeof apiKey !== "function") authorization(apiKey);
  return { baseURL: address.replace(/\/+$/, ""), model, apiKey };
}

/**
 * The header of a key, if there is one. Errors do not tell it.
 *
 * @param {unknown} key
 */
function authorization(key) {
  if (key == null || key === "") return {};
  const headers = { authorization: `Bearer ${typeof key === "string" ? key : "\n."}` };
  try {
    new Headers(headers);
  } catch {
    throw invalid(
      "fallback.apiKey",
      `found a ${typeof key} that is none, expected a key, or a function that gives one`,
    );
  }
  return headers;
}

/** @param {string | URL} address */
function resolved(address) {
  try {
    return addressOf(address);
  } catch {
    return "";
  }
}

/**
 * Whether the server answers after an error.
 *
 * @param {any} when
 * @returns {(error: any) => boolean}
 */
function coverage(when) {
  if (typeof when !== "function") {
    const reasons = when ?? REASONS;
    const unknown = Array.isArray(reasons) ? reasons.filter((reason) => !REASONS.includes(reason)) : [reasons];
    if (unknown.length > 0) throw wrong("when", unknown[0], `some of ${REASONS.join(", ")}, or a function`);
    return ({ code }) => reasons.includes(code);
  }
  return ({ code }) => {
    try {
      return REASONS.includes(code) && Boolean(when(code));
    } catch (thrown) {
      throw unread("fallback.when", thrown);
    }
  };
}

/**
 * @param {string} field
 * @param {unknown} found
 * @param {string} expected
 */
function wrong(field, found, expected) {
  return noValue(`fallback.${field}`, found, expected);
}
