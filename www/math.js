// Formulas as MathML.
import temml from "./npm/temml.js";

/**
 * @param {string} tex throws where it is no TeX
 * @param {boolean} display
 * @returns {Node}
 */
export function typeset(tex, display) {
  const node = document.createElement("span");
  temml.render(tex, node, { displayMode: display, throwOnError: true, maxSize: [20, 20] });
  return node;
}
