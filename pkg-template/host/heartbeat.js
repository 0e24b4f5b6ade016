import { whenAborted } from "../abort.js";
import { Silence } from "../error.js";
import { visible } from "./page.js";

/** Milliseconds between two questions, and how many may be without an answer: 15 seconds. */
const [INTERVAL, PATIENCE] = [1500, 10];

/**
 * Asks a host again and again while the page is seen; ends `life` with {@link Silence} when no
 * answer comes.
 *
 * Unanswered questions count, not time: a computer that slept has asked none.
 *
 * @param {import("./connection.js").Connection} connection
 * @param {AbortController} life
 */
export function keepAsking(connection, life) {
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
