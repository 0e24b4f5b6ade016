import { crashed } from "../error.js";

/**
 * Starts a dedicated worker.
 *
 * @param {string | undefined} url
 */
export function startWorker(url) {
  // A sandboxed frame has an origin of its own, which no address has: only a blob's worker is allowed.
  if (globalThis.origin === "null") return new Worker(importing(url), { type: "module" });
  // Bundlers know a worker by `new Worker(new URL(…))` in one piece.
  return url
    ? new Worker(url, { type: "module", name: "tabloom" })
    : new Worker(new URL("../worker.js", import.meta.url), { type: "module", name: "tabloom" });
}

/**
 * The address of a script that imports `url`.
 *
 * @param {string | undefined} url
 */
function importing(url) {
  const address = new URL(url ?? new URL("../worker.js", import.meta.url), document.baseURI);
  const script = `import ${JSON.stringify(address)};`;
  return URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
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
