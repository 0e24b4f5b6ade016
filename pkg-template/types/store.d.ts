// Models that are kept between visits.

/** A model that is kept, whole or in part. */
export interface StoredModel {
  /** Its address without a signature, as `Engine.load` and `Engine.store.delete` take it. */
  model: string;
  store: "cache" | "opfs";
  /** How many of its files are kept, whole or in part. */
  files: number;
  /** Bytes of its files that are kept in the site's own storage. */
  bytes: number;
  /**
   * Bytes of its files that are in Cross-Origin Storage instead, which all sites share. Deleting the model leaves
   * them there.
   */
  sharedBytes: number;
  /** Bytes of keys and values of conversations that are stored with it (`prefixCache.storedBytes`). */
  prefixBytes: number;
  /** Whether the next load needs no network. */
  complete: boolean;
  /** When it was last loaded; null if no load has ended. */
  lastUsed: Date | null;
}

export interface StoreSize {
  /** Bytes of all models that are kept in the site's own storage, and of what is stored of conversations with them. */
  bytes: number;
  /** Bytes that the site uses of the browser's storage, for models and anything else. */
  usage?: number;
  /** Most bytes that it may use. */
  quota?: number;
}
