import { html } from "./dom.js";

/**
 * Saves a value as a JSON file.
 *
 * @param {string} name of the file, without its ending
 * @param {any} value
 */
export function saveJson(name, value) {
  save(`${name}.json`, "application/json", JSON.stringify(value, null, 2));
}

/**
 * Saves a text as a file.
 *
 * @param {string} name of the file
 * @param {string} type
 * @param {string} text
 */
export function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  html("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
