// What writes that were cut off have left in a store.
import { MARK, entries, modelOf, record } from "./entries.js";
import { openStore } from "./store.js";

/** What follows the mark in the keys of a file's record and chunks. */
const OF_A_FILE = /^(?:=(\d+))?$/;

/**
 * Deletes the leftovers of a model, which nobody may be writing: chunks that no record names, and records that
 * cannot be read.
 *
 * @param {string} kind of store
 * @param {string} url of the model
 */
export async function sweep(kind, url) {
  const store = await openStore(kind);
  if (!store) return;
  await store.sweep?.();
  /** @type {Map<string, number[]>} chunks by the address of their file */
  const files = new Map();
  for (const { address, rest } of entries(await store.keys())) {
    const [is, chunk] = OF_A_FILE.exec(rest) ?? [];
    if (is === undefined || modelOf(address) !== url) continue;
    const chunks = files.get(address) ?? [];
    files.set(address, chunk ? [...chunks, Number(chunk)] : chunks);
  }
  for (const [address, found] of files) {
    const { chunk_bytes, chunks = [] } = await record(store, address);
    if (!chunk_bytes) await store.delete(address + MARK);
    for (const chunk of found) if (!(chunk < chunks.length)) await store.delete(`${address}${MARK}=${chunk}`);
  }
}
