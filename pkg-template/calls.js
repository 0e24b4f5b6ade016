// What pages ask for, as it can be asked again: a host that dies takes no call with it.
import { TabloomError } from "./error.js";
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
 * A chat whose answer comes in chunks; asked again, it goes on after the last of them.
 *
 * @implements {Call}
 */
export class Streamed {
  #message;
  #stream;
  #session;
  /** @type {Received[]} */
  #choices = [];
  #usage = false;
  /** Chunks read that the host does not know of. */
  #taken = 0;
  /** @type {(stream: Stream<import("./types.js").ChatCompletionChunk>) => void} */
  #accept = () => {};
  /** @type {(error: Error) => void} */
  #refuse = () => {};
  /** @type {Promise<Stream<import("./types.js").ChatCompletionChunk>>} resolves once accepted */
  result;

  /**
   * @param {{request: import("./types.js").ChatCompletionParams}} message
   * @param {import("./session.js").Session} session
   */
  constructor(message, session) {
    this.#message = message;
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
    const { n, stream_options } = this.#message.request;
    const ended = this.#choices.filter((choice) => choice.ended !== null).length;
    return ended === (n ?? 1) && (this.#usage || !stream_options?.include_usage);
  }

  /**
   * @param {object} chunk
   * @param {import("./types.js").ChatCompletionChunk} chunk.value
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
    const length = this.#message.request.n ?? 1;
    const nothing = { tokens: [], started: false, ended: null };
    return Array.from({ length }, (_, index) => this.#choices[index] ?? nothing);
  }
}
