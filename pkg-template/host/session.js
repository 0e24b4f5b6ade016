import { unlessAborted, whenAborted } from "../abort.js";
import { Connection, LAST } from "./connection.js";
import { Departure, TabloomError, invalid } from "../error.js";
import { mark, platform } from "../memory.js";
import { Stays } from "./page.js";

/**
 * How many hosts may die during one call, until it goes on, or one attempt to load: it may be the cause.
 */
const MOST_DEATHS = 3;
/** How many hosts may die within a minute. */
const MOST_DEATHS_A_MINUTE = 5;
/** Error codes of a host that has lost the model: of calls that it was answering, and of others. */
const LOST = ["device_lost", "closed"];

/** @import { Call, Serving } from "../calls/calls.js" */
/** @import { LoadedInfo } from "./messages.js" */
/** @import { Shares } from "./sharing.js" */
/** @import { LoadOptions, Progress } from "../types.js" */

/** @typedef {{connection: Connection, life: AbortController}} Host has the model and takes calls */

/**
 * An engine's life on one host after another.
 *
 * When a host dies, or the model's device is lost, the session finds another, loads the model again
 * and asks every open call again; a reader of a stream does not notice.
 *
 * @implements {Serving}
 */
export class Session {
  /** @type {LoadedInfo | null} what was loaded, and on what */
  info = null;
  #ladder;
  #isolation;
  #load;
  #shares;
  /** @type {((progress: Progress) => void) | null} */
  #onProgress = null;
  #closed = new AbortController();
  #stays = new Stays(this.#closed.signal);
  /** @type {AbortSignal | null} the latest of them in which a host was looked for */
  #stay = null;
  /** @type {Host | null} */
  #host = null;
  /** @type {Promise<void> | null} */
  #connecting = null;
  /** @type {Map<Call, {id: number | null, deaths: any[], over: AbortController, goesOn?: () => void}>} open calls,
   *   with why hosts died meanwhile; one that was posted to the host has an id */
  #calls = new Map();
  /** @type {{at: number, reason: any}[]} when hosts died within the last minute, and why */
  #deaths = [];
  /** Whether the model does with less memory: for want of it devices are lost, on phones above all. */
  #sparing = false;

  /**
   * @param {import("./ladder.js").Ladder} ladder
   * @param {LoadOptions["isolation"]} isolation
   * @param {import("../models/types.js").Model & {options: object}} load
   * @param {Shares} [shares]
   */
  constructor(ladder, isolation, load, shares) {
    this.#ladder = ladder;
    this.#isolation = isolation;
    this.#load = load;
    this.#shares = shares;
  }

  /** Where the engine runs now. */
  get host() {
    return this.#ladder.host;
  }

  /** @param {(progress: Progress) => void} [onProgress] */
  async start(onProgress) {
    this.#onProgress = onProgress ?? null;
    try {
      await this.#ready();
    } catch (/** @type {any} */ error) {
      this.close(error);
      throw error;
    } finally {
      this.#onProgress = null;
    }
  }

  /**
   * Asks a call, now or as soon as there is a host.
   *
   * @param {Call} call
   * @param {AbortSignal | null} [signal]
   */
  ask(call, signal) {
    if (this.#closed.signal.aborted) return call.fail(this.#closed.signal.reason);
    const over = new AbortController();
    this.#calls.set(call, { id: null, deaths: [], over });
    const abort = () => {
      this.cancel(call);
      call.fail(signal?.reason);
    };
    signal?.addEventListener("abort", abort, { signal: over.signal });
    if (this.#host) this.#post(call, this.#host);
    else this.#ready().catch(() => {});
  }

  /**
   * Sends the host a notice about a call, if the call was posted to it.
   *
   * @param {Call} call
   * @param {{type: "credit", chunks: number}} message
   */
  notify(call, message) {
    const id = this.#calls.get(call)?.id ?? null;
    if (id !== null) this.#host?.connection.send({ ...message, id });
  }

  /** @param {Call} call */
  cancel(call) {
    const id = this.#forget(call);
    if (id !== null) this.#host?.connection.cancel(id);
  }

  /** @param {Error} error of the open calls */
  close(error) {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort(error);
    this.#failAll(error);
  }

  /** Connects, unless it is connected or connecting, and posts the open calls. */
  #ready() {
    if (this.#host) return Promise.resolve();
    this.#connecting ??= this.#connect().then(
      (host) => {
        this.#connecting = null;
        this.#host = host;
        for (const call of this.#calls.keys()) this.#post(call, host);
        const { signal } = host.life;
        whenAborted(signal, () => this.#lost(signal.reason));
      },
      (error) => {
        this.#connecting = null;
        this.#failAll(error);
        throw error;
      },
    );
    return this.#connecting;
  }

  /**
   * Finds a host and loads the model; tries again where a host dies meanwhile.
   *
   * @returns {Promise<Host>}
   */
  async #connect() {
    for (const deaths = []; ; ) {
      const stay = await unlessAborted(this.#stays.current(), this.#closed.signal);
      if (stay !== this.#stay) whenAborted(stay, () => this.#ladder.close());
      this.#stay = stay;
      // A page that dies of it, the first time or later, does not load again unasked.
      const ended = mark();
      // What the page throws ends no load.
      queueMicrotask(() => this.#onProgress?.({ file: "", stage: "start", loaded: 0, total: 1, rate: 0 }));
      try {
        return await this.#attach(await this.#ladder.climb(stay));
      } catch (/** @type {any} */ error) {
        this.#closed.signal.throwIfAborted();
        if (error instanceof Departure || (error.code === "no_gpu" && this.#ladder.skip())) continue;
        if (!(error instanceof Death)) throw error;
        deaths.push(error.cause);
        if (this.#dieTooOften(error.cause) || count(deaths) >= MOST_DEATHS) throw gaveUp("while loading", error.cause);
      } finally {
        ended();
      }
    }
  }

  /**
   * @param {import("./ladder.js").Link} link
   * @returns {Promise<Host>}
   */
  async #attach(link) {
    const { life } = link;
    try {
      const connection = await Connection.open(link, this.#isolation);
      const load = { type: /** @type {const} */ ("load"), ...this.#load, sparing: this.#sparing };
      const onProgress = (/** @type {Progress} */ progress) => this.#onProgress?.(progress);
      const sharing = this.#shares && (await import("./sharing.js").catch(() => null));
      this.info = await (sharing
        ? sharing.load(connection, load, /** @type {Shares} */ (this.#shares), onProgress)
        : connection.request(load, onProgress));
      return { connection, life };
    } catch (/** @type {any} */ error) {
      const gone = life.signal.aborted && !(error instanceof Departure) && error.code !== "start_failed";
      life.abort(error);
      throw gone || error.code === "device_lost" ? new Death(error) : error;
    }
  }

  /**
   * @param {Call} call
   * @param {Host} host
   */
  #post(call, host) {
    const open = this.#calls.get(call);
    if (!open) return;
    const send = () => this.#send(call, host);
    if (count(open.deaths) < MOST_DEATHS - 1) return send();
    // It may be the cause, or suffer from another.
    const turn = async () => (open.goesOn = await (await import("./turn.js")).turn(open.over.signal, host));
    turn().then(send, send);
  }

  /**
   * @param {Call} call
   * @param {Host} host
   */
  #send(call, { connection, life }) {
    const open = this.#calls.get(call);
    if (!open || life.signal.aborted) return;
    const answered = (/** @type {import("./messages.js").Answer} */ answer) => {
      const lost = answer.type === "error" && LOST.includes(answer.error.code);
      if (lost) return life.abort(new TabloomError(answer.error));
      if (LAST.includes(answer.type)) this.#forget(call);
      if (answer.type === "chunk") {
        open.deaths = [];
        open.goesOn?.();
      }
      // Answers in OpenAI's shapes have an `object`.
      const { value } = /** @type {{value?: any}} */ (answer);
      if (value?.object) value.served_by = "device";
      call.answer(answer);
    };
    try {
      open.id = connection.call(call.message(), answered);
    } catch (/** @type {any} */ error) {
      // The browser does not post it; other calls go on.
      this.#forget(call);
      call.fail(invalid("request", `found what cannot be sent (${error.message}), expected plain values`));
    }
  }

  /** @param {Error} reason why the host is gone */
  #lost(reason) {
    this.#host = null;
    if (this.#closed.signal.aborted) return;
    const died = !(reason instanceof Departure);
    for (const [call, open] of this.#calls) {
      if (open.id === null) continue;
      open.id = null;
      if (died) open.deaths.push(reason);
      if (call.complete) {
        this.#forget(call);
        call.answer({ type: "end" });
      } else if (count(open.deaths) >= MOST_DEATHS) {
        this.#forget(call);
        call.fail(gaveUp("over this request", reason));
      }
    }
    if (died && this.#dieTooOften(reason)) this.#failAll(gaveUp("within a minute", reason));
    else this.#ready().catch(() => {});
  }

  /**
   * Notes the death of a host; true if there are too many.
   *
   * @param {any} reason
   */
  #dieTooOften(reason) {
    const now = performance.now();
    this.#deaths = [...this.#deaths.filter(({ at }) => now - at < 60_000), { at: now, reason }];
    if (reason.code === "device_lost" && (this.#deaths.length > 1 || platform !== "desktop")) this.#sparing = true;
    return count(this.#deaths.map(({ reason }) => reason)) > MOST_DEATHS_A_MINUTE;
  }

  /**
   * @param {Call} call
   * @returns {number | null} its id, if it was posted to the host
   */
  #forget(call) {
    const open = this.#calls.get(call);
    this.#calls.delete(call);
    open?.over.abort();
    return open?.id ?? null;
  }

  /** @param {Error} error */
  #failAll(error) {
    for (const call of this.#calls.keys()) {
      this.#forget(call);
      call.fail(error);
    }
  }
}

/**
 * How many hosts died: not those of which it has turned out that they were moved.
 *
 * @param {any[]} reasons
 */
function count(reasons) {
  return reasons.filter(({ moved }) => !moved).length;
}

/** A host died before the model was loaded; `cause` says why. */
class Death extends Error {
  /** @param {unknown} cause */
  constructor(cause) {
    super("the host died", { cause });
  }
}

/**
 * @param {string} when
 * @param {any} cause
 */
function gaveUp(when, cause) {
  const message = `the engine's worker failed again and again ${when}. Reload the page. Last: ${cause.message}`;
  return new TabloomError({ code: "engine_crashed", message, details: { cause: cause.code } });
}
