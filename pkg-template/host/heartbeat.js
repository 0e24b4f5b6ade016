import { whenAborted } from "../abort.js";
import { Silence } from "../error.js";
import { visible } from "./page.js";

/** Milliseconds between two pings, and how many may be unanswered: 15 seconds. */
const [INTERVAL, PATIENCE] = [1500, 10];

/**
 * Pings a host while the page is visible; ends `life` with {@link Silence} when it does not answer.
 *
 * Unanswered pings count, not time: a computer that slept has sent none.
 *
 * @param {{call: (message: import("./messages.js").Request, answered: () => void) => void}} connection
 * @param {AbortController} life
 */
export function keepPinging(connection, life) {
  let unanswered = 0;
  const answered = () => {
    unanswered = 0;
  };
  const timer = setInterval(() => {
    if (!visible()) return answered();
    if (unanswered === PATIENCE) return life.abort(new Silence());
    unanswered += 1;
    connection.call({ type: "ping" }, answered);
  }, INTERVAL);
  whenAborted(life.signal, () => clearInterval(timer));
}
