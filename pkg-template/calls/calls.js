// What pages ask for, as it can be asked again: a host that dies takes no call with it.
import { TabloomError } from "../error.js";
import { Stream } from "./stream.js";

/** Chunks that may be on their way to a reader, or wait for it. */
const WINDOW = 32;

/** @import { Answer, Chunk, CompletionRequest, Received, Request } from "../host/messages.js" */
/** @import { EngineInfo, HostKind, Progress, RequestOptions } from "../types.js" */

/**
 * @typedef {object} Call
 * @property {() => Request} message what to post to a host, the first or another
 * @property {(answer: Answer) => void} answer takes an answer
 * @property {(error: Error) => void} fail ends the call
 * @property {boolean} complete nothing is missing but the host's word that this is all
 */

/**
 * Who answers calls: a session, or what stands in for one.
 *
 * @typedef {object} Serving
 * @property {EngineInfo | null} info what was loaded, and on what
 * @property {HostKind | null} host where the engine lives now
 * @property {(signal?: AbortSignal, onProgress?: (progress: Progress) => void) => Promise<void>} start
 * @property {(call: Call, signal?: AbortSignal, mayLeave?: boolean) => void} ask
 * @property {(call: Call, message: {type: "credit", chunks: number}) => void} tell
 * @property {(call: Call) => void} cancel
 * @property {(error: Error) => void} close
 */

/**
 * A call with one result.
 *
 * @template T
 * @implements {Call}
 */
export class Whole {
  complete = false;
  #message;
  /** @type {(value: T) => void} */
  #resolve = () => {};
  /** @type {(error: Error) => void} */
  fail = () => {};
  /** @type {Promise<T>} */
  result;

  /** @param {Request} message */
  constructor(message) {
    this.#message = message;
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.fail = reject;
    });
  }

  message() {
    return this.#message;
  }

  /** @param {Answer} answer */
  answer(answer) {
    if (answer.type === "error") this.fail(new TabloomError(answer.error));
    else this.#resolve(/** @type {{value?: any}} */ (answer).value);
  }
}

/**
 * A request whose answers come in chunks; asked again, it goes on after the last of them.
 *
 * @template {Chunk["value"]} T
 * @implements {Call}
 */
export class Streamed {
  #message;
  #length;
  #stream;
  #session;
  /** @type {Received[]} */
  #choices = [];
  #usage = false;
  /** Chunks read that the host does not know of. */
  #taken = 0;
  /** @type {(stream: Stream<T>) => void} */
  #accept = () => {};
  /** @type {(error: Error) => void} */
  #refuse = () => {};
  /** @type {Promise<Stream<T>>} resolves once accepted */
  result;

  /**
   * @param {CompletionRequest} message
   * @param {number} length how many answers there will be
   * @param {Serving} session
   */
  constructor(message, length, session) {
    this.#message = message;
    this.#length = length;
    this.#session = session;
    this.result = new Promise((resolve, reject) => {
      this.#accept = resolve;
      this.#refuse = reject;
    });
    this.#stream = new Stream({
      onTake: () => this.#take(),
      onReturn: () => session.cancel(this),
    });
  }

  message() {
    this.#taken = 0;
    return { ...this.#message, credit: WINDOW - this.#stream.unread, resume: this.#resume() };
  }

  /** @param {Answer} answer */
  answer(answer) {
    if (answer.type === "accepted") this.#accept(this.#stream);
    else if (answer.type === "chunk") this.#receive(answer);
    else if (answer.type === "error") this.fail(new TabloomError(answer.error));
    else this.#stream.end();
  }

  /** @param {Error} error */
  fail(error) {
    this.#refuse(error);
    this.#stream.end(error);
  }

  get complete() {
    const { stream_options } = this.#message.request;
    const ended = this.#choices.filter((choice) => choice.ended !== null).length;
    return ended === this.#length && (this.#usage || !stream_options?.include_usage);
  }

  /**
   * @param {Chunk} chunk
   */
  #receive({ value, tokens, ended }) {
    const index = value.choices[0]?.index;
    if (index === undefined) this.#usage = true;
    else {
      const choice = (this.#choices[index] ??= { tokens: [], started: true, ended: null });
      choice.tokens.push(...tokens);
      choice.ended ??= ended;
    }
    this.#stream.push(/** @type {T} */ (value));
  }

  #take() {
    this.#taken += 1;
    if (this.#taken < WINDOW / 2) return;
    this.#session.tell(this, { type: "credit", chunks: this.#taken });
    this.#taken = 0;
  }

  #resume() {
    if (this.#choices.length === 0) return null;
    const nothing = { tokens: [], started: false, ended: null };
    return Array.from({ length: this.#length }, (_, index) => this.#choices[index] ?? nothing);
  }
}

/**
 * Asks a call of a session; gives its result.
 *
 * @template T
 * @param {Serving} session
 * @param {Call & {result: Promise<T>}} call
 * @param {RequestOptions} [options]
 */
export function ask(session, call, { signal, fallback } = {}) {
  session.ask(call, signal, fallback);
  return call.result;
}

/**
 * Asks for completions, as a stream or whole.
 *
 * @param {Serving} session
 * @param {"chat" | "complete"} type
 * @param {CompletionRequest["request"]} params
 * @param {number} length how many answers there will be
 * @param {RequestOptions} [options]
 * @returns {Promise<any>}
 */
export function complete(session, type, params, length, options) {
  options?.signal?.throwIfAborted();
  // Asked again, it is the same question, whatever the page has done to its object since.
  const request = structuredClone(params);
  // Named, dated and seeded once: asking again asks for the same.
  const moment = { now: now(), entropy: Math.floor(Math.random() * 2 ** 53) };
  const message = { type, request, moment, credit: 0, resume: null };
  const call = request.stream ? new Streamed(message, length, session) : new Whole(message);
  return ask(session, call, options);
}

/** Seconds since 1970. */
export function now() {
  return Math.floor(Date.now() / 1000);
}
