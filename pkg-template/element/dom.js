const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element with attributes and children.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 */
export function html(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/**
 * An icon of 24 by 24, in the colour of the text.
 *
 * @param {string} path
 */
export function icon(path) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

/**
 * Makes a field as high as its text, in browsers without `field-sizing`.
 *
 * @param {HTMLElement} field
 * @param {number} [borders] height of its borders
 */
export function grow(field, borders = 0) {
  if (globalThis.CSS?.supports?.("field-sizing", "content")) return;
  field.style.blockSize = "";
  // A hidden field has no height: what is no length changes nothing.
  field.style.blockSize = `${field.scrollHeight + borders || ""}px`;
}

/**
 * Makes the child nodes of a parent equal to others. Those that are equal stay, with their selection, focus
 * and scroll position.
 *
 * @param {Element} parent
 * @param {Node[]} nodes
 * @param {number} [from] the first of the parent's nodes that may be changed
 */
export function morph(parent, nodes, from = 0) {
  for (const [i, node] of nodes.entries()) {
    const old = parent.childNodes[from + i];
    if (!old) parent.append(node);
    else if (old instanceof Text && node instanceof Text) {
      if (old.data !== node.data) extend(old, node.data);
    } else if (old instanceof Element && node instanceof Element && isAlike(old, node)) {
      morph(old, [...node.childNodes]);
    } else old.replaceWith(node);
  }
  while (parent.childNodes.length > from + nodes.length) parent.lastChild?.remove();
}

/**
 * @param {Text} text
 * @param {string} data
 */
function extend(text, data) {
  if (data.startsWith(text.data)) text.appendData(data.slice(text.length));
  else text.data = data;
}

/**
 * @param {Element} a
 * @param {Element} b
 */
function isAlike(a, b) {
  return a.cloneNode().isEqualNode(b.cloneNode());
}
