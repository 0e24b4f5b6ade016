import { html } from "./dom.js";
import { ALL as TEXTS } from "./view/later.js";

/** Milliseconds after which it is told. */
const LONG = 1_000;

/**
 * Tells beside the dots that an answer takes long to begin: its question is being read, or the model thinks.
 *
 * @param {Pick<import("./view/message.js").Message, "element">} answer
 * @param {Pick<import("./view/view.js").View, "announce">} view
 */
export function ponder({ element }, view) {
  /** @type {HTMLElement | null} */
  const dots = element.querySelector("[part=waiting]");
  setTimeout(() => {
    if (!dots?.isConnected) return;
    const note = html("span", { class: "note" }, TEXTS.pondering);
    // Nothing moves for it.
    dots.style.alignItems = "center";
    note.style.marginBlock = "-1rem";
    dots.append(note);
    view.announce(TEXTS.pondering);
  }, LONG);
}
