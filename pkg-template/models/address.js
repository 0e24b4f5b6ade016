// Addresses of models.
import { invalid, kindOf } from "../error.js";

/** An address has a scheme, begins with `/` or `.`, ends with `/` or `.gguf`, or has a `?` or `#`. */
const ADDRESS = /^(?!hf:)(?:[a-z][\w+.-]*:|[./]|.*(?:\/|\.gguf)$|.*[?#])/i;

/** The parameter that signs a query, such as `sig`, `X-Amz-Signature` or `token`. */
const SIGNATURE =
  /[?&](?:[\w-]*[-_])?(?:sig|sign|signature|token|hdnea|hdnt[sl]|hmac|jwt|md5|auth|auth_key|api_?key|verify)=/i;

/** @param {string} text */
export function isAddress(text) {
  return ADDRESS.test(text);
}

/**
 * The address of a model's folder or file. The query of a signed address becomes its hash, as the files
 * are the same under each signature: it is sent with requests, and is no part of the model's name.
 *
 * @param {string | URL} address absolute or relative to the page
 * @param {string} [param] what it is called in errors
 */
export function addressOf(address, param = "model") {
  const url = resolved(address, param);
  url.hash = "";
  if (SIGNATURE.test(url.search)) [url.hash, url.search] = [url.search.slice(1), ""];
  // A percent sign that encodes nothing is part of a name.
  url.pathname = url.pathname.replace(/%(?![\da-f]{2})/gi, "%25");
  if (!/\.gguf$/i.test(url.pathname)) url.pathname = url.pathname.replace(/\/*$/, "/");
  return url.href;
}

/**
 * @param {string | URL} address
 * @param {string} param
 */
export function resolved(address, param) {
  try {
    return new URL(address, globalThis.document?.baseURI ?? globalThis.location?.href);
  } catch {
    const found = typeof address === "string" ? JSON.stringify(address.slice(0, 60)) : kindOf(address);
    throw invalid(param, `found ${found}, expected an address`);
  }
}

/**
 * The address by which a model is known: without a signature.
 *
 * @param {string} address
 */
export function nameOf(address) {
  return address.split("#")[0];
}

/**
 * A path as part of an address.
 *
 * @param {string} path of plain names
 */
export function encoded(path) {
  return path.replace(/[^/]+/g, encodeURIComponent);
}
