// When models were last loaded, and by which names, as the store notes it.
import { nameOf } from "./address.js";
import { MARK } from "./entries.js";
import { openStore, persist } from "./store.js";

/**
 * Notes that models were loaded, and asks the browser to keep what is stored.
 *
 * @param {string} kind of the store
 * @param {({url: string, pin?: string} | null)[]} models
 * @param {boolean} [lasting] whether the browser is asked
 */
export async function note(kind, models, lasting) {
  persist(lasting);
  await Promise.all(models.map((model) => model && noteUse(kind, model.url, model.pin)));
}

/**
 * @param {string} kind
 * @param {string} url of a model
 * @param {string} [pin] the name that was resolved to this address
 */
async function noteUse(kind, url, pin) {
  const store = await openStore(kind);
  const key = nameOf(url) + MARK;
  await store?.put(`${key}-used`, [new TextEncoder().encode(`${Date.now()}`)]);
  if (pin) await store?.put(`${key}-at=${pin}`, []);
}
