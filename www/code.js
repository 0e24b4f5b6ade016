// Code in colours: pieces of it are spans whose parts the page's style colours.
import { common, createLowlight } from "./npm/lowlight.js";
import { html } from "./dom.js";

const lowlight = createLowlight(common);

/** @typedef {ReturnType<typeof lowlight.highlight>["children"][number]} Piece */

/**
 * @param {string} text
 * @param {string} language
 * @returns {Node | null} null where the language is not known
 */
export function coloured(text, language) {
  if (!lowlight.registered(language)) return null;
  const fragment = new DocumentFragment();
  fragment.append(...lowlight.highlight(language, text).children.map(nodeOf));
  return fragment;
}

/**
 * @param {Piece} piece
 * @returns {Node | string}
 */
function nodeOf(piece) {
  if (piece.type === "text") return piece.value;
  if (piece.type !== "element") return "";
  const [name = ""] = /** @type {string[]} */ (piece.properties.className ?? []);
  return html("span", { part: name.replace("hljs", "code") }, ...piece.children.map(nodeOf));
}
