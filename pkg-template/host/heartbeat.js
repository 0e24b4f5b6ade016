import { whenAborted } from "../abort.js";
import { Silence } from "../error.js";
import { visible, whenVisibilityChanges } from "./page.js";

/**
 * Milliseconds between two pings, and how many may be unanswered: 15 seconds by a worker that the browser
 * may have frozen, two minutes by one that is slow or stuck.
 */
const [INTERVAL, FROZEN, STUCK] = [1500, 10, 80];
/** Milliseconds between two questions without an answer, and how many a leader may leave so. */
const [SOON, UNHEARD] = [250, 3];

/** @import { Answer, Request } from "./messages.js" */

/**
 * Pings a host while the page is visible; ends `life` with {@link Silence} when it does not answer. The
 * worker says that it is alive, the host in it, between two steps, that it goes on.
 *
 * Unanswered pings count, not time: a computer that slept has sent none. A page that is shown pings at once: a
 * phone may have frozen, or ended, every worker of a browser that was not in use.
 *
 * @param {{call: (message: Request, answered: (answer: Answer) => void) => void}} connection
 * @param {AbortController} life
 * @param {boolean} freezes whether the browser may freeze the worker
 */
export function keepPinging(connection, life, freezes) {
  // Unanswered pings, by the worker and by the host.
  let [silent, stuck] = [0, 0];
  let mayBeFrozen = freezes;
  const ping = () => {
    if (!visible()) silent = stuck = 0;
    else if ((mayBeFrozen && silent === FROZEN) || stuck === STUCK) life.abort(new Silence());
    else {
      silent += 1;
      stuck += 1;
      connection.call({ type: "ping" }, ({ type }) => {
        silent = 0;
        mayBeFrozen = freezes;
        if (type !== "alive") stuck = 0;
      });
    }
  };
  const timer = setInterval(ping, INTERVAL);
  whenVisibilityChanges(() => {
    mayBeFrozen = true;
    ping();
  }, life.signal);
  whenAborted(life.signal, () => clearInterval(timer));
}

/**
 * Asks the leader's page and its worker, while this page is visible; ends `life` with {@link Silence} when neither
 * answers: their tab is frozen. Either may be busy, but hardly both.
 *
 * @param {BroadcastChannel} port to the worker
 * @param {() => void} askPage
 * @param {AbortController} life
 * @returns {() => void} to be called when the page has answered
 */
export function watch(port, askPage, life) {
  const { signal } = life;
  let unanswered = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const wait = (/** @type {number} */ delay) => {
    clearTimeout(timer);
    timer = setTimeout(ask, delay);
  };
  const ask = () => {
    if (!visible()) return;
    if (unanswered === UNHEARD) return life.abort(new Silence());
    unanswered += 1;
    askPage();
    port.postMessage({ type: "ping", id: 0 });
    wait(SOON);
  };
  const answered = () => {
    if (unanswered > 0) wait(INTERVAL);
    unanswered = 0;
  };
  const begin = () => {
    unanswered = 0;
    ask();
  };
  port.addEventListener("message", answered, { signal });
  whenVisibilityChanges(begin, signal);
  whenAborted(signal, () => clearTimeout(timer));
  begin();
  return answered;
}
