// Gives weights that a site has downloaded to all sites, in Cross-Origin Storage. The site's own copy goes: it reads
// them from there, too.
import { WEIGHTS, find, write } from "./cross-origin.js";
import { DECLINED, MARK, entries, modelOf, record } from "./entries.js";
import { loading } from "./inventory.js";
import { openStore } from "./store.js";

/** @import { Store } from "./types.js" */

/**
 * Offers the files of a model that is loaded; those that are refused are not offered again.
 *
 * @param {string} kind of store
 * @param {string} model its address
 */
export async function offer(kind, model) {
  const store = await openStore(kind);
  if (!store) return;
  // One worker does it.
  await navigator.locks.request(`tabloom offer ${model}`, { ifAvailable: true }, async (lock) => {
    if (!lock) return;
    const keys = new Set(await store.keys());
    const own = entries([...keys]).filter(({ address, rest }) => rest === "" && modelOf(address) === model);
    for (const { address } of own) {
      const { pathname } = new URL(address);
      if (WEIGHTS.test(pathname) && !keys.has(address + MARK + DECLINED)) await move(store, keys, address);
    }
  });
}

/**
 * @param {Store} store
 * @param {Set<string>} keys of its entries
 * @param {string} address of a file
 */
async function move(store, keys, address) {
  const { is_sealed, sha256, bytes, chunks = [] } = await record(store, address);
  const own = Object.keys(chunks).map((index) => `${address}${MARK}=${index}`);
  const isWhole = own.length > 0 && own.every((key) => keys.has(key));
  // A seal says that the file had this digest, where there is one, when a model was loaded from it.
  if (!is_sealed || !sha256 || !isWhole) return;
  let deleted = false;
  async function* pieces() {
    for (const key of own) {
      const stream = await store.get(key);
      deleted = !stream;
      if (!stream) return;
      yield new Response(stream).blob();
    }
  }
  if ((await write(sha256, pieces())) && (await find(sha256))?.size === bytes) {
    // Nobody may be reading the copy.
    await navigator.locks.request(loading(modelOf(address)), async () => {
      for (const key of own) await store.delete(key);
    });
  } else if (!deleted) await store.put(address + MARK + DECLINED, []);
}
