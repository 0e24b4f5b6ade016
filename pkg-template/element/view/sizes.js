// How long attached texts are, as it is shown: in characters, until there is an engine that counts tokens.
import { html } from "../dom.js";
import { fill } from "../fill.js";
import { ALL as TEXTS } from "./later.js";

/** @import { Engine } from "../../index.js" */
/** @import { Quote } from "../quotes.js" */

/** @type {WeakMap<Element, Quote>} the texts whose sizes elements show */
const shown = new WeakMap();
/** @type {WeakMap<Quote, {tokens: Promise<number>, engine: Engine}>} */
const counted = new WeakMap();

/** @param {Quote} quote */
export function sizeOf(quote) {
  const size = html("small", {}, fill(TEXTS.characters, { count: quote.text.length }));
  shown.set(size, quote);
  return size;
}

/**
 * Shows all sizes in tokens.
 *
 * @param {Element} area where they are
 * @param {Engine} engine
 */
export function showTokens(area, engine) {
  for (const size of area.querySelectorAll("small")) {
    const quote = shown.get(size);
    if (!quote) continue;
    const show = (/** @type {number} */ count) => {
      size.textContent = fill(TEXTS.tokens, { count });
    };
    // Where the engine is gone, what is shown stays.
    tokensOf(quote, engine).then(show, () => {});
  }
}

/**
 * @param {Quote} quote
 * @param {Engine} engine
 */
export function tokensOf(quote, engine) {
  let known = counted.get(quote);
  if (known?.engine !== engine) {
    known = { engine, tokens: engine.countTokens(quote.text, { addSpecialTokens: false }) };
    counted.set(quote, known);
  }
  return known.tokens;
}
