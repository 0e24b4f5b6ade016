// The keys of a store's entries: the address of a file, and what the entry is.
import { openStore } from "./store.js";
import { MARK } from "./use.js";

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
