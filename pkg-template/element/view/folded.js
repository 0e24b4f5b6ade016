import { html } from "../dom.js";
import { fill } from "../fill.js";
import { unquote } from "../quotes.js";
import { TEXTS } from "../texts.js";
import { adoptStyle } from "./quoted-style.js";

/**
 * Shows a question with what is attached to it, which is folded.
 *
 * @param {Element} element
 * @param {string} content
 */
export function showFolded(element, content) {
  const { quotes, text } = unquote(content);
  const nodes = quotes.map(({ name, text }) => {
    const size = html("small", {}, fill(TEXTS.characters, { count: text.length }));
    const head = html("summary", {}, html("b", { dir: "auto" }, name), " ", size);
    return html("details", { part: "attached" }, head, html("pre", { tabindex: "0" }, text));
  });
  adoptStyle(element);
  element.replaceChildren(...nodes, text);
}
