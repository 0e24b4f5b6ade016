import { childOf, unlessAborted, whenAborted } from "../../abort.js";
import { Gone, Silence } from "../../error.js";
import { every } from "../page.js";

/** Milliseconds for an answer. While a worker's script is being loaded it has {@link LOADING} times as long. */
const [PATIENCE, LOADING] = [10_000, 6];

/** Milliseconds within which a worker that is gone greets again, if the browser has moved it. */
const RETURN = 10_000;

/** @import { Greeting, PagePort } from "../messages.js" */

/** @typedef {Greeting & {port: PagePort}} Greeted */

/**
 * Waits for an answer of a worker or the browser; ends `life` with {@link Silence} if none comes.
 *
 * @template T
 * @param {Promise<T>} answer
 * @param {AbortController} life
 * @param {{freezes: boolean, loads?: boolean}} host whether the browser may freeze it, and whether its script is being
 *   loaded
 */
export async function within(answer, life, host) {
  let waits = 0;
  const wait = childOf(life.signal);
  const late = () => {
    waits += 1;
    if (waits === LOADING || !host.loads) life.abort(new Silence());
  };
  every(PATIENCE, late, wait.signal, host.freezes);
  try {
    return await unlessAborted(answer, life.signal);
  } finally {
    wait.abort();
  }
}

/**
 * Waits for the greeting at a port of its own.
 *
 * @param {MessagePort} port
 * @param {AbortSignal} signal
 * @param {boolean} [moves] whether the browser may move the worker, which then greets again
 * @returns {Promise<Greeted>}
 */
export function greeted(port, signal, moves = false) {
  whenAborted(signal, () => {
    if (moves && signal.reason instanceof Gone) setTimeout(() => leave(port), RETURN);
    else leave(port, signal.reason);
  });
  return new Promise((resolve) => {
    port.onmessage = ({ data }) => data.type === "here" && resolve({ ...data, port });
  });
}

/**
 * Closes a port, of which the host is to know.
 *
 * @param {PagePort} port
 * @param {any} [reason] the engine's end: in its details whether the model is to be freed
 */
export function leave(port, reason) {
  port.postMessage({ type: "bye", free: reason?.details?.free });
  port.close();
}
