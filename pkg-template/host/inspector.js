// What the engine's own code says of a model before it loads it.
import { Connection } from "./connection.js";
import { Ladder } from "./ladder.js";

/**
 * A function that begins to load the model at an address and stops before its weights; it rejects with the
 * error of the load. Its worker is no other tab's, starts with the first call and ends with `signal`.
 *
 * @param {string | undefined} workerUrl
 * @param {AbortSignal} signal
 * @returns {(url: string, options: object) => Promise<import("./messages.js").Inspection>}
 */
export function inspector(workerUrl, signal) {
  /** @type {Promise<Connection> | null} */
  let connecting = null;
  return async (url, options) => {
    connecting ??= connect(workerUrl, signal);
    return (await connecting).request({ type: "inspect", url, options });
  };
}

/**
 * @param {string | undefined} workerUrl
 * @param {AbortSignal} signal
 */
async function connect(workerUrl, signal) {
  const ladder = new Ladder({ host: "private", needsGpu: false, workerUrl });
  return Connection.open(await ladder.climb(signal), "tab");
}
