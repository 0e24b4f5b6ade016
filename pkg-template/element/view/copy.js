import { icon } from "../dom.js";
import { ALL as TEXTS } from "./later.js";

/** @import { Owner } from "./types.js" */

const CHECK = "M5 12.5l4.5 4.5L19 7.5";
/** Milliseconds for which the button shows that it has copied. */
const SHOWN = 1_600;

/**
 * Copies a text, and shows that on the button.
 *
 * @param {HTMLElement} button
 * @param {string} text
 * @param {Pick<Owner, "announce">} view announces to screen readers
 */
export async function copy(button, text, view) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    return view.announce(TEXTS.notCopied);
  }
  view.announce(TEXTS.copied);
  const before = [...button.childNodes];
  if (button.querySelector(".done")) return;
  const done = icon(CHECK);
  done.setAttribute("class", "done");
  button.replaceChildren(done);
  setTimeout(() => button.replaceChildren(...before), SHOWN);
}
