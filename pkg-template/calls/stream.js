/**
 * A queue as an async iterator.
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
  #reader;

  /**
   * @param {{onTake: () => void, onReturn: () => void}} reader called when an item is read, and when
   *   the reader leaves early
   */
  constructor(reader) {
    this.#reader = reader;
  }

  /** How many items have not been read. */
  get unread() {
    return this.#items.length;
  }

  /** @param {T} item */
  push(item) {
    if (this.#ended) return;
    const reader = this.#waiting.shift();
    if (!reader) return void this.#items.push(item);
    reader.resolve({ value: item, done: false });
    this.#reader.onTake();
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
      const value = /** @type {T} */ (this.#items.shift());
      this.#reader.onTake();
      return Promise.resolve({ value, done: false });
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
    if (!this.#ended) this.#reader.onReturn();
    this.#items.length = 0;
    this.#error = null;
    this.end();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}
