import { noHost } from "../../error.js";

/** @param {string | undefined} script */
export function startWorker(script) {
  // Bundlers recognise a worker by `new Worker(new URL(…))` in one expression.
  return script
    ? new Worker(script, { type: "module", name: "tabloom" })
    : new Worker(new URL("../../worker.js", import.meta.url), { type: "module", name: "tabloom" });
}

/**
 * Why there is no worker.
 *
 * @param {Event} event its error, before it has greeted
 * @param {string} rung
 * @param {string | undefined} script
 */
export function failure(event, rung, script) {
  event.preventDefault();
  const { message } = /** @type {ErrorEvent} */ (event);
  // Bundlers would take this, in one expression, for a file of theirs.
  const here = import.meta.url;
  const place = script ?? `${new URL("../../worker.js", here)} (unless it is bundled)`;
  const reason = message ? `failed: ${message}` : "could not be loaded";
  const advice =
    "Serve worker.js of the package as JavaScript, allow it in the content security policy, or set workerUrl";
  return noHost(rung, `its script ${`${place}`.slice(0, 300)} ${reason}`, advice);
}
