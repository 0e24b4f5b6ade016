// Conversations that outlive the page, in the browser's own database.

/**
 * What was said: a question or an answer, and what happened to it.
 *
 * @typedef {{role: "user" | "assistant", content: string, note?: string, failed?: boolean}} Said
 */

/**
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string} title its first question, or the name that the visitor gave it
 * @property {boolean} named whether the visitor did
 * @property {string} model the name of the model that answered last
 * @property {Said[]} messages
 * @property {number} changed milliseconds since 1970
 */

const DATABASE = "tabloom-demo";
const STORE = "conversations";

/** All conversations. Dispatches `change` when another tab has changed them. */
export class Archive extends EventTarget {
  /** @type {Promise<IDBDatabase | null>} null where the browser denies it: then they are kept in memory */
  #database = open();
  /** @type {Map<string, Conversation>} */
  #memory = new Map();
  #tabs = new BroadcastChannel(DATABASE);

  constructor() {
    super();
    this.#tabs.onmessage = () => this.dispatchEvent(new Event("change"));
  }

  /** Whether conversations are kept for the next visit. */
  async lasts() {
    return (await this.#database) !== null;
  }

  /**
   * The conversations, the one that changed last first.
   *
   * @returns {Promise<Conversation[]>}
   */
  async list() {
    const database = await this.#database;
    const all = database ? await settled(store(database, "readonly").getAll()) : [...this.#memory.values()];
    return all.sort((/** @type {Conversation} */ a, /** @type {Conversation} */ b) => b.changed - a.changed);
  }

  /** @param {Conversation} conversation */
  async put(conversation) {
    await this.#write(
      (store) => store.put(conversation),
      () => this.#memory.set(conversation.id, conversation),
    );
  }

  /** @param {string} id */
  async delete(id) {
    await this.#write(
      (store) => store.delete(id),
      () => this.#memory.delete(id),
    );
  }

  /**
   * @param {(store: IDBObjectStore) => IDBRequest} change
   * @param {() => void} otherwise
   */
  async #write(change, otherwise) {
    const database = await this.#database;
    if (database) await settled(change(store(database, "readwrite")));
    else otherwise();
    this.#tabs.postMessage(null);
  }
}

/** @returns {Promise<IDBDatabase | null>} */
async function open() {
  try {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    const database = await settled(request);
    // A later version of the page may change it.
    database.onversionchange = () => database.close();
    return database;
  } catch {
    return null;
  }
}

/**
 * @param {IDBDatabase} database
 * @param {IDBTransactionMode} mode
 */
function store(database, mode) {
  return database.transaction(STORE, mode).objectStore(STORE);
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
