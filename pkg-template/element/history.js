// Conversations in the browser's storage.

/** @import { TabloomChatMessage as Message } from "./types.js" */

const STORES = { session: "sessionStorage", local: "localStorage" };

/** The storage of one conversation; without a kind of storage it keeps nothing. */
export class History {
  #store;
  #key;

  /**
   * @param {string | null} storage
   * @param {string} name
   */
  constructor(storage, name) {
    this.#store = STORES[/** @type {"local"} */ (storage)];
    this.#key = `tabloom-chat:${name}`;
  }

  /** @returns {Message[]} */
  read() {
    try {
      return checked(JSON.parse(this.#storage()?.getItem(this.#key) ?? "[]"));
    } catch {
      // The browser denies it, or another script has written there.
      return [];
    }
  }

  /** @param {Message[]} messages */
  write(messages) {
    try {
      if (messages.length === 0) this.#storage()?.removeItem(this.#key);
      else this.#storage()?.setItem(this.#key, JSON.stringify(messages));
    } catch {
      // Denied or full: the conversation is only on the page.
    }
  }

  /** @returns {Storage | undefined} */
  #storage() {
    return this.#store && /** @type {any} */ (globalThis)[this.#store];
  }
}

/**
 * A copy of valid messages; throws where they are not valid.
 *
 * @param {any} messages
 * @returns {Message[]}
 */
export function checked(messages) {
  if (!Array.isArray(messages)) throw new TypeError(`messages: found ${typeof messages}, expected an array`);
  return messages.map(({ role, content }, i) => {
    if (!["user", "assistant"].includes(role)) {
      throw new TypeError(`messages[${i}].role: found ${JSON.stringify(role)}, expected "user" or "assistant"`);
    }
    if (typeof content !== "string") {
      throw new TypeError(`messages[${i}].content: found ${typeof content}, expected a text`);
    }
    return { role, content };
  });
}
