// What `Engine.load` takes as a model, and the address by which hosts and tabs know it.
import { addressOf, isAddress, nameOf } from "./address.js";

/** @import { Model } from "./types.js" */

/**
 * Resolves what `Engine.load` was given.
 *
 * @param {import("../types.js").ModelSource} source
 * @param {import("../types.js").LoadOptions} [options]
 * @param {string} [param] the name of the parameter, for errors
 * @returns {Promise<Model & {pin?: string}>} `pin`: the name that was resolved to the address
 */
export async function identify(source, options = {}, param) {
  if (isPlain(source, options)) return { url: addressOf(source) };
  if (typeof source === "string" || options.quantisation)
    return (await import("./hub.js")).find(source, options, param);
  return (await import("./files.js")).local(/** @type {any} */ (source), options.signal);
}

/**
 * The addresses of kept models that an address or a name stands for.
 *
 * @param {string | URL} source
 * @param {import("../types.js").NameOptions} options
 * @param {string} [param] the name of the parameter, for errors
 * @returns {Promise<string[]>}
 */
export async function addresses(source, options, param) {
  const found = isPlain(source, options)
    ? [addressOf(source)]
    : await (await import("./hub.js")).kept(source, options, param);
  return found.map(nameOf);
}

/**
 * Whether a source is an address.
 *
 * @param {import("../types.js").ModelSource} source
 * @param {import("../types.js").NameOptions} options
 * @returns {source is string | URL}
 */
function isPlain(source, { quantisation }) {
  return !quantisation && (source instanceof URL || (typeof source === "string" && isAddress(source)));
}
