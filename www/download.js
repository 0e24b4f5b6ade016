import { html } from "./dom.js";

/**
 * Saves a value as a JSON file.
 *
 * @param {string} name of the file, without its ending
 * @param {any} value
 */
export function saveJson(name, value) {
  const url = URL.createObjectURL(new Blob([JSON.stringify(value, null, 2)], { type: "application/json" }));
  html("a", { href: url, download: `${name}.json` }).click();
  URL.revokeObjectURL(url);
}
