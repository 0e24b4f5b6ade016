// Whether a model fits, as far as a page can know.
import { formatBytes } from "./format.js";

/** The default of `budgetBytes`: the most that the models of all tabs may take. */
const BUDGET = 4 * 2 ** 30;

/**
 * Whether a model is likely to fit, in words. Pages cannot see how much memory the GPU has.
 *
 * @param {number} bytes of its weights
 * @param {{usage?: number, quota?: number}} storage
 */
export function fit(bytes, { usage = 0, quota }) {
  if (bytes > BUDGET) return `Too large: an engine holds ${formatBytes(BUDGET)} at most.`;
  // Browsers round it, and report at most 8.
  const { deviceMemory } = /** @type {any} */ (navigator);
  const tight = deviceMemory !== undefined && bytes > (deviceMemory * 2 ** 30) / 2;
  if (tight) return `More than half of this device’s ${deviceMemory} GiB of memory: it may not fit.`;
  if (quota === undefined) return "Whether the browser keeps it is not known.";
  return bytes <= quota - usage
    ? "Fits the browser’s storage."
    : "More than the browser keeps: downloaded at each visit.";
}
