import { html } from "./dom.js";
import { fill } from "./fill.js";
import { titleOf } from "./title.js";
import { ALL as TEXTS } from "./view/later.js";

/** @import { Conversation } from "./conversation.js" */
/** @import { Editing } from "./conversation.js" */
/** @import { View } from "./view/view.js" */

/**
 * The chat that questions wait for.
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

/**
 * @typedef {object} Question
 * @property {string} content
 * @property {number} [edited] the question that gives way to it
 * @property {HTMLElement} note that it waits
 */

/** Questions that wait: shown above the composer, each withdrawn until it is asked. */
export class Waiting {
  #chat;
  /** @type {Question[]} in the order in which they are asked */
  #questions = [];

  /** @param {Chat} chat */
  constructor(chat) {
    this.#chat = chat;
  }

  /** Whether there is one. */
  get any() {
    return this.#questions.length > 0;
  }

  /**
   * Another question.
   *
   * @param {string} content
   * @param {number} [edited] the question that gives way to it
   */
  add(content, edited) {
    if (!content) return;
    const { view } = this.#chat;
    const told = fill(TEXTS.next, { question: titleOf(content) });
    const back = html("button", { type: "button", class: "plain", part: "button cancel" }, TEXTS.cancel);
    const note = html("p", { class: "editing", part: "next" }, html("span", { dir: "auto" }, told), back);
    const question = { content, edited, note };
    back.addEventListener("click", () => this.back([question]));
    this.#questions.push(question);
    view.input.form?.before(note);
    view.announce(told);
    this.#chat.update();
  }

  /** @param {boolean} well how the answer has ended that they wait for */
  end(well) {
    if (well) this.send();
    else this.back();
  }

  /** Asks the first. */
  send() {
    const [question] = this.#questions;
    if (!question) return;
    this.#take([question]);
    this.#chat.send(question.content, question.edited);
  }

  /** Puts questions, by default all, back into the input, before what was written there since. */
  back(questions = this.#questions) {
    const { view, editing, conversation } = this.#chat;
    if (questions.length === 0) return;
    this.#take(questions);
    for (const { content, edited } of questions.toReversed()) {
      const again = edited !== undefined && conversation.messages[edited] !== undefined;
      if (again) editing.begin(edited);
      view.content = [content, again ? "" : view.content].filter(Boolean).join("\n\n");
    }
    view.input.focus();
  }

  /** @param {Question[]} questions that wait no longer */
  #take(questions) {
    this.#questions = this.#questions.filter((question) => !questions.includes(question));
    for (const { note } of questions) note.hidden = true;
    // Where one had the focus, the input gets it.
    this.#chat.update();
    for (const { note } of questions) note.remove();
  }
}
