// How much memory models may take on this device, and whether they have taken too much.

/** @import { BudgetReason } from "./types.js" */

const GIB = 2 ** 30;

const { userAgent = "", maxTouchPoints = 0, deviceMemory } = /** @type {any} */ (globalThis.navigator ?? {});

/**
 * What kind of device this is. An iPad says that it is a Mac; in a worker it counts as one.
 *
 * @type {Exclude<BudgetReason, "option">}
 */
export const platform =
  /iP(?:hone|ad|od)/.test(userAgent) || (/Mac/.test(userAgent) && maxTouchPoints > 1)
    ? "ios"
    : /Android/.test(userAgent)
      ? "android"
      : "desktop";

/**
 * Memory for all models, and what says so.
 *
 * iOS ends a tab near 1.5 GB. Apps on Android share the device's memory, of which a quarter is taken; on computers
 * half of it, and no more than 4 GiB. Not all browsers say how much there is.
 *
 * @param {number} [budgetBytes] what the page asks for
 * @returns {{budgetBytes: number, budgetReason: BudgetReason}}
 */
export function budget(budgetBytes) {
  if (budgetBytes !== undefined) return { budgetBytes, budgetReason: "option" };
  const most = { ios: 1, android: (deviceMemory ?? 4) / 4, desktop: Math.min(4, (deviceMemory ?? 8) / 2) };
  return { budgetBytes: most[platform] * GIB, budgetReason: platform };
}

/** Loads in progress. While there are any the tab has a mark; a page that finds it at its start died in a load. */
let loads = 0;

/**
 * Whether the tab's page died while it loaded a model, and no load has ended since. Its frames, and pages that it
 * opens, see its mark while it lives; but one that died is reloaded, or restored by the browser.
 */
export let interrupted =
  change("getItem") === "" && /** @type {any} */ (performance.getEntriesByType("navigation")[0])?.type !== "navigate";

/** Marks the tab until the function that it gives is called. */
export function mark() {
  loads += 1;
  change("setItem");
  // A page that is left does not die.
  addEventListener("pagehide", unmark);
  return () => {
    interrupted = false;
    loads -= 1;
    if (loads === 0) unmark();
  };
}

function unmark() {
  removeEventListener("pagehide", unmark);
  change("removeItem");
}

/** @param {"getItem" | "setItem" | "removeItem"} how */
function change(how) {
  try {
    return sessionStorage[how]("tabloom loading", "");
  } catch {
    // The browser denies the page storage.
  }
}
