import { History } from "./history.js";

/** @import { TabloomChatMessage as Message } from "./types.js" */

/** The messages: shown, and kept in the browser's storage if the page asks for that. */
export class Conversation {
  /** @type {Message[]} */
  messages = [];
  #view;
  /** @type {History | null} */
  #history = null;

  /** @param {import("./view/view.js").View} view */
  constructor(view) {
    this.#view = view;
  }

  /** Index of the last question; -1 if there is none. */
  get question() {
    return this.messages.findLastIndex(({ role }) => role === "user");
  }

  /**
   * Shows the messages that were kept, unless there are others.
   *
   * @param {string | null} storage
   * @param {string} name
   */
  connected(storage, name) {
    if (this.#history) return;
    this.#history = new History(storage, name);
    const kept = this.messages.length > 0 ? [] : this.#history.read();
    if (kept.length > 0) this.show(kept);
  }

  /** @param {string} content */
  ask(content) {
    /** @type {Message} */
    const message = { role: "user", content };
    this.messages.push(message);
    this.#view.add("user").set(content);
    this.keep();
    return message;
  }

  /** @param {Message[]} messages another conversation */
  show(messages) {
    this.#view.cut(0);
    this.messages = messages;
    for (const { role, content } of messages) this.#view.add(role).set(content);
    this.#view.toEnd();
  }

  /** @param {number} from the first message to remove */
  cut(from) {
    this.messages.length = from;
    this.#view.cut(from);
    this.keep();
  }

  keep() {
    this.#history?.write(this.messages);
  }
}
