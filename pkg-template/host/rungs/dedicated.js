import { crashed } from "../../error.js";

/** @param {string | undefined} script */
export function startWorker(script) {
  // Bundlers recognise a worker by `new Worker(new URL(…))` in one expression.
  return script
    ? new Worker(script, { type: "module", name: "tabloom" })
    : new Worker(new URL("../../worker.js", import.meta.url), { type: "module", name: "tabloom" });
}

/** @param {ErrorEvent} event of a worker */
export function failure(event) {
  event.preventDefault();
  return crashed(event.message ?? "its script could not be loaded");
}
