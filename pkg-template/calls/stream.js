/**
 * A queue as an async iterator.
 *
 * @template T
 * @implements {AsyncIterableIterator<T>}
 */
export class Stream {
  /** @type {T[]} */
  #items = [];
  /** @type {((result: Promise<IteratorResult<T>>) => void)[]} */
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
    this.#items.push(item);
    this.#waiting.shift()?.(this.next());
  }

  /** @param {Error} [error] */
  end(error) {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error ?? null;
    for (const resolve of this.#waiting.splice(0)) resolve(this.next());
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
    return this.#ended ? this.return() : new Promise((resolve) => this.#waiting.push(resolve));
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
