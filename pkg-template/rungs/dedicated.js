import { crashed } from "../error.js";

/**
 * Starts a dedicated worker.
 *
 * @param {string | undefined} url
 */
export function startWorker(url) {
  // A sandboxed frame has an origin of its own, which no server's script has: there, and only there,
  // a script without a server imports it. Chromium runs no module from a blob in such a frame.
  if (globalThis.origin === "null") return new Worker(importing(url), { type: "module" });
  // Bundlers know a worker by `new Worker(new URL(…))` in one piece.
  return url
    ? new Worker(url, { type: "module", name: "tabloom" })
    : new Worker(new URL("../worker.js", import.meta.url), { type: "module", name: "tabloom" });
}

/**
 * A script that imports `url`, as an address.
 *
 * @param {string | undefined} url
 */
function importing(url) {
  const address = new URL(url ?? new URL("../worker.js", import.meta.url), document.baseURI);
  return `data:text/javascript,${encodeURIComponent(`import ${JSON.stringify(address)};`)}`;
}

/**
 * What a worker's `error` event says.
 *
 * @param {ErrorEvent} event
 */
export function failure(event) {
  event.preventDefault();
  return crashed(event.message ?? "its script could not be loaded");
}
