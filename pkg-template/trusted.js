/** This module as it was published, with the worker beside it, and not within a bundle. */
const HERE = /\/trusted\.js$/;

/** @type {string | undefined} */
let worker;

/**
 * The worker beside the package as pages that require Trusted Types want it, by the policy `tabloom`;
 * undefined where the page does not allow that, and where browsers have no such types.
 */
export function trustedWorker() {
  const { trustedTypes } = /** @type {any} */ (globalThis);
  if (worker || !trustedTypes || !HERE.test(import.meta.url)) return worker;
  const createScriptURL = () => import.meta.url.replace(HERE, "/worker.js");
  try {
    worker = trustedTypes.createPolicy("tabloom", { createScriptURL }).createScriptURL("");
  } catch {
    // Then the page names the worker itself.
  }
  return worker;
}
