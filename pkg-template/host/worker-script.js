import { resolved } from "../models/address.js";
import { VERSION } from "../version.js";

/** @type {string | undefined} */
let published;

/**
 * The address of the worker's script; undefined within a bundle, where the bundler sets it.
 *
 * @param {string | undefined} given the option `workerUrl`
 */
export function workerScript(given) {
  if (given) return reachable(given);
  // A script that is no module has no address.
  const here = `${import.meta.url}`;
  // This module as published has the worker one folder up; with the version in its address no cache gives this
  // page another version's.
  const own = here.replace(/^(?!file:)(.*\/)host\/worker-script\.js$/, `$1worker.js?tabloom=${VERSION}`);
  if (own !== here) published ??= trusted(reachable(own));
  return published;
}

/**
 * The script itself, or a `data:` script that imports it: browsers start no worker from another origin,
 * such as a CDN, nor any in a sandboxed frame, whose origin no server has; but a `data:` script may import
 * from there. A `blob:` script would not do: Chromium runs no module from a blob in such a frame.
 *
 * @param {string} script
 */
function reachable(script) {
  const address = resolved(script, "workerUrl");
  if (["null", globalThis.origin].includes(address.origin)) return script;
  return `data:text/javascript,${encodeURIComponent(`import ${JSON.stringify(address)}`)}`;
}

/**
 * The address as a TrustedScriptURL of the policy `tabloom`, where browsers have these; undefined where the
 * page does not allow the policy.
 *
 * @param {string} address
 * @returns {string | undefined}
 */
function trusted(address) {
  const { trustedTypes } = /** @type {any} */ (globalThis);
  if (!trustedTypes) return address;
  try {
    return trustedTypes.createPolicy("tabloom", { createScriptURL: () => address }).createScriptURL("");
  } catch {
    // The page has to name the worker itself, or does not require Trusted Types.
  }
}
