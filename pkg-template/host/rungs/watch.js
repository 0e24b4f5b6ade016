import { whenAborted } from "../../abort.js";
import { Silence } from "../../error.js";
import { visible, whenVisibilityChanges } from "../page.js";

/** Milliseconds to the next question after an answer and without one, and how many may be unanswered. */
const [INTERVAL, SOON, MOST] = [1500, 250, 3];

/** @import { PagePort } from "../messages.js" */

/**
 * Watches, while this page is visible, whether the leader's tab is frozen; ends `life` with {@link Silence} if it is.
 *
 * Its page and its worker are asked: either may be busy, but hardly both.
 *
 * @param {BroadcastChannel} port to the worker
 * @param {() => void} askPage
 * @param {AbortController} life
 * @returns {() => void} to be called when the page has answered
 */
export function watch(port, askPage, life) {
  let unanswered = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const next = (/** @type {number} */ delay) => {
    clearTimeout(timer);
    timer = setTimeout(ask, delay);
  };
  const ask = () => {
    if (!visible()) return;
    if (unanswered === MOST) return life.abort(new Silence());
    unanswered += 1;
    askPage();
    /** @type {PagePort} */ (port).postMessage({ type: "ping", id: 0 });
    next(SOON);
  };
  const answered = () => {
    if (unanswered > 0) next(INTERVAL);
    unanswered = 0;
  };
  const begin = () => {
    unanswered = 0;
    ask();
  };
  const { signal } = life;
  port.addEventListener("message", answered, { signal });
  whenVisibilityChanges(begin, signal);
  whenAborted(signal, () => clearTimeout(timer));
  begin();
  return answered;
}
