import { whenAborted } from "../../abort.js";
import { Silence } from "../../error.js";
import { visible, whenVisibilityChanges } from "../page.js";

/** Milliseconds between two questions, and how many a leader may leave unanswered. */
const [SOON, UNHEARD] = [250, 3];

/**
 * Asks the leader's page and its worker when this page is shown; ends `life` with {@link Silence} when neither
 * answers: their tab is frozen. Either may be busy, but hardly both.
 *
 * @param {BroadcastChannel} port to the worker
 * @param {() => void} askPage
 * @param {AbortController} life
 * @returns {() => void} to be called when the page has answered
 */
export function askWhenShown(port, askPage, life) {
  const { signal } = life;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const ask = (/** @type {number} */ unanswered) => {
    if (!visible()) return;
    if (unanswered === UNHEARD) return life.abort(new Silence());
    askPage();
    port.postMessage({ type: "ping", id: 0 });
    timer = setTimeout(() => ask(unanswered + 1), SOON);
  };
  const answered = () => clearTimeout(timer);
  port.addEventListener("message", answered, { signal });
  whenVisibilityChanges(() => {
    answered();
    ask(0);
  }, signal);
  whenAborted(signal, answered);
  return answered;
}
