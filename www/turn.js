// A chat that waits for its turn: while another tab gets an answer in the same conversation, what is sent here waits
// for its end, and can be taken back until then.
import { Chat } from "./tabloom/element/parts.js";

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

  /** @param {Parameters<Chat["show"]>} messages */
  show(...messages) {
    this.pause();
    super.show(...messages);
  }

  /** Ends all but an answer: another conversation is shown. */
  pause() {
    this.waiting?.back();
    this.editing.end();
    this.view.hush();
  }
}
