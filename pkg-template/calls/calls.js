// What pages ask for, as it can be asked again: a host that dies takes no call with it.
import { TabloomError } from "../error.js";
import { Stream } from "./stream.js";

/** Chunks that may be on their way to a reader, or wait for it. */
const WINDOW = 32;

/**
 * @typedef {object} Call
 * @property {() => object} message what to post to a host, the first or another
 * @property {(answer: any) => void} answer takes an answer
 * @property {(error: Error) => void} fail ends the call
 * @property {boolean} complete nothing is missing but the host's word that this is all
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

  /** @param {object} message */
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

  /** @param {any} answer */
  answer(answer) {
    if (answer.type === "error") this.fail(new TabloomError(answer.error));
    else this.#resolve(answer.value);
  }
}

/**
 * What has been received of one of a stream's choices.
 *
 * @typedef {object} Received
 * @property {number[]} tokens
 * @property {boolean} started
 * @property {number | null} ended completion tokens in all, once it has ended
 */

/**
 * A request whose answers come in chunks; asked again, it goes on after the last of them.
 *
 * @template {{choices: {index: number}[]}} T a chunk
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
   * @param {{request: {stream_options?: {include_usage?: boolean}}}} message
   * @param {number} length how many answers there will be
   * @param {import("../host/session.js").Serving} session
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

  /** @param {any} answer */
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
   * @param {object} chunk
   * @param {T} chunk.value
   * @param {number[]} chunk.tokens those of its choice that are new
   * @param {number | null} chunk.ended the choice's tokens in all, if this is its last chunk
   */
  #receive({ value, tokens, ended }) {
    const index = value.choices[0]?.index;
    if (index === undefined) this.#usage = true;
    else {
      const choice = (this.#choices[index] ??= { tokens: [], started: true, ended: null });
      choice.tokens.push(...tokens);
      choice.ended ??= ended;
    }
    this.#stream.push(value);
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
 * @param {import("../host/session.js").Serving} session
 * @param {Call & {result: Promise<T>}} call
 * @param {import("../types.js").RequestOptions} [options]
 */
export function ask(session, call, { signal, fallback } = {}) {
  session.ask(call, signal, fallback);
  return call.result;
}

/**
 * Asks for completions, as a stream or whole.
 *
 * @param {import("../host/session.js").Serving} session
 * @param {"chat" | "complete"} type
 * @param {{stream?: boolean, stream_options?: {include_usage?: boolean}}} params
 * @param {number} length how many answers there will be
 * @param {import("../types.js").RequestOptions} [options]
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
