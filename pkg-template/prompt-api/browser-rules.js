// What browsers ask before they give a session; with `browserRules` it is asked here as well.
import { unlessAborted } from "../abort.js";
import { unsupported } from "./errors.js";

/** @import { LanguageModelAvailability } from "../types.js" */

/** What permissions policies call the Prompt API. */
const FEATURE = "language-model";

/** Whether the page's permissions policy lets it have sessions. Only Chromium tells. */
export function isAllowed() {
  const { featurePolicy } = /** @type {any} */ (globalThis.document ?? {});
  return !featurePolicy?.features().includes(FEATURE) || featurePolicy.allowsFeature(FEATURE);
}

/** Throws where the page's permissions policy keeps it from sessions. */
export function expectAllowed() {
  if (!isAllowed()) throw notAllowed(`found a permissions policy without ${FEATURE}, expected it in allow="…"`);
}

/**
 * Throws where the model cannot run, or would be downloaded and the visitor has not touched the page yet. In workers
 * nobody can.
 *
 * @param {{availability: () => Promise<LanguageModelAvailability>}} model
 * @param {AbortSignal} [signal]
 */
export async function expectActivation(model, signal) {
  const asked = model.availability();
  const availability = await (signal ? unlessAborted(asked, signal) : asked);
  if (availability === "unavailable")
    throw unsupported("found no such model for this device: Engine.probe() tells why");
  if (availability === "downloadable" && !globalThis.navigator.userActivation?.hasBeenActive) {
    throw notAllowed("found no click or key of the visitor, expected one before a download");
  }
}

/** @param {string} message */
function notAllowed(message) {
  return new DOMException(message, "NotAllowedError");
}
