// What is said of values that are refused.
import { invalid, kindOf } from "./error.js";

/** Most characters of a value that are told. */
const BRIEF = 60;

/**
 * A value that an option or a parameter does not have.
 *
 * @param {string} param
 * @param {unknown} found
 * @param {string} expected
 */
export function noValue(param, found, expected) {
  return invalid(param, `found ${shown(found)}, expected ${expected}`);
}

/**
 * What cannot be read.
 *
 * @param {string} param
 * @param {unknown} thrown
 * @param {string} [expected]
 */
export function unread(param, thrown, expected = "plain values") {
  return invalid(param, `found what cannot be read (${reason(thrown)}), expected ${expected}`);
}

/**
 * The words of what was thrown, whatever it is.
 *
 * @param {any} thrown
 */
export function reason(thrown) {
  try {
    return brief(String(thrown?.message ?? thrown));
  } catch {
    return kindOf(thrown);
  }
}

/** @param {string} text */
export function brief(text) {
  return text.slice(0, BRIEF);
}

/** @param {any} value */
function shown(value) {
  if (value === undefined) return "nothing";
  if (typeof value === "string") return JSON.stringify(brief(value));
  const kind = kindOf(value);
  try {
    if (Object(value) !== value) return String(value);
    if (kind === "Object" || kind === "Array") return brief(JSON.stringify(value));
  } catch {
    // Its kind says enough.
  }
  return kind || "what cannot be read";
}
