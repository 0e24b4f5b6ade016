// Whether a model fits, as far as a page can know.
import { formatBytes } from "./format.js";
import { fill, texts } from "./texts.js";

/** The default of `budgetBytes`: the most that the models of all tabs may take. */
const BUDGET = 4 * 2 ** 30;

/**
 * Whether a model is likely to fit, in words. Pages cannot see how much memory the GPU has.
 *
 * @param {number} bytes of its weights
 * @param {{usage?: number, quota?: number}} storage
 */
export function fit(bytes, { usage = 0, quota }) {
  if (bytes > BUDGET) return fill(texts.fit.large, { bytes: formatBytes(BUDGET) });
  // Browsers round it, and report at most 8.
  const { deviceMemory } = /** @type {any} */ (navigator);
  const tight = deviceMemory !== undefined && bytes > (deviceMemory * 2 ** 30) / 2;
  if (tight) return fill(texts.fit.tight, { memory: deviceMemory });
  if (quota === undefined) return texts.fit.unknown;
  return bytes <= quota - usage ? texts.fit.kept : texts.fit.notKept;
}
