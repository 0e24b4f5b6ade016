import { ALL as TEXTS } from "./view/later.js";

/**
 * A text with what it leaves open, in braces, filled in.
 *
 * @param {string} text
 * @param {Record<string, string | number>} values
 */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name]?.toLocaleString(TEXTS.locale) ?? whole);
}
