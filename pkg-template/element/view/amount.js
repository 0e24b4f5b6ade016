import { TEXTS } from "../texts.js";

/**
 * How much of a model is loaded: the bytes of its download, or the share of what comes then.
 *
 * @param {{stage: string, loaded: number, total: number}} progress
 */
export function amountOf({ stage, loaded, total }) {
  if (stage !== "download") {
    return (Math.floor((100 * loaded) / total) / 100).toLocaleString(TEXTS.locale, { style: "percent" });
  }
  const [size, unit, digits] = total < 1e9 ? [1e6, "megabyte", 1] : [1e9, "gigabyte", 2];
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const whole = { ...options, style: /** @type {const} */ ("unit"), unit };
  return `${(loaded / size).toLocaleString(TEXTS.locale, options)} / ${(total / size).toLocaleString(TEXTS.locale, whole)}`;
}
