import { unlessAborted } from "../../abort.js";
import { Silence } from "../../error.js";

/** Milliseconds for a worker's greeting. While its script is being loaded it has {@link LOADING} times as long. */
const [PATIENCE, LOADING] = [10_000, 6];

/** @import { Greeting, PagePort } from "../messages.js" */

/** @typedef {Greeting & {port: PagePort}} Greeted */

/**
 * Waits for a greeting; ends `life` with {@link Silence} if none comes.
 *
 * @template {Greeting} G
 * @param {Promise<G>} greeting
 * @param {AbortController} life
 * @param {() => boolean} [loading] whether the worker's script is being loaded
 */
export async function within(greeting, life, loading = () => false) {
  let waits = 0;
  const timer = setInterval(() => {
    waits += 1;
    if (waits === LOADING || !loading()) life.abort(new Silence());
  }, PATIENCE);
  try {
    return await unlessAborted(greeting, life.signal);
  } finally {
    clearInterval(timer);
  }
}

/**
 * Waits for the greeting at a port of its own.
 *
 * @param {MessagePort} port
 * @param {AbortController} life
 * @param {() => boolean} [loading] whether the worker's script is being loaded
 */
export async function greeted(port, life, loading) {
  /** @type {Promise<Greeting>} */
  const greeting = new Promise((resolve) => {
    port.onmessage = ({ data }) => data.type === "here" && resolve(data);
  });
  return { ...(await within(greeting, life, loading)), port };
}
