/**
 * `<tabloom-chat model="…">`: a private chat in one line of HTML.
 *
 * @example
 * <script type="module" src="tabloom/element.js"></script>
 * <tabloom-chat model="smollm2-360m"></tabloom-chat>
 *
 * @module tabloom/element
 */

import { Chat } from "./element/chat.js";
import { ChatEngine } from "./element/engine.js";
import { History, checked, wrong } from "./element/history.js";
import { RENDERERS } from "./element/prose/renderers.js";
import { TEXTS } from "./element/texts.js";

/** @typedef {import("./element/types.js").TabloomChatMessage} TabloomChatMessage */
/** @typedef {import("./element/types.js").TabloomChatState} TabloomChatState */
/** @typedef {import("./element/types.js").TabloomChatEventMap} TabloomChatEventMap */
/** @typedef {import("./element/prose/renderers.js").CodeRenderer} CodeRenderer */
/** @typedef {import("./element/prose/renderers.js").MathRenderer} MathRenderer */
/** @typedef {typeof import("./element/view/later.js").ALL} Texts */
/** @typedef {import("./index.js").Engine} Engine */
/** @typedef {import("./types.js").LoadOptions} LoadOptions */

/** Attributes that need another engine when they change. */
const OF_ENGINE = ["model", "device", "quantize"];
/** Properties that a page may set before it has loaded this module. */
const PROPERTIES = ["engine", "messages", "workerUrl"];

/** On servers, without a document, the module can be imported too, and makes no elements. */
const Base = globalThis.HTMLElement ?? /** @type {typeof HTMLElement} */ (class {});

/**
 * A chat with a model that runs on the visitor's device.
 *
 * It loads its model when the visitor first asks or starts it, and shares the engine with other elements
 * and tabs.
 *
 * @attr {string} model - an address or a name, as `Engine.load` takes them
 * @attr {boolean} autoload - load at once, without being asked, unless the page died when it last did
 * @attr {string} system - the system message
 * @attr {number} temperature - default the model's own; 0 is greedy
 * @attr {number} max-tokens - most tokens of an answer
 * @attr {"auto" | "gpu" | "cpu"} device - as for `Engine.load`
 * @attr {"keep" | "w8" | "w4"} quantize - as for `Engine.load`
 * @attr {string} worker-url - as `workerUrl` of `Engine.load`
 * @attr {string} placeholder - the text of the empty input
 * @attr {"session" | "local"} storage - keeps the conversation there, under the element's `id` or else its model; further elements of a page with the same name have places of their own
 *
 * @fires {CustomEvent<Progress>} tabloom-load - how far loading is: `stage`, `file`, `loaded`, `total`, `rate`
 * @fires {CustomEvent<{engine: Engine}>} tabloom-ready - the engine is loaded: `engine`
 * @fires {CustomEvent} tabloom-message - a question was asked, or an answer has ended: `message` and `finishReason`
 * @fires {CustomEvent<{error: Error & {code?: ErrorCode}}>} tabloom-error - something went wrong, which the element shows and the console tells: `error`
 *
 * @slot header - above the conversation
 * @slot footer - below the input
 * @slot empty - in place of the conversation before the first question
 * @slot send-label - the picture on the button that asks
 * @slot stop-label - that on the button that stops an answer
 * @slot clear-label - that on the button that begins anew
 * @slot latest-label - that on the button that goes to the newest message
 * @slot attach-label - that on the button that attaches text files
 * @slot dictate-label - that on the button that dictates
 *
 * @cssprop --tabloom-accent - colour of the main buttons and links
 * @cssprop --tabloom-accent-text - colour of what is on it
 * @cssprop --tabloom-background - colour behind all
 * @cssprop --tabloom-text - colour of text
 * @cssprop --tabloom-muted - colour of text beside the point
 * @cssprop --tabloom-line - colour of borders
 * @cssprop --tabloom-surface - colour behind code, tables and the input
 * @cssprop --tabloom-bubble - colour behind questions
 * @cssprop --tabloom-alert - colour of errors
 * @cssprop --tabloom-radius - radius of the corners
 * @cssprop --tabloom-font - font family
 * @cssprop --tabloom-font-size - font size
 * @cssprop --tabloom-font-mono - font family of code
 *
 * @csspart chat - all of it
 * @csspart log - the conversation
 * @csspart empty - what is there before the first question
 * @csspart message - a question or an answer
 * @csspart user - a question
 * @csspart assistant - an answer
 * @csspart text - the text of a message
 * @csspart attached - a text that is attached to a question, folded
 * @csspart actions - the buttons below a message
 * @csspart code-block - a block of code
 * @csspart math - a formula, where the page shows such
 * @csspart table - a table
 * @csspart quote - a quotation
 * @csspart link - a link
 * @csspart note - what is said of an answer, e.g. that it was stopped
 * @csspart waiting - in place of an answer's first word
 * @csspart forgotten - that the model no longer sees what is above
 * @csspart foot - all below the conversation
 * @csspart status - how far loading is
 * @csspart progress - the bar of it
 * @csspart error - what went wrong
 * @csspart editing - that a question is being edited
 * @csspart next - a question that waits until the answer has its end
 * @csspart cleared - that the conversation was deleted
 * @csspart composer - the form of the input
 * @csspart input - the input
 * @csspart notice - what there is to say of what is attached or dictated
 * @csspart attachments - what is attached to the next question
 * @csspart attachment - a text of them
 * @csspart button - a button, of the parts below
 * @csspart send - asks
 * @csspart stop - stops loading or an answer
 * @csspart clear - begins anew
 * @csspart start - loads the model
 * @csspart retry - tries again after an error
 * @csspart processor - goes on with the CPU where there is no GPU
 * @csspart cancel - leaves a question as it was
 * @csspart undo - brings back the conversation that was deleted
 * @csspart latest - goes to the newest message
 * @csspart attach - attaches text files
 * @csspart dictate - dictates, where the browser recognises speech on the device
 * @csspart detach - removes what is attached
 * @csspart as-text - turns a pasted text that is attached back into text
 * @csspart action - a button below a message, of the parts below
 * @csspart copy - copies a message
 * @csspart edit - edits a question
 * @csspart read - reads an answer aloud, where the device has a voice
 * @csspart continue - goes on with an answer that was stopped
 * @csspart again - asks for another answer
 * @csspart versions - chooses among the versions of a message
 * @csspart older - shows the previous version
 * @csspart newer - shows the next version
 * @csspart copy-code - copies a block of code
 *
 * @cssstate loading - the model is being loaded
 * @cssstate ready - it can be asked
 * @cssstate busy - it is answering
 * @cssstate error - something went wrong
 */
export class TabloomChat extends Base {
  /**
   * The texts of elements made from now on; change or set them, all or some, for another language.
   *
   * @returns {typeof TEXTS & Partial<Texts>}
   */
  static get texts() {
    return TEXTS;
  }

  /** @param {Partial<Texts>} some */
  static set texts(some) {
    Object.assign(TEXTS, some);
  }

  /** What shows code in colours, and mathematics; set it before the first element is made. */
  static renderers = RENDERERS;
  static observedAttributes = [...OF_ENGINE, "autoload", "placeholder"];

  /** @type {LoadOptions["workerUrl"] | null} */
  #workerUrl;
  #internals = this.attachInternals?.();
  #engine = new ChatEngine({
    wanted: () => this.#wanted(),
    onLoading: () => {
      this.#chat.fail(null);
      // What goes wrong later may be the network.
      import("./element/view/problems.js").catch(() => {});
    },
    onProgress: (progress) => {
      this.#chat.view.progress(progress);
      this.#emit("tabloom-load", progress);
    },
    onReady: (engine) => {
      this.#chat.view.announce(TEXTS.ready);
      this.#chat.update();
      this.#emit("tabloom-ready", { engine });
    },
  });
  #chat = new Chat(this.attachShadow({ mode: "open" }), {
    engine: this.#engine,
    prompt: (messages) => {
      const { system } = this;
      return system ? [{ role: "system", content: system }, ...messages] : messages;
    },
    request: () => this.#request(),
    keep: () => {
      const { view, conversation } = this.#chat;
      const error = this.#history?.write(conversation.messages);
      if (error) view.attempt(import("./element/unkept.js").then(({ tellUnkept }) => tellUnkept(view, error)));
    },
    startable: () => Boolean(this.model) && !this.autoload,
    useProcessor: () => {
      this.#processor = true;
    },
    onState: (state) => this.#show(state),
    onMessage: (detail) => this.#emit("tabloom-message", detail),
    onError: (error) => this.#emit("tabloom-error", { error }),
  });
  /** @type {History | null} null until it is connected */
  #history = null;
  /** Whether the visitor has chosen the CPU. */
  #processor = false;
  /** Whether it was connected; until then its attributes come one after the other. */
  #begun = false;

  constructor() {
    super();
    for (const name of PROPERTIES) this.#upgrade(name);
    this.#chat.update();
  }

  connectedCallback() {
    this.#begun = true;
    if (!this.#history) {
      this.#history = new History(this.storage, this.id || (this.model ?? ""), this, () => this.#follow());
      const kept = this.#history.read();
      if (kept.length > 0 && this.#chat.conversation.messages.length === 0) this.#chat.show(kept);
    }
    this.#chat.update();
    if (this.autoload) this.#chat.autoload();
  }

  /** Nothing ends when it is moved by `moveBefore`. */
  connectedMoveCallback() {}

  disconnectedCallback() {
    // An element that is only moved is back at once.
    setTimeout(() => {
      if (this.isConnected) return;
      this.#chat.leave();
      this.#chat.update();
    });
  }

  /**
   * @param {string} name
   * @param {string | null} before
   * @param {string | null} after
   */
  attributeChangedCallback(name, before, after) {
    if (name === "placeholder") this.#chat.view.placeholder = after;
    if (!this.#begun || before === after) return;
    if (OF_ENGINE.includes(name)) {
      if (name === "device") this.#processor = false;
      this.#chat.leave();
      this.#chat.fail(null);
    }
    this.#chat.update();
    if (this.autoload && this.isConnected) this.#chat.autoload();
  }

  /** Address of the model's folder or GGUF file, or its name, as `Engine.load` takes them. */
  get model() {
    return this.getAttribute("model");
  }

  set model(value) {
    this.#reflect("model", value);
  }

  /** The system message. */
  get system() {
    return this.getAttribute("system");
  }

  set system(value) {
    this.#reflect("system", value);
  }

  /** The text of the empty input. */
  get placeholder() {
    return this.getAttribute("placeholder");
  }

  set placeholder(value) {
    this.#reflect("placeholder", value);
  }

  /** Whether the model is loaded at once, and not only when the visitor asks or starts it. */
  get autoload() {
    return this.hasAttribute("autoload");
  }

  set autoload(value) {
    this.toggleAttribute("autoload", value);
  }

  /** `auto`, `gpu` or `cpu`, as `Engine.load` takes it. */
  get device() {
    return this.getAttribute("device");
  }

  set device(value) {
    this.#reflect("device", value);
  }

  /** `keep`, `w8` or `w4`, as `Engine.load` takes it. */
  get quantize() {
    return this.getAttribute("quantize");
  }

  set quantize(value) {
    this.#reflect("quantize", value);
  }

  /** Default the model's own; at 0 the same question gets the same answer. */
  get temperature() {
    return numeric(this.getAttribute("temperature"));
  }

  /** @param {number | null} value */
  set temperature(value) {
    this.#reflect("temperature", value);
  }

  /** Most tokens of an answer. */
  get maxTokens() {
    return numeric(this.getAttribute("max-tokens"));
  }

  /** @param {number | null} value */
  set maxTokens(value) {
    this.#reflect("max-tokens", value);
  }

  /**
   * Where the conversation is kept: `session`, until the tab is closed; `local`, until it is cleared;
   * anything else, nowhere. Its key is the element's `id`, or else its model.
   */
  get storage() {
    return this.getAttribute("storage");
  }

  set storage(value) {
    this.#reflect("storage", value);
  }

  /**
   * The site's own script that is, or imports, `worker.js`, if that is not beside this module or is of
   * another origin; by default what the attribute `worker-url` names. Pages that require Trusted Types allow
   * the policy `tabloom`, or pass a `TrustedScriptURL`.
   */
  get workerUrl() {
    return this.#workerUrl ?? this.getAttribute("worker-url");
  }

  /** @param {LoadOptions["workerUrl"] | null} value */
  set workerUrl(value) {
    this.#workerUrl = value;
  }

  /** What the chat is doing; the same as its custom state. */
  get state() {
    return this.#chat.state;
  }

  /** The engine, once there is one; a page that sets its own has to close it itself. */
  get engine() {
    return this.#engine.current;
  }

  set engine(engine) {
    try {
      void engine?.chat.completions;
    } catch {
      throw wrong("engine", typeof engine, "an Engine");
    }
    this.#chat.leave();
    this.#engine.current = engine;
    this.#chat.fail(null);
    if (engine) this.#emit("tabloom-ready", { engine });
  }

  /** The conversation, without an answer that is being written; with `versions` where a message has several. */
  get messages() {
    return checked(this.#chat.said);
  }

  set messages(messages) {
    this.#chat.show(checked(messages));
    this.#chat.conversation.keep();
  }

  /**
   * Loads the engine, unless it is loaded or being loaded.
   *
   * @returns {Promise<Engine>}
   */
  load() {
    return this.#chat.load();
  }

  /**
   * Asks a question; resolves to the answer, or null if it was stopped before its first word or failed.
   *
   * @param {string} text
   * @returns {Promise<TabloomChatMessage | null>}
   */
  send(text) {
    return this.#chat.send(text);
  }

  /** Stops the answer, and keeps what there is of it, or stops loading. */
  stop() {
    this.#chat.stop();
  }

  /** Begins a new conversation. */
  clear() {
    this.#chat.clear();
  }

  /**
   * Focuses the input.
   *
   * @param {FocusOptions} [options]
   */
  focus(options) {
    this.#chat.view.input.focus(options);
  }

  /** The model to load, and how. */
  #wanted() {
    const { model, workerUrl } = this;
    if (!model) throw wrong("model", model, "a model's address or name");
    const device = this.#processor ? "cpu" : (this.device ?? undefined);
    const options = /** @type {LoadOptions} */ ({ device, quantize: this.quantize ?? undefined, workerUrl });
    return { model, options };
  }

  #request() {
    const [temperature, max_completion_tokens] = ["temperature", "max-tokens"].map((attribute) => {
      const text = this.getAttribute(attribute);
      const number = numeric(text);
      if (!Number.isNaN(number)) return number;
      throw wrong(attribute, text, "a number");
    });
    return { temperature, max_completion_tokens };
  }

  /** @param {TabloomChatState} state */
  #show(state) {
    const states = /** @type {any} */ (this.#internals)?.states;
    states?.clear();
    if (state !== "idle") states?.add(state);
    this.#follow();
  }

  /** Shows what another tab has made of the conversation, once nothing is being answered here. */
  #follow() {
    if (this.#history?.stale && !this.#chat.busy) this.#chat.conversation.update(this.#history.read());
  }

  /**
   * @template {keyof TabloomChatEventMap} K
   * @param {K} type
   * @param {TabloomChatEventMap[K]["detail"]} detail
   */
  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail, bubbles: true, composed: true }));
  }

  /**
   * @param {string} attribute
   * @param {string | number | null} value
   */
  #reflect(attribute, value) {
    if (value === null || value === undefined) this.removeAttribute(attribute);
    else this.setAttribute(attribute, /** @type {string} */ (value));
  }

  /** @param {string} name of a property that may have been set before the element was upgraded */
  #upgrade(name) {
    const self = /** @type {any} */ (this);
    if (!Object.hasOwn(self, name)) return;
    const value = self[name];
    delete self[name];
    self[name] = value;
  }
}

/**
 * The number in an attribute; NaN if it is none, null if it is empty.
 *
 * @param {string | null} text
 */
function numeric(text) {
  return text?.trim() ? Number(text) : null;
}

// The build adds the tag to the declarations: JSDoc has no words for what is global.
if (globalThis.customElements && !customElements.get("tabloom-chat")) {
  customElements.define("tabloom-chat", TabloomChat);
}
