// The conversation that is shown, in the package's chat, with what the page has more: a record of it for the
// archive, settings of its own, what is not asked yet, how fast it goes, how full the context is, and draft tokens.
import { TEXTS as ELEMENT, checked, titleOf } from "./tabloom/element/parts.js";
import { textsOf } from "./archive.js";
import { $, button, html, write } from "./dom.js";
import { Drafts } from "./drafts.js";
import { Speed, percent } from "./format.js";
import { BUILT_IN, isLasting } from "./loader.js";
import { latest } from "./settings.js";
import { fill, texts } from "./texts.js";
import { ChatInTurn } from "./turn.js";

/** @typedef {import("./archive.js").Conversation} Conversation */

/** What is not asked yet, by conversation, kept while the tab lasts. */
const UNSENT = "tabloom-unsent";

/**
 * A conversation in a chat of its own, which it keeps as long as it is answered, also while another is shown.
 *
 * @typedef {object} Talk
 * @property {HTMLElement} element
 * @property {ChatInTurn} view
 * @property {Conversation} conversation
 * @property {Speed} speed
 * @property {number} tokens of the conversation up to its last message, once they are counted, which is then `counted`
 * @property {object | null} [counted]
 * @property {HTMLElement} dismiss takes an error away
 * @property {Pick<import("./settings.js").Settings, "own" | "values" | "params">} settings
 */

/**
 * Dispatches `change` when a conversation has changed and is to be kept, `show` when another one is shown, with the
 * title of the one before if that is still answered, `answered` when it is, with its title unless that failed, and
 * `count` when it is known how full the context is.
 */
export class Chat extends EventTarget {
  #loader;
  #settings;
  #talk;
  /** @type {Talk[]} those that are answered while another is shown */
  #away = [];
  /** @type {Map<string, import("./turn.js").Unsent>} what is not asked yet elsewhere, by `keyOf` */
  #unsent = new Map();
  /** @type {WeakMap<object, Drafts>} by message */
  #drafts = new WeakMap();

  /**
   * @param {import("./loader.js").Loader} loader
   * @param {import("./settings.js").Settings} settings
   */
  constructor(loader, settings) {
    super();
    this.#loader = loader;
    this.#settings = settings;
    this.#talk = this.#make($("conversation"));
    loader.addEventListener("change", () => {
      // Another model has other tokens, and another speed.
      this.#talk.counted = undefined;
      if (!this.busy) this.#talk.speed = new Speed(0);
      this.#view.update();
      if (loader.current && loader.source !== BUILT_IN) this.#checkTemplate(loader.current);
    });
    loader.addEventListener("progress", () => {
      this.#view.update();
      if (loader.loading && loader.progress) this.#view.view.progress(loader.progress);
    });
    settings.addEventListener("change", () => this.#set());
    settings.use(latest());
    this.begin();
    this.#keepUnsent();
  }

  /**
   * @param {HTMLElement} element
   * @returns {Talk}
   */
  #make(element) {
    const loader = this.#loader;
    const root = element.attachShadow({ mode: "open" });
    const view = new ChatInTurn(root, {
      engine: loader,
      prompt: (messages) => told(talk, messages),
      request: () => this.#request(talk),
      keep: () => this.#keep(talk),
      clear: () => this.begin(),
      startable: () => true,
      useProcessor: () => loader.useProcessor(),
      onState: (state) => {
        if (talk === this.#talk) this.#refresh();
        else if (!view.answering) this.#end(talk, state);
      },
      onError: (error) => {
        const { code, message } = error;
        write(retry, isLasting(error) ? texts.chat.another : ELEMENT.retry);
        if (code === "context_length_exceeded") Object.assign(error, { message: this.#tooLong(), cause: { message } });
        // In a small window it may be far below.
        requestAnimationFrame(() => problem.scrollIntoView({ block: "nearest" }));
      },
      onChunk: (chunk, message) => this.#count(talk, chunk, message),
    });
    root.adoptedStyleSheets.push(Drafts.style());
    const log = /** @type {Element} */ (root.querySelector("[part=log]"));
    const { input } = view.view;
    input.addEventListener("keydown", ({ key }) => {
      // Where nothing is written, the pages are those of the conversation.
      const pages = { PageUp: -0.9, PageDown: 0.9 }[key];
      if (pages && !input.value) log.scrollBy(0, pages * log.clientHeight);
    });
    const problem = /** @type {Element} */ (root.querySelector("[part=error]"));
    const retry = /** @type {Element} */ (root.querySelector("[part~=retry]"));
    const dismiss = button(texts.chat.dismiss, (event) => this.#settle(event), { class: "pill" });
    problem.querySelector(".buttons")?.append(dismiss);
    // Above the input, which stays where it is.
    root.querySelector("[part=composer]")?.before(html("slot", { name: "offer" }));
    /** @type {Talk} */
    const talk = {
      ...{ element, view, dismiss, conversation: blank(), settings: this.#settings },
      ...{ speed: new Speed(0), tokens: 0 },
    };
    return talk;
  }

  get #view() {
    return this.#talk.view;
  }

  /** The conversation that is shown. */
  get conversation() {
    return this.#talk.conversation;
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

  /** How full the model's context is, 0 to 1, as far as it is counted. */
  get share() {
    const context = this.#loader.current?.info.context ?? 0;
    return context ? Math.min(1, this.#talk.tokens / context) : 0;
  }

  /** The conversations that are being answered. */
  get growing() {
    return [this.#talk, ...this.#away].filter(({ view }) => view.answering).map(({ conversation }) => conversation);
  }

  /**
   * Shows another conversation; throws where it is none that the page can show. The one before goes on being answered.
   *
   * @param {Conversation} conversation
   */
  show(conversation) {
    const messages = valid(conversation);
    const before = this.#talk;
    const goesOn = this.busy && conversation.id !== before.conversation.id;
    this.#unsent.set(keyOf(before.conversation), before.view.pause());
    const away = this.#away.find((talk) => talk.conversation.id === conversation.id);
    if (goesOn) this.#away.push(before);
    if (goesOn || away) this.#place(away ?? this.#make(html("div", { id: "conversation" })));
    if (!away) {
      const anew = { conversation: { ...conversation, messages }, tokens: 0, counted: undefined, speed: new Speed(0) };
      this.#view.show(Object.assign(this.#talk, anew).conversation.messages);
    }
    this.#settings.use(this.conversation.settings ?? {});
    const key = keyOf(this.conversation);
    this.#view.resume(this.#unsent.get(key) ?? [""]);
    this.#unsent.delete(key);
    this.#refresh();
    this.dispatchEvent(new CustomEvent("show", { detail: goesOn ? before.conversation.title : null }));
  }

  /**
   * Shows another view, with what the page has in it.
   *
   * @param {Talk} talk
   */
  #place(talk) {
    const before = this.#talk;
    const { own, values, params } = this.#settings;
    before.settings = { own, values, params };
    talk.settings = this.#settings;
    this.#away = this.#away.filter((away) => away !== talk);
    this.#talk = talk;
    talk.element.append(...before.element.childNodes);
    before.element.replaceWith(talk.element);
    talk.view.update();
    talk.view.view.toEnd();
  }

  /**
   * A conversation that is answered while another is shown.
   *
   * @param {string} id
   */
  away(id) {
    return this.#away.find(({ conversation }) => conversation.id === id)?.conversation;
  }

  /**
   * Ends the answer to a conversation, of which nothing is kept any more.
   *
   * @param {string} id
   */
  drop(id) {
    for (const { conversation, view } of [this.#talk, ...this.#away]) {
      if (conversation.id === id && view.answering) view.show([]);
    }
    this.#away = this.#away.filter(({ conversation }) => conversation.id !== id);
  }

  /**
   * A conversation has been answered while another is shown.
   *
   * @param {Talk} talk
   * @param {string} state
   */
  #end(talk, state) {
    if (!this.#away.includes(talk)) return;
    this.#away = this.#away.filter((away) => away !== talk);
    const title = state === "ready" ? talk.conversation.title : null;
    this.dispatchEvent(new CustomEvent("answered", { detail: title }));
  }

  /**
   * Shows the same conversation as another tab has changed it; throws as `show` does.
   *
   * @param {Conversation} conversation
   */
  update(conversation) {
    this.#talk.conversation = { ...conversation, messages: valid(conversation) };
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

  /**
   * @param {string} text
   * @param {UIEvent} event by which it was chosen
   */
  ask(text, event) {
    this.focus(event);
    if (!this.busy) this.#view.send(text);
  }

  /** @param {string} text for the visitor, until something is asked or another conversation is shown */
  tell(text) {
    this.#view.view.tell(text);
  }

  /** @param {File[]} files text files to ask about */
  attach(files) {
    $("tab-chat").click();
    this.#view.view.attachments.add(files);
    this.focus();
  }

  /**
   * Has visitors write on, but not after a tap: a phone's keyboard would cover what was opened.
   *
   * @param {UIEvent} [event] of a click
   */
  focus(event) {
    const tapped = event && event.detail > 0 && matchMedia("(pointer: coarse)").matches;
    if (!tapped) this.#view.view.input.focus({ preventScroll: true });
  }

  /** Loads the model, and shows how that goes. */
  autoload() {
    this.#view.autoload();
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
      this.#view.fail(error, () => this.use(source));
    }
  }

  /**
   * Tells of a model that is not made for chats before anything is written to it.
   *
   * @param {import("./tabloom/index.js").Engine} engine
   */
  async #checkTemplate(engine) {
    const asked = { role: /** @type {const} */ ("user"), content: "?" };
    const error = await engine.applyChatTemplate([asked]).catch((error) => error);
    // An answer that is under way says so itself, and another model may be loaded by now.
    if (error.code !== "template" || this.busy || engine !== this.#loader.current) return;
    this.#view.fail(error);
  }

  /**
   * Takes an error away that keeps nobody from going on.
   *
   * @param {UIEvent} event
   */
  #settle(event) {
    this.#view.fail(null);
    this.focus(event);
  }

  /** Keeps what is not asked yet through a reload. */
  #keepUnsent() {
    try {
      this.#unsent = new Map(JSON.parse(sessionStorage.getItem(UNSENT) ?? "[]"));
      this.#view.resume(this.#unsent.get("") ?? [""]);
      this.#unsent.delete("");
    } catch (error) {
      // Then a reload drops it.
      console.warn(error);
    }
    addEventListener("pagehide", () => {
      const written = this.#view.pause();
      // The page may be shown again as it was.
      this.#view.resume(written);
      try {
        sessionStorage.setItem(UNSENT, JSON.stringify([...this.#unsent, [keyOf(this.conversation), written]]));
      } catch (error) {
        // Denied or full.
        console.warn(error);
      }
    });
  }

  /** @param {Talk} talk */
  #request(talk) {
    talk.speed = new Speed(performance.now());
    talk.counted = undefined;
    return { stream_options: { include_usage: true }, ...talk.settings.params };
  }

  /** What is too long for the model's context, in words. */
  #tooLong() {
    const { system } = this.#settings.values;
    const { tooLong, systemTooLong } = texts.chat;
    const context = this.#loader.current?.info.context ?? 0;
    const asked = this.conversation.messages.at(-1)?.content ?? "";
    return fill(system.length > asked.length ? systemTooLong : tooLong, { context });
  }

  /** @param {Talk} talk */
  #keep(talk) {
    const { conversation, settings } = talk;
    const [first] = conversation.messages;
    if (first && !conversation.named) conversation.title = titleOf(first.content);
    if (this.#loader.current) conversation.model = this.#loader.name;
    conversation.changed = Date.now();
    conversation.settings = settings.own;
    const shown = talk === this.#talk;
    if (shown) this.#refresh();
    this.dispatchEvent(new CustomEvent("change", { detail: { conversation, shown } }));
  }

  /** Settings are the conversation's. */
  #set() {
    this.#view.update();
    if (this.conversation.messages.length === 0) return;
    this.conversation.settings = this.#settings.own;
    this.keep();
  }

  /** Has the conversation that is shown kept as it is. */
  keep() {
    const { conversation } = this;
    this.dispatchEvent(new CustomEvent("change", { detail: { conversation, shown: true } }));
  }

  /**
   * Takes note of a piece of an answer.
   *
   * @param {Talk} talk
   * @param {import("./tabloom/index.js").ChatCompletionChunk} chunk
   * @param {{said: {content: string}, element: HTMLElement}} message
   */
  #count(talk, { choices: [choice], usage }, message) {
    const piece = choice?.delta.content;
    if (piece) talk.speed.token(performance.now());
    if (usage) {
      talk.speed.finish(usage);
      talk.tokens = usage.total_tokens;
      talk.counted = message.said;
    }
    if (piece && this.#settings.values.marks) this.#mark(piece.length, Boolean(choice.drafted), message);
    if (talk === this.#talk) this.#refresh();
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
    const { dismiss, tokens, speed, view } = this.#talk;
    dismiss.hidden = !engine;
    const context = engine?.info.context ?? 0;
    const { share } = this;
    const { forgotten: left, question } = view.conversation;
    const forgotten = (tokens > context && question > 0) || left > 0;
    const parts =
      share > 0 ? [fill(texts.chat.context, { share: percent(share) }), forgotten && texts.chat.forgotten] : [];
    write($("speed"), [...parts, speed.text(this.#settings.values.marks)].filter(Boolean).join(" · "));
    $("speed").title = share > 0 ? fill(texts.chat.tokens, { tokens, context }) : "";
    this.dispatchEvent(new Event("count"));
    if (engine && !this.busy) this.#measure(this.#talk, engine);
  }

  /**
   * Counts the tokens of a conversation whose last answer did not come with a count: it was stopped, or is from
   * another visit.
   *
   * @param {Talk} talk
   * @param {import("./tabloom/index.js").Engine} engine
   */
  async #measure(talk, engine) {
    const last = talk.conversation.messages.at(-1) ?? null;
    if (talk.counted === last) return;
    talk.counted = last;
    const asked = told(talk, talk.view.conversation.remembered);
    // Where it fails, another request will say why.
    const tokens = last ? await engine.countTokens(asked, { addGenerationPrompt: false }).catch(() => 0) : 0;
    if (talk.counted !== last) return;
    talk.tokens = tokens;
    this.#refresh();
  }
}

/**
 * What the model is told.
 *
 * @param {Talk} talk
 * @param {{role: "user" | "assistant", content: string}[]} messages
 */
function told({ settings }, messages) {
  const { system } = settings.values;
  const first = system.trim() ? [{ role: /** @type {const} */ ("system"), content: system }] : [];
  return [...first, ...messages.map(({ role, content }) => ({ role, content }))];
}

/**
 * What is not asked yet in a new conversation is there in the next.
 *
 * @param {Conversation} conversation
 */
function keyOf({ id, messages }) {
  return messages.length > 0 ? id : "";
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
