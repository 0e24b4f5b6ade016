// How much memory models may take on this device.

/** @import { BudgetReason } from "./types.js" */

const GIB = 2 ** 30;

/**
 * What kind of device this is. In a worker an iPad counts as a Mac, which it claims to be.
 *
 * @returns {Exclude<BudgetReason, "option">}
 */
export function platform() {
  const { userAgent = "", maxTouchPoints = 0 } = globalThis.navigator ?? {};
  if (/iP(?:hone|ad|od)/.test(userAgent) || (/Macintosh/.test(userAgent) && maxTouchPoints > 1)) return "ios";
  return /Android/.test(userAgent) ? "android" : "desktop";
}

/**
 * Memory for all models, and what says so.
 *
 * iOS ends a tab near 1.5 GB. Apps on Android share the device's memory, of which a quarter is taken. GPUs of
 * desktops have limits of their own.
 *
 * @param {number} [budgetBytes] what the page asks for
 * @returns {{budgetBytes: number, budgetReason: BudgetReason}}
 */
export function budget(budgetBytes) {
  if (budgetBytes !== undefined) return { budgetBytes, budgetReason: "option" };
  const { deviceMemory = 4 } = /** @type {{deviceMemory?: number}} */ (globalThis.navigator ?? {});
  const budgetReason = platform();
  const most = { ios: GIB, android: (deviceMemory / 4) * GIB, desktop: 4 * GIB };
  return { budgetBytes: Math.min(most[budgetReason], most.desktop), budgetReason };
}
