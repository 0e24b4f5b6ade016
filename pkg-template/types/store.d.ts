// What is kept of models between visits.

/** What is kept of a model. */
export interface StoredModel {
  /** Its address, as `Engine.load` and `Engine.store.delete` take it. */
  model: string;
  /** Where it is kept. */
  store: "cache" | "opfs";
  /** How many of its files are kept, whole or in part. */
  files: number;
  /** Bytes of them. */
  bytes: number;
  /** Whether the next load needs no network. */
  complete: boolean;
  /** When it was last loaded; null if it never was as a whole. */
  lastUsed: Date | null;
}

export interface StoreSize {
  /** Bytes of all models that are kept. */
  bytes: number;
  /** Bytes that the site takes of the browser's storage, whatever for. */
  usage?: number;
  /** Most bytes that it may take. */
  quota?: number;
}
