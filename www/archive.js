// Conversations that outlive the page, in the browser's own database: what the list shows of them apart from
// what was said, so that a long list is quick.

/** @typedef {import("./tabloom/element.js").TabloomChatMessage} Message */

/**
 * What the list shows of a conversation.
 *
 * @typedef {object} Entry
 * @property {string} id
 * @property {string} title its first question, or the name that the visitor gave it
 * @property {boolean} named whether the visitor did
 * @property {boolean} [pinned]
 * @property {string} model the name of the model that answered last
 * @property {number} changed when something was said, in milliseconds since 1970
 * @property {number} [revision] how often it was kept
 */

/**
 * @typedef {Entry & {messages: Message[], settings?: Partial<import("./settings.js").Values>}} Conversation
 */

const DATABASE = "tabloom-demo";
const [ENTRIES, CONVERSATIONS] = ["entries", "conversations"];

/** All conversations. Dispatches `change` with a conversation's id when another tab has changed it. */
export class Archive extends EventTarget {
  /** @type {Promise<IDBDatabase | null>} null where the browser denies it: then they are kept in memory */
  #database = open();
  /** @type {Map<string, Conversation>} */
  #memory = new Map();
  #tabs = new BroadcastChannel(DATABASE);

  constructor() {
    super();
    this.#tabs.onmessage = ({ data }) => this.dispatchEvent(new CustomEvent("change", { detail: data }));
  }

  /** Whether conversations are kept for the next visit. */
  async lasts() {
    return (await this.#database) !== null;
  }

  /**
   * The conversations: those that are pinned, then the others, the one that changed last first.
   *
   * @returns {Promise<Entry[]>}
   */
  async list() {
    const database = await this.#database;
    const all = database
      ? await settled(database.transaction(ENTRIES).objectStore(ENTRIES).getAll())
      : [...this.#memory.values()].map(entryOf);
    return all.sort(
      (/** @type {Entry} */ a, /** @type {Entry} */ b) =>
        Number(b.pinned ?? false) - Number(a.pinned ?? false) || b.changed - a.changed,
    );
  }

  /**
   * @param {string} id
   * @returns {Promise<Conversation | undefined>}
   */
  async get(id) {
    const database = await this.#database;
    if (!database) return this.#memory.get(id);
    return settled(database.transaction(CONVERSATIONS).objectStore(CONVERSATIONS).get(id));
  }

  /**
   * Keeps a conversation. If another tab has kept it since this one did, it becomes another: nothing is lost.
   *
   * @param {Conversation} conversation
   */
  async put(conversation) {
    const database = await this.#database;
    if (database) {
      const transaction = database.transaction([ENTRIES, CONVERSATIONS], "readwrite");
      const entries = transaction.objectStore(ENTRIES);
      const kept = await settled(entries.get(conversation.id));
      if (kept?.revision > (conversation.revision ?? 0)) conversation.id = crypto.randomUUID();
      conversation.revision = (conversation.revision ?? 0) + 1;
      entries.put(entryOf(conversation));
      transaction.objectStore(CONVERSATIONS).put(conversation);
      await done(transaction);
    } else this.#memory.set(conversation.id, structuredClone(conversation));
    this.#tabs.postMessage(conversation.id);
  }

  /** @param {string} id */
  async delete(id) {
    const database = await this.#database;
    this.#memory.delete(id);
    if (database) {
      const transaction = database.transaction([ENTRIES, CONVERSATIONS], "readwrite");
      transaction.objectStore(ENTRIES).delete(id);
      transaction.objectStore(CONVERSATIONS).delete(id);
      await done(transaction);
    }
    this.#tabs.postMessage(id);
  }
}

/**
 * @param {Conversation} conversation
 * @returns {Entry}
 */
function entryOf({ id, title, named, pinned, model, changed, revision }) {
  return { id, title, named, pinned, model, changed, revision };
}

/** @returns {Promise<IDBDatabase | null>} */
async function open() {
  try {
    const request = indexedDB.open(DATABASE, 2);
    request.onupgradeneeded = ({ oldVersion }) => {
      const { result, transaction } = request;
      const entries = result.createObjectStore(ENTRIES, { keyPath: "id" });
      if (oldVersion === 0) return void result.createObjectStore(CONVERSATIONS, { keyPath: "id" });
      const all = /** @type {IDBTransaction} */ (transaction).objectStore(CONVERSATIONS).getAll();
      all.onsuccess = () => {
        for (const conversation of all.result) entries.put(entryOf(conversation));
      };
    };
    const database = await settled(request);
    // A later version of the page may change it.
    database.onversionchange = () => database.close();
    return database;
  } catch {
    return null;
  }
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

/** @param {IDBTransaction} transaction */
function done(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}
