import { html } from "./dom.js";
import { fill } from "./fill.js";
import { titleOf } from "./title.js";
import { ALL as TEXTS } from "./view/later.js";

/** @import { Conversation } from "./conversation.js" */
/** @import { Editing } from "./conversation.js" */
/** @import { View } from "./view/view.js" */

/**
 * The chat that a question waits for.
 *
 * @typedef {object} Chat
 * @property {View} view
 * @property {Conversation} conversation
 * @property {Editing} editing
 * @property {Waiting} [waiting] made with the first question that waits
 * @property {boolean} occupied whether a question has to wait
 * @property {(text: string, edited?: number) => unknown} send asks a question
 * @property {() => void} update shows the state
 */

/**
 * Has what is in the composer wait until it can be asked.
 *
 * @param {Chat} chat
 */
export function wait(chat) {
  const waiting = (chat.waiting ??= new Waiting(chat));
  waiting.add(...chat.editing.take());
  if (!chat.occupied) waiting.send();
}

/** A question that waits: shown above the composer, and withdrawn until it is asked. */
export class Waiting {
  #chat;
  /** @type {[content: string, edited?: number] | null} */
  #question = null;
  #told = html("span", { dir: "auto" });
  #note = html("p", { class: "editing", part: "next", role: "status", hidden: "" }, this.#told);

  /** @param {Chat} chat */
  constructor(chat) {
    this.#chat = chat;
    const back = html("button", { type: "button", class: "plain", part: "button cancel" }, TEXTS.cancel);
    back.addEventListener("click", () => this.back());
    this.#note.append(back);
    chat.view.input.form?.before(this.#note);
  }

  /** Whether there is one. */
  get any() {
    return this.#question !== null;
  }

  /**
   * Another question; after one that waits already it is more of that.
   *
   * @param {string} content
   * @param {number} [edited] the question that gives way to it
   */
  add(content, edited) {
    if (!content) return;
    const [before = "", first = edited] = this.#question ?? [];
    this.#set([joined(before, content), first]);
  }

  /** @param {boolean} well how the answer has ended that it waits for */
  end(well) {
    if (well) this.send();
    else this.back();
  }

  send() {
    const question = this.#question;
    if (!question) return;
    this.#set(null);
    this.#chat.send(...question);
  }

  /** Puts it back into the input, before what was written there since. */
  back() {
    if (!this.#question) return;
    const [content, edited] = this.#question;
    const { view, editing, conversation } = this.#chat;
    this.#set(null);
    const again = edited !== undefined && conversation.messages[edited] !== undefined;
    if (again) editing.begin(edited);
    view.content = again ? content : joined(content, view.content);
    view.input.focus();
  }

  /** @param {[content: string, edited?: number] | null} question */
  #set(question) {
    this.#question = question;
    this.#told.textContent = question && fill(TEXTS.next, { question: titleOf(question[0]) });
    this.#note.hidden = !question;
    this.#chat.update();
  }
}

/** @param {string[]} texts */
function joined(...texts) {
  return texts.filter(Boolean).join("\n\n");
}
