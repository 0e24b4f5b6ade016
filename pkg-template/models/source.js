// What `Engine.load` takes as a model, and the address by which hosts and tabs know it.
import { kindOf } from "../error.js";
import { addressOf, isAddress } from "./address.js";

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
  if (isPlain(source, options)) return { url: addressOf(source, param) };
  if (typeof source === "string" || options.quantisation)
    return (await import("./hub.js")).find(source, options, param);
  return (await import("./files.js")).local(/** @type {any} */ (source), options.signal);
}

/**
 * Whether a source is an address.
 *
 * @param {import("../types.js").ModelSource} source
 * @param {import("../types.js").NameOptions} options
 * @returns {source is string | URL}
 */
export function isPlain(source, { quantisation }) {
  return !quantisation && (typeof source === "string" ? isAddress(source) : kindOf(source) === "URL");
}
