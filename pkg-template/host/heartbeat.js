import { Silence } from "../error.js";
import { every, visible, whenVisibilityChanges } from "./page.js";

/**
 * Milliseconds between two pings, and how many may be unanswered: 15 seconds by a worker that the browser
 * may have frozen, two minutes by one that is slow or stuck.
 */
const [INTERVAL, FROZEN, STUCK] = [1500, 10, 80];

/** @import { Answer, Request } from "./messages.js" */

/**
 * Pings a host; ends `life` with {@link Silence} when it does not answer. The worker says that it is alive, the host
 * in it, between two steps, that it goes on. A hidden page, which may be frozen with its worker, pings a SharedWorker
 * only.
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
    if ((mayBeFrozen && silent === FROZEN) || stuck === STUCK) life.abort(new Silence());
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
  every(INTERVAL, ping, life.signal, freezes);
  whenVisibilityChanges(() => {
    silent = 0;
    mayBeFrozen = freezes || visible();
    if (visible()) ping();
  }, life.signal);
}
