// Whether the page is visible, and whether it was left.
import { childOf, whenAborted } from "../abort.js";
import { Departure } from "../error.js";

/** Whether the page is visible; an engine that a worker has loaded counts as visible. */
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
 * Calls `then` each time that so long has passed, until `signal` is aborted.
 *
 * @param {number} milliseconds
 * @param {() => void} then
 * @param {AbortSignal} signal
 * @param {boolean} [freezes] whether the browser may freeze what is waited for, with the page while that is hidden: then
 *   only time in which it is visible counts
 */
export function every(milliseconds, then, signal, freezes = true) {
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let timer;
  const stop = () => clearInterval(timer);
  const start = () => {
    stop();
    if (visible() || !freezes) timer = setInterval(then, milliseconds);
  };
  whenVisibilityChanges(start, signal);
  start();
  whenAborted(signal, stop);
}

/**
 * A page's stays: each lasts from when the page is shown until it is left. It may come back from the
 * browser's cache.
 */
export class Stays {
  #stay;
  /** @type {Promise<unknown>} */
  #shown;

  /** @param {AbortSignal} signal ends the stay and the watch */
  constructor(signal) {
    this.#stay = childOf(signal);
    // A prerendered page gets its locks and workers when it is visited.
    const prerendered = /** @type {any} */ (globalThis.document)?.prerendering;
    this.#shown = prerendered ? once(document, "prerenderingchange", signal) : Promise.resolve();
    const left = () => {
      this.#shown = once(globalThis, "pageshow", signal).then(() => {
        this.#stay = childOf(signal);
      });
      this.#stay.abort(new Departure("the page has been left"));
    };
    globalThis.addEventListener("pagehide", left, { signal });
  }

  /**
   * The signal of the current stay, or of the next one.
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
