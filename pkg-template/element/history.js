// Conversations in the browser's storage.

/** @import { TabloomChatMessage as Message } from "./types.js" */

/** @type {Record<string, Node>} the elements whose conversations are at these keys */
const owners = {};

/** The storage of one conversation; without a kind of storage, `session` or `local`, it keeps nothing. */
export class History {
  #kind;
  #key;

  /**
   * @param {string | null} storage
   * @param {string} name
   * @param {Node} owner of other elements on the page with this name, each has a conversation of its own
   */
  constructor(storage, name, owner) {
    this.#kind = storage;
    this.#key = `tabloom-chat:${name}`;
    while (owners[this.#key]?.isConnected) this.#key += "+";
    owners[this.#key] = owner;
  }

  /** @returns {Message[]} */
  read() {
    try {
      return checked(JSON.parse(this.#storage?.getItem(this.#key) ?? "[]"));
    } catch {
      // The browser denies it, or another script has written there.
      return [];
    }
  }

  /** @param {Message[]} messages */
  write(messages) {
    try {
      if (messages.length > 0) this.#storage?.setItem(this.#key, JSON.stringify(messages));
      else this.#storage?.removeItem(this.#key);
    } catch {
      // Denied or full: the conversation is only on the page.
    }
  }

  /** @returns {Storage | undefined} */
  get #storage() {
    return /** @type {any} */ (globalThis)[`${this.#kind}Storage`];
  }
}

/**
 * A copy of valid messages; throws where they are not valid.
 *
 * @param {any} messages
 * @param {string} [where] what they are called in errors
 * @returns {Message[]}
 */
export function checked(messages, where = "messages") {
  if (!Array.isArray(messages)) throw new TypeError(`${where}: found ${typeof messages}, expected an array`);
  return messages.map((message, i) => {
    const { role, content, end, versions } = message ?? {};
    if (!["user", "assistant"].includes(role)) {
      throw new TypeError(`${where}[${i}].role: found ${JSON.stringify(role)}, expected "user" or "assistant"`);
    }
    if (typeof content !== "string") {
      throw new TypeError(`${where}[${i}].content: found ${typeof content}, expected a text`);
    }
    return {
      role,
      content,
      ...(end && { end }),
      ...(versions && { versions: ofVersions(versions, `${where}[${i}]`) }),
    };
  });
}

/**
 * @param {any} versions
 * @param {string} where
 */
function ofVersions(versions, where) {
  const found = Array.isArray(versions) ? versions.filter((one) => one === null).length : 0;
  if (found !== 1) throw new TypeError(`${where}.versions: expected an array with null for the one that is shown`);
  return versions.map((/** @type {any} */ one) => one && checked(one, `${where}.versions`));
}
