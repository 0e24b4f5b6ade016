// What the page says, in the visitor's language: English, unless there is a table of another.
import { TEXTS as ELEMENT } from "./tabloom/element/parts.js";
import { languageOf, textsFor } from "./tabloom/element/texts/index.js";
import EN from "./texts/en.js";

/** @import { Table } from "./table.js" */

/** What is said, by module: in English until the language is loaded. */
export const texts = EN;

/** As in `de-AT`: how numbers and dates are written. */
export let locale = "en";

/** @type {Record<string, () => Promise<{default: Table}>>} those that the element has, too */
const TABLES = {
  de: () => import("./texts/de.js"),
  es: () => import("./texts/es.js"),
  fr: () => import("./texts/fr.js"),
  ja: () => import("./texts/ja.js"),
  zh: () => import("./texts/zh.js"),
};

/** Loads the language of the address, as in `?lang=de`, or else the first of the browser's that there is. */
export async function loadLanguage() {
  const code = languageOf([new URLSearchParams(location.search).get("lang") ?? "", ...navigator.languages]);
  try {
    if (code !== "en") await use(code);
    locale = navigator.languages.find((tag) => tag.split("-")[0].toLowerCase() === code) ?? code;
  } catch (error) {
    // No network: the page says it in English.
    console.warn(error);
  }
  Object.assign(ELEMENT, texts.element);
}

/**
 * A text with what it leaves open, in braces, filled in.
 *
 * @param {string} text
 * @param {Record<string, string | number>} values
 */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name] ?? whole;
    return typeof value === "number" ? number(value) : value;
  });
}

/**
 * A number as the language writes it.
 *
 * @param {number} value
 * @param {Intl.NumberFormatOptions} [options]
 */
export function number(value, options) {
  return value.toLocaleString(locale, options);
}

/** @param {string} code of a language that there is a table of */
async function use(code) {
  const [{ default: page }, element] = await Promise.all([TABLES[code](), textsFor([code])]);
  const { html, ...groups } = page;
  for (const [name, group] of Object.entries(groups)) Object.assign(texts[/** @type {"chat"} */ (name)], group);
  Object.assign(ELEMENT, element);
  document.documentElement.lang = code;
  const ask = (/** @type {string} */ attribute, /** @type {(element: Element, text: string) => void} */ set) => {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      set(element, html[element.getAttribute(attribute) ?? ""]);
    }
  };
  ask("data-text", put);
  for (const name of ["aria-label", "content", "placeholder"]) {
    ask(`data-${name}`, (element, text) => element.setAttribute(name, text));
  }
}

/**
 * Replaces the text of an element. Its first child goes where the text has `{0}`, the second to `{1}`.
 *
 * @param {Element} element
 * @param {string} text
 */
function put(element, text) {
  const children = [...element.children];
  element.replaceChildren(...text.split(/\{(\d)\}/).map((part, i) => (i % 2 ? children[Number(part)] : part)));
}
