/** This module as it was published, with the worker beside it, and not within a bundle. */
const HERE = /^(?!file:)(.*\/)host\/worker-script\.js$/;

/** @type {string | undefined} */
let published;

/**
 * The address that starts a worker; undefined within a bundle, whose maker knows it.
 *
 * @param {string | undefined} given what the page says
 */
export function workerScript(given) {
  if (given) return reachable(given);
  if (HERE.test(import.meta.url)) published ??= trusted(reachable(import.meta.url.replace(HERE, "$1worker.js")));
  return published;
}

/**
 * The script itself, or one that imports it: browsers take no worker's script of another origin, as
 * from a CDN, or in a sandboxed frame, whose origin no server has; but one without a server may import
 * it. Chromium runs no module from a blob in such a frame.
 *
 * @param {string} script
 */
function reachable(script) {
  const address = new URL(script, globalThis.document?.baseURI ?? globalThis.location.href);
  if (["null", globalThis.origin].includes(address.origin)) return script;
  return `data:text/javascript,${encodeURIComponent(`import ${JSON.stringify(address)};`)}`;
}

/**
 * An address as pages want it that require Trusted Types, by the policy `tabloom`; undefined where
 * the page does not allow that. Then it names the worker itself.
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
    // The page names the worker itself, or does not require these types.
  }
}
