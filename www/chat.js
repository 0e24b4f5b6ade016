// The conversation that is shown, in the package's chat, with what the page has more: a record of it for the
// archive, settings of its own, how fast it goes, how full the context is, and draft tokens.
import { checked } from "./tabloom/element/parts.js";
import { textsOf } from "./archive.js";
import { $, button, write } from "./dom.js";
import { Drafts } from "./drafts.js";
import { Speed } from "./format.js";
import { latest } from "./settings.js";
import { fill, texts } from "./texts.js";
import { titleOf } from "./title.js";
import { ChatInTurn } from "./turn.js";

/** @typedef {import("./archive.js").Conversation} Conversation */

/** What is not asked yet, kept while the tab lasts. */
const DRAFT = "tabloom-draft";

/**
 * Dispatches `change` when the conversation has changed and is to be kept, and `show` when another one is
 * shown, with the title of one that was left in the middle of an answer.
 */
export class Chat extends EventTarget {
  #loader;
  #settings;
  #view;
  /** @type {Conversation} */
  conversation = blank();
  #speed = new Speed(0);
  /** Tokens of the conversation up to its last message, once they are counted, which is then `counted`. */
  #tokens = 0;
  /** @type {object | null | undefined} */
  #counted;
  /** @type {WeakMap<object, Drafts>} by message */
  #drafts = new WeakMap();
  #dismiss = button(texts.chat.dismiss, () => this.#settle(), { class: "pill" });

  /**
   * @param {import("./loader.js").Loader} loader
   * @param {import("./settings.js").Settings} settings
   */
  constructor(loader, settings) {
    super();
    this.#loader = loader;
    this.#settings = settings;
    const root = $("conversation").attachShadow({ mode: "open" });
    this.#view = new ChatInTurn(root, {
      engine: loader,
      prompt: (messages) => this.#told(messages),
      request: () => this.#request(),
      keep: () => this.#keep(),
      clear: () => this.begin(),
      startable: () => true,
      useProcessor: () => loader.useProcessor(),
      onState: () => this.#refresh(),
      onError: (error) => {
        const { code, message } = error;
        if (code === "context_length_exceeded") Object.assign(error, { message: this.#tooLong(), cause: { message } });
        // The engine's own words, for those who look.
        problem.setAttribute("title", error.cause?.message ?? "");
        // In a small window it may be far below.
        requestAnimationFrame(() => problem.scrollIntoView({ block: "nearest" }));
      },
      onChunk: (chunk, message) => this.#count(chunk, message),
    });
    root.adoptedStyleSheets.push(Drafts.style());
    const problem = /** @type {Element} */ (root.querySelector("[part=error]"));
    problem.querySelector(".buttons")?.append(this.#dismiss);
    loader.addEventListener("change", () => {
      // Another model has other tokens.
      this.#counted = undefined;
      this.#view.update();
    });
    loader.addEventListener("progress", () => {
      this.#view.update();
      if (loader.loading && loader.progress) this.#view.view.progress(loader.progress);
    });
    settings.addEventListener("change", () => this.#set());
    settings.use(latest());
    this.begin();
    this.#keepDraft();
  }

  /** Whether another tab gets an answer in this conversation: a question waits for its end. */
  get elsewhere() {
    return this.#view.elsewhere;
  }

  set elsewhere(elsewhere) {
    this.#view.elsewhere = elsewhere;
  }

  /** Whether a question is being answered. */
  get busy() {
    return this.#view.answering;
  }

  /**
   * Shows another conversation; throws where it is none that the page can show.
   *
   * @param {Conversation} conversation
   */
  show(conversation) {
    const messages = valid(conversation);
    // What there is of an answer stays.
    const { busy, conversation: before } = this;
    const left = busy && before.messages.at(-1)?.role === "assistant";
    if (busy) this.#keep();
    this.conversation = { ...conversation, messages };
    this.#tokens = 0;
    this.#counted = undefined;
    this.#speed = new Speed(0);
    this.#settings.use(conversation.settings ?? {});
    this.#view.show(this.conversation.messages);
    this.#refresh();
    this.dispatchEvent(new CustomEvent("show", { detail: left ? before.title : null }));
  }

  /**
   * Shows the same conversation as another tab has changed it; throws as `show` does.
   *
   * @param {Conversation} conversation
   */
  update(conversation) {
    this.conversation = { ...conversation, messages: valid(conversation) };
    this.#settings.use(conversation.settings ?? {});
    this.#view.conversation.update(this.conversation.messages);
    this.#refresh();
  }

  /**
   * Scrolls to the first message that says something, once all are drawn; shows the version that does, where none
   * that is shown does.
   *
   * @param {string} words in lower case
   * @returns {Promise<void>}
   */
  async find(words) {
    const { conversation } = this;
    const { messages } = conversation;
    const says = (/** @type {string} */ text) => text.toLowerCase().includes(words);
    const i = messages.findIndex(({ content }) => says(content));
    if (i < 0) {
      const hidden = messages.findIndex(({ versions }) => versions?.some((version) => textsOf(version).some(says)));
      const version = messages[hidden]?.versions?.findIndex((version) => textsOf(version).some(says)) ?? -1;
      if (version < 0) return;
      this.#view.conversation.choose(hidden, version);
      return this.find(words);
    }
    const root = /** @type {ShadowRoot} */ ($("conversation").shadowRoot);
    const frame = () => new Promise(requestAnimationFrame);
    while (root.querySelector(".text:empty")) await frame();
    // In the frame that drew the last of them, the end is scrolled to.
    await frame();
    if (conversation === this.conversation) root.querySelectorAll("article")[i]?.scrollIntoView({ block: "nearest" });
  }

  /** Begins a new conversation, with the settings of the one that is shown. */
  begin() {
    this.show({ ...blank(), settings: this.#settings.own });
  }

  /** @param {string} text */
  ask(text) {
    this.focus();
    if (!this.busy) this.#view.send(text);
  }

  /** @param {File[]} files text files to ask about */
  attach(files) {
    $("tab-chat").click();
    this.#view.view.attachments.add(files);
    this.focus();
  }

  focus() {
    this.#view.view.input.focus({ preventScroll: true });
  }

  /** Loads the model, and shows how that goes. */
  start() {
    this.#view.start();
  }

  /**
   * Switches to another model; where that fails, the present one stays.
   *
   * @param {import("./tabloom/index.js").ModelSource} source
   */
  async use(source) {
    try {
      await this.#loader.use(source);
      this.#view.fail(null);
    } catch (/** @type {any} */ error) {
      if (error.name === "AbortError") return;
      const { current, name: present } = this.#loader;
      if (current) error.message = fill(texts.chat.stays, { present, failure: error.message });
      // A name that is none is to be entered again.
      this.#view.fail(error, () => (error.param === "model" ? $("choose").click() : this.use(source)));
    }
  }

  /** Takes an error away that keeps nobody from going on. */
  #settle() {
    this.#view.fail(null);
    this.focus();
  }

  /** Keeps what is not asked yet through a reload. */
  #keepDraft() {
    const { view } = this.#view;
    try {
      view.content = sessionStorage.getItem(DRAFT) ?? "";
      addEventListener("pagehide", () => {
        this.#view.takeBack();
        sessionStorage.setItem(DRAFT, view.content);
      });
    } catch {
      // Then a reload drops it.
    }
  }

  #request() {
    this.#speed = new Speed(performance.now());
    this.#counted = undefined;
    return { stream_options: { include_usage: true }, ...this.#settings.params };
  }

  /**
   * What the model is told.
   *
   * @param {{role: "user" | "assistant", content: string}[]} messages
   */
  #told(messages) {
    const { system } = this.#settings.values;
    const first = system.trim() ? [{ role: /** @type {const} */ ("system"), content: system }] : [];
    return [...first, ...messages.map(({ role, content }) => ({ role, content }))];
  }

  /** What is too long for the model's context, in words. */
  #tooLong() {
    const { system } = this.#settings.values;
    const { tooLong, systemTooLong } = texts.chat;
    const context = this.#loader.current?.info.context ?? 0;
    const asked = this.conversation.messages.at(-1)?.content ?? "";
    return fill(system.length > asked.length ? systemTooLong : tooLong, { context });
  }

  #keep() {
    const { conversation } = this;
    const [first] = conversation.messages;
    if (first && !conversation.named) conversation.title = titleOf(first.content);
    if (this.#loader.current) conversation.model = this.#loader.name;
    conversation.changed = Date.now();
    conversation.settings = this.#settings.own;
    this.#refresh();
    this.dispatchEvent(new CustomEvent("change", { detail: conversation }));
  }

  /** Settings are the conversation's. */
  #set() {
    if (this.conversation.messages.length === 0) return;
    this.conversation.settings = this.#settings.own;
    this.dispatchEvent(new CustomEvent("change", { detail: this.conversation }));
  }

  /**
   * Takes note of a piece of an answer.
   *
   * @param {import("./tabloom/index.js").ChatCompletionChunk} chunk
   * @param {{said: {content: string}, element: HTMLElement}} message
   */
  #count({ choices: [choice], usage }, message) {
    const piece = choice?.delta.content;
    if (piece) this.#speed.token(performance.now());
    if (usage) {
      this.#speed.finish(usage);
      this.#tokens = usage.total_tokens;
      this.#counted = message.said;
    }
    if (piece && this.#settings.values.marks) this.#mark(piece.length, Boolean(choice.drafted), message);
    this.#refresh();
  }

  /**
   * Marks draft tokens in an answer.
   *
   * @param {number} length of the piece
   * @param {boolean} drafted
   * @param {{said: {content: string}, element: HTMLElement}} message
   */
  #mark(length, drafted, { said, element }) {
    const drafts = this.#drafts.get(said) ?? new Drafts();
    this.#drafts.set(said, drafts);
    if (drafted) drafts.add(said.content.length - length, said.content.length);
    requestAnimationFrame(() => drafts.show(/** @type {Element} */ (element.querySelector(".text")), said.content));
  }

  /** Shows how fast it goes, and how full the context is. */
  #refresh() {
    const engine = this.#loader.current;
    this.#dismiss.hidden = !engine;
    const context = engine?.info.context ?? 0;
    const share = context ? Math.min(100, Math.ceil((100 * this.#tokens) / context)) : 0;
    const { forgotten: left, question } = this.#view.conversation;
    const forgotten = (this.#tokens > context && question > 0) || left > 0;
    const parts = share > 0 ? [fill(texts.chat.context, { share }), forgotten && texts.chat.forgotten] : [];
    write($("speed"), [...parts, this.#speed.text(this.#settings.values.marks)].filter(Boolean).join(" · "));
    $("speed").title = share > 0 ? fill(texts.chat.tokens, { tokens: this.#tokens, context }) : "";
    if (engine && !this.busy) this.#measure(engine);
  }

  /**
   * Counts the tokens of a conversation whose last answer did not come with a count: it was stopped, or is from
   * another visit.
   *
   * @param {import("./tabloom/index.js").Engine} engine
   */
  async #measure(engine) {
    const { messages } = this.conversation;
    const last = messages.at(-1) ?? null;
    if (this.#counted === last) return;
    this.#counted = last;
    const told = this.#told(this.#view.conversation.remembered);
    // Where it fails, another request will say why.
    const tokens = last ? await engine.countTokens(told, { addGenerationPrompt: false }).catch(() => 0) : 0;
    if (this.#counted !== last) return;
    this.#tokens = tokens;
    this.#refresh();
  }
}

/** @param {Conversation} conversation */
function valid({ messages }) {
  return checked(messages).filter(({ content }) => content !== "");
}

/** @returns {Conversation} */
function blank() {
  const title = texts.chat.untitled;
  return { id: crypto.randomUUID(), title, named: false, model: "", messages: [], changed: Date.now() };
}
