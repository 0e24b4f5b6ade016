import { whenAborted } from "../../abort.js";

/** @import { Greeting, PagePort } from "../messages.js" */

/** @typedef {Greeting & {port: PagePort}} Greeted */

/**
 * Waits for the greeting at a port of its own.
 *
 * @param {MessagePort} port
 * @param {AbortSignal} signal
 * @returns {Promise<Greeted>}
 */
export function greeted(port, signal) {
  whenAborted(signal, () => leave(port));
  return new Promise((resolve) => {
    port.onmessage = ({ data }) => data.type === "here" && resolve({ ...data, port });
  });
}

/**
 * Closes a port, of which the host is to know.
 *
 * @param {PagePort} port
 */
export function leave(port) {
  port.postMessage({ type: "bye" });
  port.close();
}
