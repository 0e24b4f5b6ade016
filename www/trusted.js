// The page requires Trusted Types: the addresses of scripts come from a policy that allows only these.

const SCRIPTS = { worker: "tabloom/worker.js", service: "sw.js" };

const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("worker", { createScriptURL: address });

/**
 * The address of one of the page's scripts, as browsers with Trusted Types want it.
 *
 * @param {keyof typeof SCRIPTS} name
 * @returns {any}
 */
export function script(name) {
  return policy ? policy.createScriptURL(name) : address(name);
}

/** @param {string} name */
function address(name) {
  const path = SCRIPTS[/** @type {keyof typeof SCRIPTS} */ (name)];
  if (!path) throw new TypeError(`${name} is no script of this page`);
  return new URL(path, location.href).href;
}
