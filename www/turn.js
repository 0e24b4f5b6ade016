// A chat that waits for its turn: while another tab gets an answer in the same conversation, what is sent here waits
// for its end, and can be taken back until then.
import { Chat } from "./tabloom/element/parts.js";
import { $ } from "./dom.js";
import { isLasting } from "./loader.js";

/**
 * What is not sent yet; of a question that is edited also its index, and what was in the composer before.
 *
 * @typedef {[content: string, edited?: number, draft?: string]} Unsent
 */

/** The package's chat, in turn with other tabs. */
export class ChatInTurn extends Chat {
  #elsewhere = false;

  /** Whether another tab gets an answer in this conversation. */
  get elsewhere() {
    return this.#elsewhere;
  }

  set elsewhere(elsewhere) {
    const ended = this.#elsewhere && !elsewhere;
    this.#elsewhere = elsewhere;
    if (ended && !this.answering) this.waiting?.send();
  }

  /** Whether a question is being answered, or waits. */
  get busy() {
    return super.busy || Boolean(this.waiting?.any);
  }

  /** Whether a question is being answered here. */
  get answering() {
    return super.busy;
  }

  /** Whether a question has to wait. */
  get occupied() {
    return this.answering || this.#elsewhere;
  }

  stop() {
    if (!this.answering && this.waiting?.any) this.waiting.back();
    else super.stop();
  }

  /** @param {Parameters<Chat["fail"]>} problem what a repetition does not mend has another model chosen */
  fail(...[error, redo]) {
    super.fail(error, error && isLasting(error) ? () => $("choose").click() : redo);
  }

  /** @param {Parameters<Chat["show"]>} messages */
  show(...messages) {
    const [content, , draft = content] = this.pause();
    super.show(...messages);
    // A question that was edited is not there any more.
    this.view.content = draft;
  }

  /**
   * Ends all but an answer: another conversation is shown.
   *
   * @returns {Unsent} what was in the composer
   */
  pause() {
    this.waiting?.back();
    const [content, edited] = this.editing.take();
    const { content: draft } = this.view;
    this.view.content = "";
    this.view.hush();
    return edited === undefined ? [content] : [content, edited, draft];
  }

  /** @param {Unsent} unsent what is in the composer again */
  resume([content, edited, draft = ""]) {
    const again = edited !== undefined && this.conversation.messages[edited]?.role === "user";
    this.view.content = draft;
    if (again) this.editing.begin(edited);
    this.view.content = again || !draft ? content : `${draft}\n\n${content}`;
  }
}
