import { unlessAborted } from "../../abort.js";
import { Silence } from "../../error.js";

/** Milliseconds after which a worker that has not answered counts as dead. */
const PATIENCE = 10_000;

/**
 * What messages to a host go through; a MessagePort or a BroadcastChannel.
 *
 * @typedef {object} Port
 * @property {(message: any) => void} postMessage
 * @property {((event: MessageEvent) => any) | null} onmessage
 * @property {() => void} close
 */

/**
 * What a worker says to each new port at once, before it has loaded anything.
 *
 * @typedef {object} Greeting
 * @property {boolean} gpu the worker has WebGPU
 * @property {string | null} host the lock that the worker holds as long as it lives; null where
 *   locks are denied
 */

/** @typedef {Greeting & {port: Port}} Greeted */

/**
 * Waits for a greeting; ends `life` with {@link Silence} where none comes.
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
