/** The `on…` attributes of an `EventTarget`: one listener each, which an assignment replaces. */
export class EventHandlers {
  #target;
  /** @type {Map<string, unknown>} */
  #handlers = new Map();

  /** @param {EventTarget} target */
  constructor(target) {
    this.#target = target;
  }

  /**
   * @param {string} type
   * @returns {any}
   */
  get(type) {
    return this.#handlers.get(type) ?? null;
  }

  /**
   * @param {string} type
   * @param {unknown} handler an object that is no function is kept and never called
   */
  set(type, handler) {
    if (!this.#handlers.has(type)) {
      this.#target.addEventListener(type, (event) => {
        const handler = this.get(type);
        if (typeof handler === "function") handler.call(this.#target, event);
      });
    }
    this.#handlers.set(type, typeof handler === "object" || typeof handler === "function" ? handler : null);
  }
}
