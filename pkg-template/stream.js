/**
 * A queue that is filled by callbacks and read as an async iterator.
 *
 * @template T
 * @implements {AsyncIterableIterator<T>}
 */
export class Stream {
  /** @type {T[]} */
  #items = [];
  /** @type {{resolve: (result: IteratorResult<T>) => void, reject: (error: Error) => void} | null} */
  #waiting = null;
  #ended = false;
  /** @type {Error | null} */
  #error = null;
  #onReturn;

  /** @param {() => void} onReturn called when the reader leaves early */
  constructor(onReturn) {
    this.#onReturn = onReturn;
  }

  /** @param {T} item */
  push(item) {
    if (this.#ended) return;
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting) waiting.resolve({ value: item, done: false });
    else this.#items.push(item);
  }

  /** @param {Error} [error] */
  end(error) {
    if (this.#ended) return;
    this.#ended = true;
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting && error) waiting.reject(error);
    else if (waiting) waiting.resolve({ value: undefined, done: true });
    else this.#error = error ?? null;
  }

  /** @returns {Promise<IteratorResult<T>>} */
  next() {
    if (this.#items.length > 0) {
      return Promise.resolve({ value: /** @type {T} */ (this.#items.shift()), done: false });
    }
    if (this.#error) {
      const error = this.#error;
      this.#error = null;
      return Promise.reject(error);
    }
    if (this.#ended) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve, reject) => (this.#waiting = { resolve, reject }));
  }

  /** @returns {Promise<IteratorResult<T>>} */
  return() {
    if (!this.#ended) this.#onReturn();
    this.#items.length = 0;
    this.#error = null;
    this.end();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}
