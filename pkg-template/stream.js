/**
 * A queue that is filled by callbacks and read as an async iterator.
 *
 * @template T
 * @implements {AsyncIterableIterator<T>}
 */
export class Stream {
  /** @type {T[]} */
  #items = [];
  /** @type {{resolve: (result: IteratorResult<T>) => void, reject: (error: Error) => void}[]} */
  #waiting = [];
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
    const reader = this.#waiting.shift();
    if (reader) reader.resolve({ value: item, done: false });
    else this.#items.push(item);
  }

  /** @param {Error} [error] */
  end(error) {
    if (this.#ended) return;
    this.#ended = true;
    const [first, ...others] = this.#waiting.splice(0);
    if (!first) this.#error = error ?? null;
    else if (error) first.reject(error);
    else first.resolve({ value: undefined, done: true });
    for (const reader of others) reader.resolve({ value: undefined, done: true });
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
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
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
