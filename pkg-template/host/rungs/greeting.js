import { unlessAborted } from "../../abort.js";
import { Silence } from "../../error.js";

/** Milliseconds for a worker's greeting. */
const PATIENCE = 10_000;

/** @import { Greeting, PagePort } from "../messages.js" */

/** @typedef {Greeting & {port: PagePort}} Greeted */

/**
 * Waits for a greeting; ends `life` with {@link Silence} if none comes.
 *
 * @template {Greeting} G
 * @param {Promise<G>} greeting
 * @param {AbortController} life
 */
export async function within(greeting, life) {
  const timer = setTimeout(() => life.abort(new Silence()), PATIENCE);
  try {
    return await unlessAborted(greeting, life.signal);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Waits for the greeting at a port of its own.
 *
 * @param {MessagePort} port
 * @param {AbortController} life
 */
export async function greeted(port, life) {
  /** @type {Promise<Greeting>} */
  const greeting = new Promise((resolve) => {
    port.onmessage = ({ data }) => data.type === "here" && resolve(data);
  });
  return { ...(await within(greeting, life)), port };
}
