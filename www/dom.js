const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element with attributes and children.
 *
 * @param {string} name
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 */
export function html(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/**
 * An SVG element with attributes and children.
 *
 * @param {string} name
 * @param {Record<string, string>} [attributes]
 * @param {...Node} children
 */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/**
 * Gives an element its text, and leaves it alone if it has that already: who reads or selects it is
 * not disturbed.
 *
 * @param {Element} element
 * @param {string} text
 */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Record<string, string>} attributes
 * @param {(Node | string)[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
