// Addresses of models.

/** A file of a GGUF model in several files, other than the first. */
export const LATER_PART = /-(?!00001)\d{5}-of-\d{5}\.gguf$/i;
/** An address has a scheme, begins with `/` or `.`, ends with `/` or `.gguf`, or has a `?` or `#`. */
const ADDRESS = /^(?!hf:)(?:[a-z][\w+.-]*:|[./]|.*(?:\/|\.gguf)$|.*[?#])/i;

/** @param {string} text */
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
