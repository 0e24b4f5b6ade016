// The page's views: a list of tabs, of which one is shown, named in the address after `#`.
import { $ } from "./dom.js";

/** Pixels of what is before the tab that is shown, where that has to scroll. */
const EDGE = 48;

/** Dispatches `change` when another view is shown. */
export class Tabs extends EventTarget {
  /** @type {HTMLElement[]} */
  #tabs;

  /** @param {HTMLElement} list */
  constructor(list) {
    super();
    this.#tabs = Array.from(list.children, (tab) => /** @type {HTMLElement} */ (tab));
    list.addEventListener("click", ({ target }) => {
      const tab = this.#tabs.find((tab) => tab.contains(/** @type {Node} */ (target)));
      if (tab && viewOf(tab) !== this.current) {
        history.pushState(null, "", `#${viewOf(tab)}`);
        this.#show(tab);
      }
    });
    list.addEventListener("keydown", (event) => this.#pressed(event));
    addEventListener("hashchange", () => this.#follow());
    this.#follow();
  }

  /** The name of the view that is shown. */
  get current() {
    const tab = this.#tabs.find((tab) => tab.ariaSelected === "true");
    return viewOf(/** @type {HTMLElement} */ (tab));
  }

  /** Shows the view that the address names. */
  #follow() {
    const name = location.hash.slice(1);
    this.#show(this.#tabs.find((tab) => viewOf(tab) === name) ?? this.#tabs[0]);
  }

  /** @param {HTMLElement} shown */
  #show(shown) {
    for (const tab of this.#tabs) {
      tab.setAttribute("aria-selected", `${tab === shown}`);
      tab.tabIndex = tab === shown ? 0 : -1;
      $(viewOf(tab)).hidden = tab !== shown;
    }
    // There may not be room for all of them; `scrollIntoView` would change where the next Tab key leads.
    const list = /** @type {HTMLElement} */ (shown.parentElement);
    list.scrollLeft = shown.offsetLeft - list.offsetLeft - EDGE;
    this.dispatchEvent(new Event("change"));
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const { length } = this.#tabs;
    const i = this.#tabs.indexOf(/** @type {HTMLElement} */ (event.target));
    const next = { ArrowRight: i + 1, ArrowLeft: i - 1 + length, Home: 0, End: length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const tab = this.#tabs[next % length];
    // Arrows pass views by: these are no places to come back to.
    history.replaceState(null, "", `#${viewOf(tab)}`);
    this.#show(tab);
    tab.focus();
  }
}

/** @param {HTMLElement} tab */
function viewOf(tab) {
  return tab.getAttribute("aria-controls") ?? "";
}
