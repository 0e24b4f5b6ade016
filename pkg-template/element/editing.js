/** Edits a question in the input. */
export class Editing {
  #view;
  #conversation;
  /** @type {{question: number, draft: string} | null} the question, and what was in the composer before */
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
