// The conversation that is shown: asks, answers, and changes what was said.
import { Follower, Message, codeOf, copy } from "./tabloom/element/parts.js";
import { $, html } from "./dom.js";
import { Speed } from "./format.js";
import { Drafts } from "./drafts.js";

/** @typedef {import("./archive.js").Conversation} Conversation */
/** @typedef {import("./archive.js").Said} Said */

/** Most characters of a title. */
const TITLE = 60;

/**
 * Dispatches `change` when the conversation has changed and is to be kept, and `show` when another one is
 * shown.
 */
export class Chat extends EventTarget {
  #loader;
  #settings;
  #follower = new Follower($("log"));
  /** @type {Conversation} */
  conversation = blank();
  /** @type {{message: Message, drafts: Drafts}[]} what is shown, one for each of its messages */
  #shown = [];
  /** @type {AbortController | null} */
  #answering = null;
  /** @type {number | null} the message that is being edited */
  #edited = null;

  /**
   * @param {import("./loader.js").Loader} loader
   * @param {import("./settings.js").Settings} settings
   */
  constructor(loader, settings) {
    super();
    this.#loader = loader;
    this.#settings = settings;
    loader.addEventListener("change", () => this.#refresh());
    loader.addEventListener("use", () => this.begin());
    this.#listen();
    this.#refresh();
  }

  /**
   * Shows another conversation.
   *
   * @param {Conversation} conversation
   */
  show(conversation) {
    this.stop();
    this.#cancelEdit();
    this.#clear(0);
    this.conversation = conversation;
    for (const said of conversation.messages) {
      const { message } = this.#add(said.role);
      message.set(said.content);
      this.#note(message, said);
    }
    $("speed").textContent = "";
    this.#refresh();
    this.#follower.toEnd();
    this.dispatchEvent(new Event("show"));
  }

  /** Begins a new conversation. */
  begin() {
    this.show(blank());
  }

  /** Stops the answer; what there is of it stays. */
  stop() {
    this.#answering?.abort();
  }

  /** @param {string} text */
  ask(text) {
    if (!this.#loader.engine || this.#answering) return;
    if (this.#edited !== null) this.#cut(this.#edited);
    this.#cancelEdit();
    const { conversation } = this;
    if (conversation.messages.length === 0 && !conversation.named) {
      conversation.title = text.length > TITLE ? `${text.slice(0, TITLE - 1)}…` : text;
    }
    conversation.messages.push({ role: "user", content: text });
    this.#add("user").message.set(text);
    this.#answer();
  }

  /** Answers the last question. */
  async #answer() {
    const { engine } = this.#loader;
    if (!engine) return;
    const { conversation } = this;
    const messages = this.#sent();
    /** @type {Said} */
    const said = { role: "assistant", content: "" };
    conversation.messages.push(said);
    conversation.model = this.#loader.name;
    const { message, drafts } = this.#add("assistant");
    const { element } = message;
    const counted = html("p", { class: "drafts", "aria-live": "off" });
    element.querySelector(".actions")?.before(counted);
    element.classList.add("waiting");
    message.begin();
    this.#answering = new AbortController();
    const { signal } = this.#answering;
    this.#refresh();
    this.#follower.toEnd();
    this.#save(conversation);
    const text = /** @type {Element} */ (element.querySelector(".text"));
    const speed = new Speed(performance.now());
    try {
      const chunks = await engine.chat.completions.create(
        { messages, stream: true, stream_options: { include_usage: true }, ...this.#settings.params },
        { signal },
      );
      for await (const chunk of chunks) {
        const { delta, drafted } = chunk.choices[0] ?? {};
        const piece = delta?.content ?? "";
        if (piece) {
          speed.token(performance.now());
          if (drafted) drafts.add(said.content.length, said.content.length + piece.length);
          said.content += piece;
          message.add(piece, () => {
            drafts.show(text, message.content);
            this.#follower.follow();
          });
        }
        if (chunk.choices[0]?.finish_reason === "length") said.note = "(The answer reached its greatest length.)";
        if (chunk.usage) {
          speed.finish(chunk.usage.completion_tokens);
          counted.textContent = count(chunk.usage);
        }
        if (this.conversation === conversation) $("speed").textContent = speed.text();
      }
    } catch (/** @type {any} */ error) {
      said.failed = !signal.aborted;
      said.note = signal.aborted ? "(stopped)" : error.message;
      this.#loader.failed(error);
    } finally {
      message.end();
      drafts.show(text, message.content);
      this.#note(message, said);
      element.classList.remove("waiting");
      this.#answering = null;
      this.#save(conversation);
      this.#refresh();
      this.#follower.follow();
      const { activeElement } = document;
      if (this.#loader.engine && (activeElement === document.body || activeElement?.closest("#composer"))) {
        $("prompt").focus();
      }
    }
  }

  /** What is sent to the model: without unanswered questions, which would only confuse it. */
  #sent() {
    const { messages } = this.conversation;
    const answered = (/** @type {number} */ i) => messages[i]?.role === "assistant" && messages[i].content !== "";
    const kept = messages.filter(({ role }, i) =>
      role === "user" ? i === messages.length - 1 || answered(i + 1) : answered(i),
    );
    const { system } = this.#settings.values;
    const first = system.trim() ? [{ role: /** @type {const} */ ("system"), content: system }] : [];
    return [...first, ...kept.map(({ role, content }) => ({ role, content }))];
  }

  /** @param {"user" | "assistant"} role */
  #add(role) {
    const message = new Message(role, announce);
    const shown = { message, drafts: new Drafts() };
    this.#shown.push(shown);
    $("messages").append(html("li", {}, message.element));
    return shown;
  }

  /**
   * Removes the messages from one on.
   *
   * @param {number} from
   */
  #cut(from) {
    this.conversation.messages.splice(from);
    this.#clear(from);
  }

  /**
   * Removes messages from the page.
   *
   * @param {number} from
   */
  #clear(from) {
    for (const { message, drafts } of this.#shown.splice(from)) {
      drafts.forget();
      message.element.parentElement?.remove();
    }
  }

  /**
   * Shows why an answer ended early.
   *
   * @param {Message} message
   * @param {Said} said
   */
  #note(message, { note, failed }) {
    if (note) message.note(note);
    message.element.classList.toggle("failed", Boolean(failed));
  }

  /** @param {Conversation} conversation */
  #save(conversation) {
    conversation.changed = Date.now();
    this.dispatchEvent(new CustomEvent("change", { detail: conversation }));
  }

  #cancelEdit() {
    if (this.#edited !== null) $("prompt").value = "";
    this.#edited = null;
    this.#refresh();
  }

  /** Updates the buttons. */
  #refresh() {
    const ready = Boolean(this.#loader.engine);
    const busy = this.#answering !== null;
    const { messages } = this.conversation;
    const question = messages.findLastIndex(({ role }) => role === "user");
    for (const [i, { message }] of this.#shown.entries()) {
      const again = messages[i]?.role === "assistant" || i === messages.length - 1;
      message.mark(i >= question, { edit: true, again });
      message.element.setAttribute("aria-current", `${i === this.#edited}`);
    }
    $("prompt").disabled = $("send").disabled = $("clear").disabled = !ready;
    $("send").hidden = busy;
    $("stop").hidden = !busy;
    // A screen reader should hear the whole answer, not every piece of it.
    $("log").setAttribute("aria-busy", `${busy}`);
    $("chat").classList.toggle("busy", busy);
    $("hello").hidden = this.#shown.length > 0;
    $("suggestions").hidden = this.#shown.length > 0 || !ready;
    $("editing").hidden = this.#edited === null;
  }

  #listen() {
    const prompt = $("prompt");
    $("composer").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      const text = prompt.value.trim();
      if (!text || this.#answering) return;
      this.ask(text);
      prompt.value = "";
    });
    prompt.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        $("composer").requestSubmit();
      }
    });
    $("stop").addEventListener("click", () => this.stop());
    $("cancel-edit").addEventListener("click", () => {
      this.#cancelEdit();
      prompt.focus();
    });
    document.addEventListener("keydown", ({ key }) => {
      if (key !== "Escape") return;
      if (this.#answering) this.stop();
      else this.#cancelEdit();
    });
    $("messages").addEventListener("click", (/** @type {MouseEvent} */ event) => this.#clicked(event));
  }

  /** @param {MouseEvent} event */
  #clicked({ target }) {
    const button = /** @type {Element} */ (target).closest("button");
    if (!button) return;
    const i = this.#shown.findIndex(({ message }) => message.element.contains(button));
    const { content } = this.#shown[i].message;
    switch (button.dataset.do) {
      case "copy":
        return void copy(button, content, announce);
      case "edit":
        return this.#edit(i, content);
      case "again":
        return this.#again(i);
      default:
        copy(button, codeOf(button) ?? "", announce);
    }
  }

  /**
   * Puts an earlier question into the input; sending replaces it and all after it.
   *
   * @param {number} i
   * @param {string} content
   */
  #edit(i, content) {
    if (this.#answering) return;
    this.#edited = i;
    const prompt = $("prompt");
    prompt.value = content;
    this.#refresh();
    prompt.focus();
  }

  /**
   * Answers a message again: its answer is replaced, and all after it.
   *
   * @param {number} i
   */
  #again(i) {
    if (this.#answering || !this.#loader.engine) return;
    this.#cancelEdit();
    this.#cut(this.conversation.messages[i].role === "user" ? i + 1 : i);
    this.#answer();
  }
}

/** @returns {Conversation} */
function blank() {
  return { id: crypto.randomUUID(), title: "New chat", named: false, model: "", messages: [], changed: 0 };
}

/** @param {import("./tabloom/index.js").Usage} usage */
function count({ completion_tokens_details: details }) {
  const { accepted_prediction_tokens: right, rejected_prediction_tokens: wrong } = details;
  return right + wrong > 0 ? `${right} of ${right + wrong} draft tokens were accepted` : "";
}

/**
 * Has a screen reader read a text.
 *
 * @param {string} text
 */
export function announce(text) {
  const voice = $("voice");
  const spoken = html("p", {}, text);
  voice.append(spoken);
  // A reader that walks through the page should not find it a second time.
  setTimeout(() => spoken.remove(), 4_000);
}
