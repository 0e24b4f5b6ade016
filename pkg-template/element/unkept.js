import { ALL as TEXTS } from "./view/later.js";

/** @type {WeakSet<object>} the views whose visitors know */
const told = new WeakSet();

/**
 * Tells once that a conversation is only on the page.
 *
 * @param {Pick<import("./view/view.js").View, "tell">} view
 * @param {unknown} error why the browser does not keep it
 */
export function tellUnkept(view, error) {
  if (told.has(view)) return;
  told.add(view);
  console.warn(error);
  view.tell(TEXTS.unkept);
}
