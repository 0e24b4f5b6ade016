// The store for models between visits. The default is the Cache API: all kinds of workers have it, its
// entries are whole or do not exist, and they are read as streams.
import { unlessAborted } from "../abort.js";

export const KINDS = /** @type {const} */ (["cache", "opfs"]);

/** @import { Store } from "./types.js" */

/** Milliseconds for what the browser's storage answers a page; workers have a limit of their own. */
const PATIENCE = 30_000;

/**
 * What a page is answered that asks for what is kept; `otherwise`, as where nothing is, if that is not in time.
 *
 * @template T
 * @param {Promise<T>} answer
 * @param {T} otherwise
 * @returns {Promise<T>}
 */
export async function answered(answer, otherwise) {
  const late = AbortSignal.timeout(PATIENCE);
  try {
    return await unlessAborted(answer, late);
  } catch (error) {
    if (error === late.reason) return otherwise;
    throw error;
  }
}

/** @implements {Store} */
class CacheStore {
  #cache;

  /** @param {Cache} cache */
  constructor(cache) {
    this.#cache = cache;
  }

  /** @param {string} key */
  async get(key) {
    try {
      return (await this.#cache.match(key))?.body ?? null;
    } catch {
      return null;
    }
  }

  /**
   * @param {string} key
   * @param {Uint8Array<ArrayBuffer>[]} bytes
   */
  async put(key, bytes) {
    try {
      await this.#cache.put(key, new Response(new Blob(bytes)));
      return true;
    } catch {
      return false;
    }
  }

  /** @param {string} key */
  async delete(key) {
    try {
      await this.#cache.delete(key);
    } catch {
      // The disk fails.
    }
  }

  async keys() {
    try {
      return (await this.#cache.keys()).map(({ url }) => url);
    } catch {
      return [];
    }
  }

  room = room;
}

async function room() {
  const { quota, usage } = await estimate();
  return quota === undefined ? undefined : Math.max(0, quota - (usage ?? 0));
}

/**
 * Bytes that the site uses of the browser's storage, and may use at most.
 *
 * @returns {Promise<StorageEstimate>}
 */
export async function estimate() {
  return (await globalThis.navigator?.storage?.estimate?.().catch(() => ({}))) ?? {};
}

/**
 * Opens the site's store; null where there is none, as in frames of other sites or without https.
 *
 * @param {string} kind
 * @returns {Promise<Store | null>}
 */
export async function openStore(kind) {
  try {
    if (kind === "cache") return new CacheStore(await caches.open("tabloom"));
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("tabloom", { create: true });
    const { FileStore } = await import("./opfs.js");
    return new FileStore(folder, room);
  } catch {
    return null;
  }
}

/**
 * Asks the browser never to evict what is stored, which it may decline; only pages can ask.
 *
 * @param {boolean} [wanted] default where the browser decides by itself: Firefox asks the visitor
 */
export async function persist(wanted = !/ Gecko\/\d/.test(navigator.userAgent)) {
  if (wanted) await globalThis.navigator.storage?.persist?.().catch(() => false);
}
