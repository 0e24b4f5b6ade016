// Makes and changes elements, beyond what the package's element has for that.
import { grow, html } from "./tabloom/element/parts.js";

export { grow, html };

const SVG = "http://www.w3.org/2000/svg";

/**
 * The element of the page with this id.
 *
 * @param {string} id
 * @returns {any}
 */
export function $(id) {
  return document.getElementById(id);
}

/**
 * An SVG element with attributes and children.
 *
 * @param {string} name
 * @param {Record<string, string>} [attributes]
 * @param {...Node} children
 */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/**
 * A button with its handler.
 *
 * @param {string} text
 * @param {(event: MouseEvent) => void} onClick
 * @param {Record<string, string>} [attributes]
 */
export function button(text, onClick, attributes = {}) {
  const element = html("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", onClick);
  return element;
}

/**
 * Sets the text of an element, unless it is the same already: that would disturb a selection or a
 * screen reader.
 *
 * @param {Element} element
 * @param {string} text
 */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
