/** @import { TabloomChatMessage as Message } from "./types.js" */

/**
 * The messages of a chat, as they are shown.
 *
 * A message that was edited or answered again stays, with what followed it, as a version of the one in its
 * place: the one that is shown has all `versions`, in which null stands for itself.
 */
export class Conversation {
  /** @type {Message[]} */
  messages = [];
  /** How many of the first messages the model's context has no room for. */
  forgotten = 0;
  #view;
  #keep;
  /** @type {{versions: NonNullable<Message["versions"]>, before: number} | null} of the message that comes next */
  #pending = null;

  /**
   * @param {import("./view/view.js").View} view
   * @param {() => void} keep called when it has changed
   */
  constructor(view, keep) {
    this.#view = view;
    this.#keep = keep;
  }

  /** Index of the last question; -1 if there is none. */
  get question() {
    return this.messages.findLastIndex(({ role }) => role === "user");
  }

  /** What the model is told. */
  get remembered() {
    return this.messages.slice(this.forgotten);
  }

  /** Leaves out the oldest turn; says whether there was one before the last question. */
  forget() {
    const next = this.messages.findIndex(({ role }, i) => role === "user" && i > this.forgotten);
    if (next < 0) return false;
    this.forgotten = next;
    return true;
  }

  /** @param {Message[]} messages another conversation */
  show(messages) {
    this.#pending = null;
    this.forgotten = 0;
    this.#view.cut(0);
    this.messages = messages;
    this.#view.show(messages);
    this.#view.toEnd();
  }

  /**
   * Shows the same conversation as it has become elsewhere.
   *
   * @param {Message[]} messages
   */
  update(messages) {
    const same = messages.findIndex((message, i) => JSON.stringify(message) !== JSON.stringify(this.messages[i]));
    const from = same < 0 ? messages.length : same;
    this.#view.cut(from);
    this.messages = messages;
    this.#view.show(messages.slice(from));
  }

  /** @param {Message} message */
  add(message) {
    if (this.#pending) message.versions = this.#pending.versions;
    this.#pending = null;
    this.messages.push(message);
    this.keep();
  }

  /**
   * Sets the messages from one on aside; the next that is added is a version of it.
   *
   * @param {number} i
   */
  branch(i) {
    const tail = this.#cut(i);
    if (tail.length === 0) return;
    const versions = tail[0].versions ?? [null];
    const before = versions.indexOf(null);
    delete tail[0].versions;
    versions[before] = tail;
    versions.push(null);
    this.#pending = { versions, before };
  }

  /** Takes back a `branch` to which nothing was added. */
  restore() {
    if (!this.#pending) return;
    const { versions, before } = this.#pending;
    this.#pending = null;
    versions.pop();
    this.#put(versions, before);
  }

  /**
   * Shows another version of a message, with what followed it.
   *
   * @param {number} i
   * @param {number} version
   */
  choose(i, version) {
    const versions = this.messages[i].versions;
    if (!versions?.[version]) return;
    const tail = this.#cut(i);
    delete tail[0].versions;
    versions[versions.indexOf(null)] = tail;
    this.#put(versions, version);
    this.keep();
  }

  keep() {
    this.#keep();
  }

  /**
   * @param {NonNullable<Message["versions"]>} versions
   * @param {number} version
   */
  #put(versions, version) {
    const messages = /** @type {Message[]} */ (versions[version]);
    versions[version] = null;
    if (versions.length > 1) messages[0].versions = versions;
    this.messages.push(...messages);
    this.#view.show(messages);
  }

  /** @param {number} from the first message to remove */
  #cut(from) {
    this.forgotten = Math.min(this.forgotten, from);
    this.#view.cut(from);
    return this.messages.splice(from);
  }
}

/** Edits a question in the input. */
export class Editing {
  #view;
  #conversation;
  /** @type {{question: number, draft: string} | null} the question, and what was in the composer before */
  #edited = null;

  /**
   * @param {import("./view/view.js").View} view
   * @param {Conversation} conversation
   */
  constructor(view, conversation) {
    this.#view = view;
    this.#conversation = conversation;
  }

  /** @param {number} question its index */
  begin(question) {
    const draft = this.#edited?.draft ?? this.#view.content;
    this.#edited = { question, draft };
    this.#view.editing = question;
    this.#view.content = this.#conversation.messages[question].content;
    this.#view.input.focus();
  }

  end() {
    if (!this.#edited) return;
    this.#view.content = this.#edited.draft;
    this.#edited = null;
    this.#view.editing = null;
  }

  /**
   * Takes the question out of the composer.
   *
   * @returns {[content: string, edited?: number]} with the one that gives way to it
   */
  take() {
    const { content } = this.#view;
    const { question, draft = "" } = this.#edited ?? {};
    this.end();
    this.#view.content = draft;
    return [content, question];
  }
}
