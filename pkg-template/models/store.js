// The store for models between visits. The default is the Cache API: all kinds of workers have it, its
// entries are whole or do not exist, and they are read as streams.

export const KINDS = /** @type {const} */ (["cache", "opfs"]);

/** @import { Store } from "./types.js" */

/** @implements {Store} */
class CacheStore {
  #cache;

  /** @param {Cache} cache */
  constructor(cache) {
    this.#cache = cache;
  }

  /** @param {string} key */
  async get(key) {
    const entry = await this.#cache.match(key).catch(() => undefined);
    return entry?.body ?? null;
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
    await this.#cache.delete(key).catch(() => false);
  }

  async keys() {
    const requests = await this.#cache.keys().catch(() => []);
    return requests.map(({ url }) => url);
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
