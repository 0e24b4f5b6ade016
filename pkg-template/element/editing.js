/** Edits a question in the input. */
export class Editing {
  #view;
  #conversation;
  /** @type {{question: number, draft: string} | null} the question, and what was in the input before */
  #edited = null;

  /**
   * @param {import("./view/view.js").View} view
   * @param {import("./conversation.js").Conversation} conversation
   */
  constructor(view, conversation) {
    this.#view = view;
    this.#conversation = conversation;
  }

  /** @param {number} question its index */
  begin(question) {
    const draft = this.#edited?.draft ?? this.#view.input.value;
    this.#edited = { question, draft };
    this.#view.editing = question;
    this.#view.write(this.#conversation.messages[question].content);
    this.#view.input.focus();
  }

  end() {
    if (!this.#edited) return;
    this.#view.write(this.#edited.draft);
    this.#edited = null;
    this.#view.editing = null;
  }

  /** Takes the text out of the input. The question that was edited gives way to it. */
  take() {
    const text = this.#view.input.value;
    if (this.#edited && text.trim()) this.#conversation.branch(this.#edited.question);
    const draft = this.#edited?.draft ?? "";
    this.end();
    this.#view.write(draft);
    return text;
  }
}
