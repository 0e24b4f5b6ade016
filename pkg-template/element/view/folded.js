import { html } from "../dom.js";
import { unquote } from "../quotes.js";
import { adoptStyle } from "./quoted-style.js";
import { showTokens, sizeOf } from "./sizes.js";

/**
 * Shows a question with what is attached to it, which is folded.
 *
 * @param {Element} element
 * @param {string} content
 * @param {import("../../index.js").Engine | null} [engine] counts its tokens
 */
export function showFolded(element, content, engine) {
  const { quotes, text } = unquote(content);
  const nodes = quotes.map((quote) => {
    const head = html("summary", {}, html("b", { dir: "auto" }, quote.name), " ", sizeOf(quote));
    return html("details", { part: "attached" }, head, html("pre", { tabindex: "0" }, quote.text));
  });
  adoptStyle(element);
  element.replaceChildren(...nodes, text);
  if (engine) showTokens(element, engine);
}
