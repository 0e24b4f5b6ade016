// Whether a model fits, as far as a page can know.
import { formatBytes } from "./format.js";

/** What an engine holds at most, of all models of all tabs, unless it is told otherwise. */
const BUDGET = 4 * 2 ** 30;

/**
 * What is known of a model's chances here, in words. Pages cannot see how much memory graphics have.
 *
 * @param {number} bytes of its weights
 * @param {{usage?: number, quota?: number}} storage
 */
export function fit(bytes, { usage = 0, quota }) {
  if (bytes > BUDGET) return `Too large: an engine holds ${formatBytes(BUDGET)} at most.`;
  // Browsers round it, and tell no more than 8.
  const { deviceMemory } = /** @type {any} */ (navigator);
  const tight = deviceMemory !== undefined && bytes > (deviceMemory * 2 ** 30) / 2;
  if (tight) return `More than half of this device’s ${deviceMemory} GiB of memory: it may not fit.`;
  if (quota === undefined) return "Whether the browser keeps it is not known.";
  return bytes <= quota - usage ? "Fits the browser’s storage." : "More than the browser keeps: downloaded at each visit.";
}
