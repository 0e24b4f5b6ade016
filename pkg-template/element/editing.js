/** Edits the last question in the input. */
export class Editing {
  #view;
  #conversation;
  /** @type {string | null} what was in the input before; null while no question is edited */
  #before = null;

  /**
   * @param {import("./view/view.js").View} view
   * @param {import("./conversation.js").Conversation} conversation
   */
  constructor(view, conversation) {
    this.#view = view;
    this.#conversation = conversation;
  }

  begin() {
    const { messages, question } = this.#conversation;
    if (question < 0) return;
    this.#before ??= this.#view.input.value;
    this.#view.editing = true;
    this.#view.write(messages[question].content);
    this.#view.input.focus();
  }

  end() {
    if (this.#before === null) return;
    this.#view.write(this.#before);
    this.#before = null;
    this.#view.editing = false;
  }

  /** Takes the text out of the input. A question that was edited is removed, with its answer. */
  take() {
    const text = this.#view.input.value;
    if (this.#before !== null) {
      this.#conversation.cut(this.#conversation.question);
      this.#before = "";
    }
    this.end();
    this.#view.write("");
    return text;
  }
}
