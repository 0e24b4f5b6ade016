// What the keys of a store say: of which file an entry is, and of what kind.
import { openStore } from "./store.js";

/**
 * What stands behind the address in a key: nothing in that of a file's record, `=` and its number in a
 * chunk's, `-used` in what notes when the model was last loaded, `-at=` in what notes the name that led
 * to this address.
 */
export const MARK = "?tabloom";

/**
 * Notes that a model has been loaded from a store, or into it.
 *
 * @param {string} kind
 * @param {string} url
 * @param {string} [pin] what led to this address
 */
export async function noteUse(kind, url, pin) {
  const store = await openStore(kind);
  await store?.put(`${url}${MARK}-used`, [new TextEncoder().encode(`${Date.now()}`)]);
  if (pin) await store?.put(`${url}${MARK}-at=${pin}`, []);
}

/**
 * The address below `folder` to which a pin led before, if that is noted.
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

/**
 * The entries of models among those of a store.
 *
 * @param {string[]} keys
 */
export function entries(keys) {
  return keys.filter((key) => key.includes(MARK)).map((key) => {
    const end = key.lastIndexOf(MARK);
    return { address: key.slice(0, end), rest: key.slice(end + MARK.length) };
  });
}
