import { RENDERERS } from "./renderers.js";

/**
 * Asks the page for the code and the formulas in a block that is final.
 *
 * @param {Element} block
 */
export function enrich(block) {
  const { code, math } = RENDERERS;
  if (code) {
    for (const node of within(block, ".code")) {
      const language = /** @type {Element} */ (node.querySelector(".language")).textContent;
      replace(/** @type {Element} */ (node.querySelector("code")), code, (text) => code(text, language));
    }
  }
  if (math) {
    for (const node of within(block, ".math")) {
      replace(node, math, (text) => {
        if (text.startsWith("\\begin")) return math(text, true);
        const length = /^\$[^$]/.test(text) ? 1 : 2;
        return math(text.slice(length, -length).trim(), /^(\$\$|\\\[)/.test(text));
      });
    }
  }
}

/**
 * @param {Element} block
 * @param {string} selector
 */
function within(block, selector) {
  return block.matches(selector) ? [block] : block.querySelectorAll(selector);
}

/** @type {WeakSet<object>} the renderers that have failed */
const failed = new WeakSet();

/**
 * @param {Element} node
 * @param {object} renderer that is asked
 * @param {(text: string) => Node | null | Promise<Node | null>} render
 */
async function replace(node, renderer, render) {
  const text = /** @type {string} */ (node.textContent);
  try {
    const made = await render(text);
    // Another text may have come meanwhile.
    if (made && node.textContent === text) node.replaceChildren(made);
  } catch (error) {
    // The text stays; whoever wrote the renderer is told once.
    if (!failed.has(renderer)) console.warn(error);
    failed.add(renderer);
  }
}
