// What the page does: whether it is seen, whether it is there at all.
import { childOf } from "../abort.js";
import { Departure } from "../error.js";

/** Whether the page can be seen; an engine that lives in a worker counts as seen. */
export function visible() {
  return globalThis.document?.visibilityState !== "hidden";
}

/**
 * Calls `then` when {@link visible} changes, until `signal` is aborted.
 *
 * @param {(visible: boolean) => void} then
 * @param {AbortSignal} signal
 */
export function whenVisibilityChanges(then, signal) {
  globalThis.document?.addEventListener("visibilitychange", () => then(visible()), { signal });
}

/**
 * A page's stays: from each time it is shown until it is left, perhaps to come back from the browser's
 * cache.
 */
export class Stays {
  #stay;
  /** @type {Promise<unknown>} */
  #shown;

  /** @param {AbortSignal} signal ends the stay and the watch */
  constructor(signal) {
    this.#stay = childOf(signal);
    // A page that is rendered ahead of a visit gets its locks and workers when it is visited.
    const ahead = /** @type {any} */ (globalThis.document)?.prerendering;
    this.#shown = ahead ? once(document, "prerenderingchange", signal) : Promise.resolve();
    const left = () => {
      this.#shown = once(globalThis, "pageshow", signal).then(() => {
        this.#stay = childOf(signal);
      });
      this.#stay.abort(new Departure("the page has been left"));
    };
    globalThis.addEventListener("pagehide", left, { signal });
  }

  /**
   * The signal of the present stay, or of the next.
   *
   * @returns {Promise<AbortSignal>}
   */
  async current() {
    await this.#shown;
    return this.#stay.signal;
  }
}

/**
 * @param {EventTarget} target
 * @param {string} type
 * @param {AbortSignal} signal
 */
function once(target, type, signal) {
  return new Promise((resolve) => target.addEventListener(type, resolve, { once: true, signal }));
}
