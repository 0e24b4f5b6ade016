// What a page can name as a model, and how hosts and tabs know it.

/**
 * A model as a host is told of it: at an address, or made of files that the page has.
 *
 * @typedef {object} Model
 * @property {string} url an address; of files, `local:` with what they are known by
 * @property {Map<string, Blob>} [files] by name
 */

/**
 * The address of a model's folder or file.
 *
 * @param {string | URL} address absolute or relative to the page
 */
export function addressOf(address) {
  const url = new URL(address, globalThis.document?.baseURI ?? globalThis.location?.href);
  url.hash = "";
  return /\.gguf$/i.test(url.pathname) ? url.href : url.href.replace(/\/*$/, "/");
}

/**
 * Finds out what a model is known by, and its files if the page has them.
 *
 * @param {import("./types.js").ModelSource} source
 * @returns {Promise<Model>}
 */
export async function identify(source) {
  if (typeof source === "string" || source instanceof URL) return { url: addressOf(source) };
  return (await import("./files.js")).local(source);
}
