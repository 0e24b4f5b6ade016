// The keys of a store's entries: the address of a file, and what the entry is.
import { nameOf } from "./address.js";
import { openStore } from "./store.js";

/**
 * Follows the address in a key. After it comes nothing for a file's record, `=` and a number for a chunk,
 * `-used` for the time of the last load, `-at=` and a pin: the name that was resolved to this address, or
 * `-kv` for stored prefixes.
 */
export const MARK = "?tabloom";

/**
 * @param {string} kind
 * @param {string} url of a model
 * @param {string} [pin] the name that was resolved to this address
 */
export async function noteUse(kind, url, pin) {
  const store = await openStore(kind);
  const name = nameOf(url);
  await store?.put(`${name}${MARK}-used`, [new TextEncoder().encode(`${Date.now()}`)]);
  if (pin) await store?.put(`${name}${MARK}-at=${pin}`, []);
}

/**
 * The address below `folder` that a pin was resolved to before, if there is one.
 *
 * @param {string} kind
 * @param {string} folder
 * @param {string} pin
 */
export async function pinned(kind, folder, pin) {
  const store = kind === "none" ? null : await openStore(kind);
  const noted = entries((await store?.keys()) ?? []);
  return noted.find(({ address, rest }) => rest === `-at=${pin}` && address.startsWith(folder))?.address;
}

/** @param {string[]} keys of a store */
export function entries(keys) {
  return keys
    .filter((key) => key.includes(MARK))
    .map((key) => {
      const end = key.lastIndexOf(MARK);
      return { address: key.slice(0, end), rest: key.slice(end + MARK.length) };
    });
}
