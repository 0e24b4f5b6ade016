// What a page can name as a model, and how hosts and tabs know it.
import { addressOf, isAddress } from "./address.js";

/**
 * A model as a host is told of it: at an address, or made of files that the page has.
 *
 * @typedef {object} Model
 * @property {string} url an address; of files, `local:` with what they are known by
 * @property {Map<string, Blob>} [files] by name
 */

/**
 * Finds out what a model is known by, and its files if the page has them.
 *
 * @param {import("../types.js").ModelSource} source
 * @param {import("../types.js").LoadOptions} [options]
 * @param {string} [param] which one of a call's models it is, for errors
 * @returns {Promise<Model & {pin?: string}>} `pin`: how a name led to the address
 */
export async function identify(source, options = {}, param) {
  if (isPlain(source, options)) return { url: addressOf(source) };
  if (typeof source === "string" || options.quantisation) return (await import("./hub.js")).find(source, options, param);
  return (await import("./files.js")).local(/** @type {any} */ (source));
}

/**
 * Where the models are that are kept under an address or a name.
 *
 * @param {string | URL} source
 * @param {import("../types.js").NameOptions} options
 * @param {string} [param] which one of a call's models it is, for errors
 * @returns {Promise<string[]>}
 */
export async function addresses(source, options, param) {
  return isPlain(source, options) ? [addressOf(source)] : (await import("./hub.js")).kept(source, options, param);
}

/**
 * Whether a model is at an address that is told.
 *
 * @param {import("../types.js").ModelSource} source
 * @param {import("../types.js").NameOptions} options
 * @returns {source is string | URL}
 */
function isPlain(source, { quantisation }) {
  return !quantisation && (source instanceof URL || (typeof source === "string" && isAddress(source)));
}
