// The engine's errors as the Prompt API's.
import { TabloomError } from "../error.js";

/** What a page may ask for that the engine, or this model, cannot do. */
const OPTIONAL = /^(structured_outputs|tools)\b/;

/**
 * The result of `work`, with the engine's errors as the API's.
 *
 * @template T
 * @param {() => Promise<T>} work
 */
export async function guarded(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof TabloomError)) throw error;
    const { code, message, param } = error;
    const unsupported = code === "invalid_request" && OPTIONAL.test(param ?? "");
    throw new DOMException(message, unsupported ? "NotSupportedError" : "UnknownError");
  }
}

/** What keeps a model from running on this device. */
const BEYOND = ["no_gpu", "too_large", "out_of_memory", "over_budget", "no_host", "pipeline"];
/** What keeps it from coming here. */
const NETWORK = ["fetch", "missing_part", "truncated", "integrity"];

/**
 * Why a model could not be loaded.
 *
 * @param {unknown} error
 */
export function notLoaded(error) {
  if (!(error instanceof TabloomError)) return error;
  const { code, message } = error;
  const name = BEYOND.includes(code) ? "NotSupportedError" : NETWORK.includes(code) ? "NetworkError" : "OperationError";
  return new DOMException(message, name);
}

/** @param {string} message */
export function unsupported(message) {
  return new DOMException(message, "NotSupportedError");
}

/**
 * @param {number} requested
 * @param {number} quota
 */
export function quotaExceeded(requested, quota) {
  const message = `found ${requested} tokens, expected at most ${quota}`;
  const { QuotaExceededError } = /** @type {any} */ (globalThis);
  if (QuotaExceededError) return new QuotaExceededError(message, { requested, quota });
  return Object.assign(new DOMException(message, "QuotaExceededError"), { requested, quota });
}
