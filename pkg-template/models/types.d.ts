/** A model as it is sent to a host. */
export interface Model {
  /** An address; of files: `local:` with their digest and name. */
  url: string;
  /** The files, if the page has them, by name. */
  files?: Map<string, Blob>;
}

/** Entries by key. Nothing here rejects: a model can be loaded without a store. */
export interface Store {
  /** The bytes of an entry; null if there is none. */
  get(key: string): Promise<ReadableStream | null>;
  /** Keeps bytes, whole or not at all; false where the browser refuses. */
  put(key: string, bytes: Uint8Array<ArrayBuffer>[]): Promise<boolean>;
  delete(key: string): Promise<void>;
  /** The keys of all entries. */
  keys(): Promise<string[]>;
  /** Deletes temporary files of writers that are gone. */
  sweep?(): Promise<void>;
  /** Bytes that the site may still add, if known. */
  room(): Promise<number | undefined>;
}
