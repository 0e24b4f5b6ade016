import { html } from "./dom.js";
import { ALL as TEXTS } from "./view/later.js";

/**
 * Tells that a question is still being read, beside the dots.
 *
 * @param {Pick<import("./view/message.js").Message, "element">} answer
 * @param {Pick<import("./view/view.js").View, "announce">} view
 * @param {AbortSignal} begun aborted when the answer begins
 */
export function tellReading({ element }, view, begun) {
  /** @type {HTMLElement | null} */
  const dots = element.querySelector("[part=waiting]");
  if (!dots || begun.aborted) return;
  const note = html("span", { class: "note" }, TEXTS.reading);
  // Nothing moves for it.
  dots.style.alignItems = "center";
  note.style.marginBlock = "-1rem";
  dots.append(note);
  view.announce(TEXTS.reading);
  begun.addEventListener("abort", () => note.remove());
}
