// The keys of a store's entries: the address of a file, and what the entry is; and the records among them.
import { answered, openStore } from "./store.js";

/** @import { Store } from "./types.js" */

/** A file of a GGUF model in several files. */
const PART = /-\d{5}(-of-\d{5}\.gguf)$/i;

/**
 * Follows the address in a key of a store. After it comes nothing for a file's record, `=` and a number for a
 * chunk, `-used` for the time of the last load, `-at=` and a pin: the name that was resolved to this address,
 * {@link DECLINED}, or `-kv` for stored prefixes.
 */
export const MARK = "?tabloom";

/** Follows the mark where Cross-Origin Storage did not take a file. */
export const DECLINED = "-declined";

/**
 * The address below `folder` that a pin was resolved to before, if there is one.
 *
 * @param {string} kind
 * @param {string} folder
 * @param {string} pin
 */
export async function pinned(kind, folder, pin) {
  if (kind === "none") return;
  const keys = openStore(kind).then((store) => store?.keys());
  const noted = entries((await answered(keys, [])) ?? []);
  return noted.find(({ address, rest }) => rest === `-at=${pin}` && address.startsWith(folder))?.address;
}

/** @param {string[]} keys of a store */
export function entries(keys) {
  return keys
    .filter((key) => key.includes(MARK))
    .map((key) => {
      const end = key.lastIndexOf(MARK);
      return { address: key.slice(0, end), rest: key.slice(end + MARK.length) };
    })
    .filter(({ address }) => isAddress(address));
}

/**
 * Whether an entry is of a file: any script of the site may have written others.
 *
 * @param {string} address
 */
function isAddress(address) {
  try {
    return Boolean(new URL(address));
  } catch {
    return false;
  }
}

/**
 * The address of the model that a file belongs to.
 *
 * @param {string} address
 */
export function modelOf(address) {
  const url = new URL(address);
  const { pathname } = url;
  url.pathname = /\.gguf$/i.test(pathname)
    ? pathname.replace(PART, "-00001$1")
    : // A drafter in the folder `draft` is part of its model.
      pathname.replace(/(\/draft)?\/[^/]*$/, "/");
  return url.href;
}

/**
 * The record of a file, or another record beside it; empty if it cannot be read. Its fields may be anything.
 *
 * @param {Store} store
 * @param {string} address
 * @param {string} [kind]
 */
export async function record(store, address, kind = "") {
  try {
    return Object(JSON.parse(await text(store, address + MARK + kind)));
  } catch {
    return {};
  }
}

/**
 * The content of an entry, as text; empty if it cannot be read.
 *
 * @param {Store} store
 * @param {string} key
 */
export async function text(store, key) {
  const stream = await store.get(key);
  return new Response(stream).text().catch(() => "");
}
