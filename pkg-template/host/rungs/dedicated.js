import { crashed } from "../../error.js";

/**
 * Starts a dedicated worker.
 *
 * @param {string | undefined} script
 */
export function startWorker(script) {
  // Bundlers know a worker by `new Worker(new URL(…))` in one piece.
  return script
    ? new Worker(script, { type: "module", name: "tabloom" })
    : new Worker(new URL("../../worker.js", import.meta.url), { type: "module", name: "tabloom" });
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
