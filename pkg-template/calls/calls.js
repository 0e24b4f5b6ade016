// Calls, which can be asked again of another host when theirs dies.
import { TabloomError } from "../error.js";
import { chosen, plain } from "./arguments.js";
import { Stream } from "./stream.js";

/** Most chunks of a stream that are sent and not read. */
const WINDOW = 32;

/** @import { Answer, Chunk, CompletionRequest, LoadedInfo, Received, Request } from "../host/messages.js" */
/** @import { HostKind, Progress, RequestOptions } from "../types.js" */

/**
 * @typedef {object} Call
 * @property {() => Request} message for the first host, or for another
 * @property {(answer: Answer) => void} answer
 * @property {(error: Error) => void} fail ends the call
 * @property {boolean} complete the whole answer has come, but perhaps not its `end`
 */

/**
 * What answers calls: a session, or a fallback in its place.
 *
 * @typedef {object} Serving
 * @property {LoadedInfo | null} info what was loaded, and on what
 * @property {HostKind | null} host where the engine runs now
 * @property {(onProgress?: (progress: Progress) => void) => Promise<void>} start
 * @property {(call: Call, signal?: AbortSignal | null, mayLeave?: boolean) => void} ask
 * @property {(call: Call, message: {type: "credit", chunks: number}) => void} notify
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
 * A request whose answers come in chunks; another host continues after the last of them.
 *
 * @template {Chunk["value"]} T
 * @implements {Call}
 */
class Streamed {
  #message;
  #length;
  #stream;
  #session;
  /** @type {Received[]} */
  #choices = [];
  #usage = false;
  /** Chunks that were read since the last `credit`. */
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
    this.#session.notify(this, { type: "credit", chunks: this.#taken });
    this.#taken = 0;
  }

  #resume() {
    if (this.#choices.length === 0) return null;
    const nothing = { tokens: [], started: false, ended: null };
    return Array.from({ length: this.#length }, (_, index) => this.#choices[index] ?? nothing);
  }
}

/**
 * @template T
 * @param {Serving} session
 * @param {Call & {result: Promise<T>}} call
 * @param {RequestOptions | null} [options]
 * @returns {Promise<T>}
 */
export function ask(session, call, options) {
  return chosen(options, "signal fallback:Boolean", ({ signal, fallback }) => {
    signal?.throwIfAborted();
    session.ask(call, signal, fallback);
    return call.result;
  });
}

/**
 * The result of a request for completions, a stream or a whole answer.
 *
 * @param {Serving} session
 * @param {"chat" | "complete"} type
 * @param {object} params
 * @param {(request: any) => number} length how many answers there will be
 * @param {RequestOptions | null} [options]
 * @returns {Promise<any>}
 */
export function complete(session, type, params, length, options) {
  // The page may change its object before another host is asked.
  return plain(params, (request) => {
    // They give the answer its id, date and seed; another host has to use the same.
    const moment = { now: now(), entropy: Math.floor(Math.random() * 2 ** 53) };
    const message = { type, request, moment, credit: 0, resume: null };
    const call = request?.stream ? new Streamed(message, length(request), session) : new Whole(message);
    return ask(session, call, options);
  });
}

/** Seconds since 1970. */
export function now() {
  return Math.floor(Date.now() / 1000);
}
