// A menu of actions, below what opens it.
import { button } from "./dom.js";

/**
 * Shows a menu until one of its actions is chosen, or none.
 *
 * @param {HTMLElement} menu a popover
 * @param {HTMLElement} source what opens it
 * @param {[text: string, run: () => void][]} actions
 */
export function offer(menu, source, actions) {
  const chosen = (/** @type {() => void} */ run) => () => {
    menu.hidePopover();
    run();
  };
  menu.replaceChildren(...actions.map(([text, run]) => button(text, chosen(run), { role: "menuitem" })));
  menu.showPopover();
  place(menu, source);
  // As a phone is turned.
  globalThis.onresize = () => place(menu, source);
  menu.onkeydown = (event) => step(menu, event);
  menu.ontoggle = (event) => {
    if (/** @type {ToggleEvent} */ (event).newState !== "closed") return;
    globalThis.onresize = null;
    if (document.activeElement === document.body) source.focus();
  };
  /** @type {HTMLElement} */ (menu.firstElementChild).focus();
}

/**
 * Puts a menu below what opens it, within the window.
 *
 * @param {HTMLElement} menu
 * @param {HTMLElement} source
 */
function place({ offsetWidth: width, offsetHeight: height, style }, source) {
  const { bottom, right, left } = source.getBoundingClientRect();
  const start = getComputedStyle(source).direction === "rtl" ? left : right - width;
  style.left = `${Math.max(8, Math.min(start, innerWidth - width - 8))}px`;
  style.top = `${Math.max(8, Math.min(bottom + 4, innerHeight - height - 8))}px`;
}

/**
 * Moves the focus in a menu.
 *
 * @param {HTMLElement} menu
 * @param {KeyboardEvent} event
 */
function step(menu, event) {
  const items = /** @type {HTMLElement[]} */ ([...menu.children]);
  const i = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const { length } = items;
  const next = { ArrowDown: (i + 1) % length, ArrowUp: (i - 1 + length) % length, Home: 0, End: length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  items[next].focus();
}
