// What the site keeps of models between visits, in the browser's Cache API: workers of all kinds have
// it, its entries are whole or not there, and they are read as streams.

/** Entries by address. Nothing here rejects: a model can be loaded without. */
class Store {
  #cache;

  /** @param {Cache} cache */
  constructor(cache) {
    this.#cache = cache;
  }

  /**
   * The bytes of an entry; null if there is none.
   *
   * @param {string} key
   */
  async get(key) {
    const entry = await this.#cache.match(key).catch(() => undefined);
    return entry?.body ?? null;
  }

  /**
   * Keeps bytes; false where the browser does not let it.
   *
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

  /** Bytes that the browser lets the site add, if it tells. */
  async room() {
    /** @type {StorageEstimate} */
    const { quota, usage } = await navigator.storage.estimate().catch(() => ({}));
    return quota === undefined ? undefined : Math.max(0, quota - (usage ?? 0));
  }
}

/** Opens the site's store; null where there is none: in frames of other sites, without https. */
export async function openStore() {
  try {
    return new Store(await caches.open("tabloom"));
  } catch {
    return null;
  }
}

/** Asks the browser to keep what is stored, which it may decline; only pages can. */
export async function persist() {
  await globalThis.navigator.storage?.persist?.().catch(() => false);
}
