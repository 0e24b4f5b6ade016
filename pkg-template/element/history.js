// Conversations in the browser's storage.
import { invalid } from "../error.js";

/** @import { TabloomChatMessage as Message } from "./types.js" */

/** @type {Record<string, {owner: Node, changed: () => void}>} the elements whose conversations are at these keys */
const owners = Object.create(null);

globalThis.addEventListener?.("storage", ({ key }) => owners[key ?? ""]?.changed());

/** The storage of one conversation; without a kind of storage, `session` or `local`, it keeps nothing. */
export class History {
  #kind;
  #key;
  /** @type {string | null | undefined} what is shown of what was there */
  #known;

  /**
   * @param {string | null} storage
   * @param {string} name
   * @param {Node} owner of other elements on the page with this name, each has a conversation of its own
   * @param {() => void} changed called when another tab has written there
   */
  constructor(storage, name, owner, changed) {
    this.#kind = storage;
    this.#key = `tabloom-chat:${name}`;
    while (owners[this.#key]?.owner.isConnected) this.#key += "+";
    owners[this.#key] = { owner, changed };
  }

  /** Whether there is something else than what was read or written. */
  get stale() {
    return this.#kept !== this.#known;
  }

  /** @returns {Message[]} */
  read() {
    this.#known = this.#kept;
    try {
      return checked(JSON.parse(this.#known ?? "[]"));
    } catch {
      // Another script has written there.
      return [];
    }
  }

  /**
   * @param {Message[]} messages
   * @returns {unknown} why they are only on the page, if they are: storage is denied or full
   */
  write(messages) {
    const apart = messages.length > 0 && this.stale;
    const all = apart ? joined(this.read(), messages) : messages;
    const text = all.length > 0 ? JSON.stringify(all) : null;
    try {
      if (text) this.#storage?.setItem(this.#key, text);
      else this.#storage?.removeItem(this.#key);
      if (!apart) this.#known = this.#kept;
    } catch (error) {
      return error;
    }
  }

  get #kept() {
    try {
      return this.#storage?.getItem(this.#key);
    } catch {
      // Denied.
      return undefined;
    }
  }

  /** @returns {Storage | undefined} */
  get #storage() {
    return /** @type {any} */ (globalThis)[`${this.#kind}Storage`];
  }
}

/**
 * What another tab has kept, with the last turn of this one in its place.
 *
 * @param {Message[]} kept
 * @param {Message[]} messages
 */
function joined(kept, messages) {
  const turn = messages.slice(messages.findLastIndex(({ role }) => role === "user"));
  const at = kept.findLastIndex(({ role, content }) => role === "user" && content === turn[0].content);
  if (at < 0) return [...kept, ...turn];
  kept.splice(at, kept[at + 1]?.role === "assistant" ? 2 : 1, ...turn);
  return kept;
}

/**
 * A copy of valid messages, as JSON has them; throws where they are not valid.
 *
 * @param {any} messages
 * @returns {Message[]}
 */
export function checked(messages) {
  try {
    messages = JSON.parse(JSON.stringify(messages));
  } catch {
    throw wrong("messages", typeof messages, "JSON");
  }
  return copied(messages, "messages");
}

/**
 * @param {any} messages
 * @param {string} where
 * @returns {Message[]}
 */
function copied(messages, where) {
  if (!Array.isArray(messages)) throw wrong(where, messages, "a list");
  return messages.map((message, i) => {
    const at = `${where}[${i}]`;
    const { role, content, end, versions } = message ?? {};
    if (!["user", "assistant"].includes(role)) throw wrong(`${at}.role`, role, '"user" or "assistant"');
    if (typeof content !== "string") throw wrong(`${at}.content`, content, "a text");
    return {
      role,
      content,
      // How it ended, if not by itself; another version may know more ways.
      ...(["stopped", "length", "full"].includes(end) && { end }),
      ...(versions && { versions: ofVersions(versions, `${at}.versions`) }),
    };
  });
}

/**
 * @param {any} versions
 * @param {string} where
 */
function ofVersions(versions, where) {
  const shown = Array.isArray(versions) ? versions.filter((one) => one === null).length : 0;
  if (shown !== 1) throw wrong(where, versions, "a list with null for the one that is shown");
  return versions.map((/** @type {any} */ one, /** @type {number} */ i) => {
    if (one !== null && !one.length) throw wrong(`${where}[${i}]`, one, "messages");
    return one && copied(one, `${where}[${i}]`);
  });
}

/**
 * A value that what the element is given does not have.
 *
 * @param {string} where
 * @param {unknown} found
 * @param {string} expected
 */
export function wrong(where, found, expected) {
  return invalid(where, `found ${JSON.stringify(found)?.slice(0, 60)}, expected ${expected}`);
}
