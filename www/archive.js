// Conversations that outlive the page, in the browser's own database: what the list shows of them apart from
// what was said, so that a long list is quick. What the browser does not take is kept as long as the page.

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
 * @typedef {Entry & {messages: Message[], settings?: Partial<import("./settings.js").Values>, enough?: boolean}} Conversation
 *   enough: whether nobody wants to be told again that it is long
 */

const DATABASE = "tabloom-demo";
const [ENTRIES, CONVERSATIONS] = ["entries", "conversations"];
/** Why the database does not open while another tab has it open as it was in an older version of the page. */
const BLOCKED = new Error();
/** Before the ids of conversations that were left while they were answered. */
const LEFT = "tabloom-left:";

/**
 * All conversations. Dispatches `change` when another tab has changed one, with its id, whether it grows, and whether it
 * was deleted or is as it was.
 */
export class Archive extends EventTarget {
  /** Rejected where the browser denies it. */
  #database = open();
  /** @type {Map<string, Conversation>} those that the database has not taken */
  #memory = new Map();
  /** Why the last of them was not. */
  #refused = "";
  #tabs = new BroadcastChannel(DATABASE);

  constructor() {
    super();
    this.#tabs.onmessage = ({ data }) => this.dispatchEvent(new CustomEvent("change", { detail: data }));
  }

  /**
   * Whether conversations are kept for the next visit, or why they are not.
   *
   * @returns {Promise<"kept" | "full" | "lost" | "newer" | "blocked">}
   */
  async state() {
    try {
      await this.#database;
      if (this.#memory.size === 0) return "kept";
      return this.#refused === "QuotaExceededError" ? "full" : "lost";
    } catch (/** @type {any} */ error) {
      if (error === BLOCKED) return "blocked";
      return error.name === "VersionError" ? "newer" : "lost";
    }
  }

  /** The conversations, in order. */
  async list() {
    const kept = await this.#read(ENTRIES, (store) => store.getAll());
    const all = [...(kept ?? []), ...this.#memory.values()].map((one) => /** @type {const} */ ([one.id, entryOf(one)]));
    return ordered([...new Map(all).values()]);
  }

  /**
   * @param {string} id
   * @returns {Promise<Conversation | undefined>}
   */
  async get(id) {
    const found = this.#memory.get(id) ?? (await this.#read(CONVERSATIONS, (store) => store.get(id)));
    return found && { ...found, ...entryOf(found) };
  }

  /**
   * Keeps a conversation. If another tab has kept it since this one did, it becomes another: nothing is lost.
   *
   * @param {Conversation} conversation
   * @param {() => boolean} [growing] whether it is being answered then
   */
  async put(conversation, growing = () => false) {
    try {
      const transaction = await this.#transaction("readwrite");
      const entries = transaction.objectStore(ENTRIES);
      const kept = await settled(entries.get(conversation.id));
      if (kept?.revision > (conversation.revision ?? 0)) {
        // Another of that name is listed.
        Object.assign(conversation, { id: crypto.randomUUID(), title: `${conversation.title} (2)`, named: true });
      }
      conversation.revision = (conversation.revision ?? 0) + 1;
      entries.put(entryOf(conversation));
      transaction.objectStore(CONVERSATIONS).put(conversation);
      await done(transaction);
      this.#memory.delete(conversation.id);
    } catch (/** @type {any} */ error) {
      console.warn(error);
      this.#refused = error.name;
      this.#memory.set(conversation.id, structuredClone(conversation));
    }
    this.#tabs.postMessage({ id: conversation.id, growing: growing() });
    return entryOf(conversation);
  }

  /**
   * Tells other tabs that a conversation is being answered, though nothing of it has changed.
   *
   * @param {string} id
   */
  grows(id) {
    this.#tabs.postMessage({ id, growing: true, same: true });
  }

  /**
   * Keeps a conversation at once, of a page that is being left: the database may take longer than that.
   *
   * @param {Conversation} conversation
   */
  leave(conversation) {
    try {
      localStorage.setItem(LEFT + conversation.id, JSON.stringify(conversation));
    } catch {
      // Denied or full: the database has all but the last moment of it.
    }
  }

  /** Takes what was left into the database, where that has nothing later. */
  async take() {
    try {
      for (const key of Object.keys(localStorage).filter((key) => key.startsWith(LEFT))) {
        const left = JSON.parse(localStorage.getItem(key) ?? "");
        localStorage.removeItem(key);
        const { revision = 0 } = (await this.get(left.id)) ?? {};
        if (revision <= (left.revision ?? 0)) await this.put(left);
      }
    } catch {
      // Denied, or another script has written there.
    }
  }

  /** @param {string} id */
  async delete(id) {
    this.#memory.delete(id);
    try {
      const transaction = await this.#transaction("readwrite");
      transaction.objectStore(ENTRIES).delete(id);
      transaction.objectStore(CONVERSATIONS).delete(id);
      await done(transaction);
      // Of a page that was left, and came back.
      localStorage.removeItem(LEFT + id);
    } catch {
      // Denied: it was in memory alone.
    }
    this.#tabs.postMessage({ id, growing: false, deleted: true });
    // There is more room now.
    for (const conversation of [...this.#memory.values()]) await this.put(conversation);
  }

  /**
   * What the database has; undefined where it is denied.
   *
   * @template T
   * @param {string} name of the store
   * @param {(store: IDBObjectStore) => IDBRequest<T>} ask
   */
  async #read(name, ask) {
    try {
      return await settled(ask((await this.#transaction("readonly")).objectStore(name)));
    } catch (error) {
      console.warn(error);
      return undefined;
    }
  }

  /** @param {IDBTransactionMode} mode */
  async #transaction(mode) {
    const begin = async () => (await this.#database).transaction([ENTRIES, CONVERSATIONS], mode);
    try {
      return await begin();
    } catch (/** @type {any} */ error) {
      // The browser, or a later version of the page, has closed it.
      if (error.name !== "InvalidStateError") throw error;
      this.#database = open();
      return begin();
    }
  }
}

/**
 * Entries in the order of the list: those that are pinned, then the others, the one that changed last first.
 *
 * @param {Entry[]} entries
 */
export function ordered(entries) {
  return entries.sort((a, b) => Number(b.pinned ?? false) - Number(a.pinned ?? false) || b.changed - a.changed);
}

/**
 * All that was said, in each version.
 *
 * @param {unknown} messages as any version of the page may have kept them
 * @returns {string[]}
 */
export function textsOf(messages) {
  if (!Array.isArray(messages)) return [];
  return messages.flatMap((message) => [`${message?.content}`, ...[message?.versions].flat().flatMap(textsOf)]);
}

/**
 * What the list shows, whatever another version of the page has kept.
 *
 * @param {Entry} conversation
 * @returns {Entry}
 */
function entryOf({ id, title, named, pinned, model, changed, revision }) {
  return { id, title: `${title ?? ""}`, named, pinned, model, changed: Number(changed) || 0, revision };
}

async function open() {
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
  const blocked = new Promise((_, reject) => {
    request.onblocked = () => reject(BLOCKED);
  });
  const database = await Promise.race([settled(request), blocked]);
  // A later version of the page may change it.
  database.onversionchange = () => database.close();
  return database;
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
