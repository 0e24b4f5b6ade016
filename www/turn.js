// A chat that waits for its turn: while another tab gets an answer in the same conversation, what is sent here waits
// for its end, and can be taken back until then.
import { Chat, html } from "./tabloom/element/parts.js";
import { button } from "./dom.js";
import { fill, texts } from "./texts.js";
import { titleOf } from "./title.js";

/** The package's chat, in turn with other tabs. */
export class ChatInTurn extends Chat {
  #elsewhere = false;
  /** @type {Parameters<Chat["send"]> | null} */
  #waiting = null;
  #told = html("span", { dir: "auto" });
  #note = html("p", { class: "editing", role: "status", hidden: "" }, this.#told);

  /** @param {ConstructorParameters<typeof Chat>} of */
  constructor(...of) {
    super(...of);
    this.#note.append(button(texts.chat.takeBack, () => this.takeBack(), { class: "plain" }));
    this.view.input.form?.before(this.#note);
  }

  /** Whether another tab gets an answer in this conversation. */
  get elsewhere() {
    return this.#elsewhere;
  }

  set elsewhere(elsewhere) {
    this.#elsewhere = elsewhere;
    const waiting = this.#waiting;
    if (elsewhere || !waiting) return;
    this.#wait(null);
    super.send(...waiting);
  }

  /** Whether a question is being answered, or waits. */
  get busy() {
    return super.busy || this.#waiting !== null;
  }

  /** Whether a question is being answered here. */
  get answering() {
    return super.busy;
  }

  /** @param {Parameters<Chat["send"]>} question */
  async send(...question) {
    if (!this.#elsewhere || !question[0].trim()) return super.send(...question);
    this.#wait(question);
    return null;
  }

  stop() {
    if (this.#waiting) this.takeBack();
    else super.stop();
  }

  /** @param {Parameters<Chat["show"]>} messages */
  show(...messages) {
    this.pause();
    super.show(...messages);
  }

  /** Ends all but an answer: another conversation is shown. */
  pause() {
    this.takeBack();
    this.editing.end();
    this.view.hush();
  }

  /** Puts the question that waits back into the input, before what was written there since. */
  takeBack() {
    if (!this.#waiting) return;
    const [content, edited] = this.#waiting;
    const { view, editing, conversation } = this;
    this.#wait(null);
    const again = edited !== undefined && conversation.messages[edited] !== undefined;
    if (again) editing.begin(edited);
    view.content = again ? content : [content, view.content].filter(Boolean).join("\n\n");
    view.input.focus();
  }

  /** @param {Parameters<Chat["send"]> | null} question */
  #wait(question) {
    this.#waiting = question;
    this.#told.textContent = question && fill(texts.chat.waiting, { question: titleOf(question[0]) });
    this.#note.hidden = !question;
    this.update();
  }
}
