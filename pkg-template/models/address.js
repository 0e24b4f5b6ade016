// Addresses of models, and texts that are such.

/** A file of a GGUF model in several, but the first. */
export const LATER_PART = /-(?!00001)\d{5}-of-\d{5}\.gguf$/i;
/** Text that is an address and no name. */
const ADDRESS = /^(?!hf:)(?:[a-z][\w+.-]*:|[./]|.*(?:\/|\.gguf)$|.*[?#])/i;

/**
 * Whether a text is an address: it begins with a scheme, `/` or `.`, ends with `/` or `.gguf`,
 * or has a `?` or `#`.
 *
 * @param {string} text
 */
export function isAddress(text) {
  return ADDRESS.test(text);
}

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
