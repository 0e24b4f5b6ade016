import { TabloomError, invalid } from "../error.js";
import { Engine } from "../index.js";
import { Answering } from "./answering.js";
import { Conversation, Editing } from "./conversation.js";
import { wrong } from "./history.js";
import { View } from "./view/view.js";

/** @import { Host } from "./host.js" */
/** @import { TabloomChatMessage, TabloomChatState } from "./types.js" */

/**
 * A chat in a shadow tree: the conversation, and what visitors do with it. How its engine is loaded, what
 * requests carry and where the conversation is kept is up to its host.
 */
export class Chat {
  /** @readonly */
  view;
  /** @readonly */
  conversation;
  /**
   * @readonly
   * @type {Editing}
   */
  editing;
  #host;
  #answering;
  /** @type {import("./waiting.js").Waiting | undefined} loaded with the first question that waits */
  waiting;
  /** @type {{error: any, redo?: () => void} | null} what went wrong, and how to try again */
  #problem = null;

  /**
   * @param {ShadowRoot} root
   * @param {Host} host
   */
  constructor(root, host) {
    this.#host = host;
    this.view = new View(root, {
      engine: () => host.engine.current,
      prompt: host.prompt,
      send: () => this.#ask(),
      stop: () => this.stop(),
      clear: () => {
        if (host.clear) return host.clear();
        this.view.attempt(import("./undo.js").then(({ clear }) => clear(this)));
      },
      start: () => this.start(),
      again: (i) => this.again(i),
      edit: (i) => this.editing.begin(i),
      continue: () => {
        this.editing.end();
        this.#answering.answer(this.conversation.messages.at(-1));
      },
      version: (i, version) => {
        this.editing.end();
        this.conversation.choose(i, version);
      },
      cancel: () => this.editing.end(),
      retry: () => this.#problem?.redo?.(),
      processor: () => {
        this.#host.useProcessor?.();
        this.#problem?.redo?.();
      },
    });
    this.conversation = new Conversation(this.view, () => host.keep());
    this.editing = new Editing(this.view, this.conversation);
    this.#answering = new Answering(this, host);
  }

  /** Whether a question is being answered. */
  get busy() {
    return this.#answering.busy;
  }

  /** Whether a question has to wait. */
  get occupied() {
    return this.busy;
  }

  /** The messages, without an answer that is being written. */
  get said() {
    const { messages, question } = this.conversation;
    return this.busy ? messages.slice(0, question + 1) : messages;
  }

  /** @returns {TabloomChatState} */
  get state() {
    if (this.#host.engine.loading) return "loading";
    if (this.#answering.busy) return "busy";
    if (this.#problem) return "error";
    return this.#host.engine.current ? "ready" : "idle";
  }

  /** @param {TabloomChatMessage[]} messages another conversation */
  show(messages) {
    this.waiting?.back();
    this.editing.end();
    this.#answering.drop();
    this.conversation.show(messages);
    this.fail(null);
  }

  /**
   * Loads the engine, unless it is loaded or being loaded.
   *
   * @returns {Promise<Engine>}
   */
  async load() {
    try {
      return await this.#host.engine.load();
    } catch (/** @type {any} */ error) {
      if (error.name !== "AbortError") this.fail(error, () => this.start());
      throw error;
    }
  }

  /** The same, with errors shown only. */
  start() {
    this.load().catch(() => {});
  }

  /** The same without the visitor's doing: where the page died of it, the visitor is asked. */
  autoload() {
    if (!Engine.interrupted) return this.start();
    const message = "the page ended in a load";
    this.fail(new TabloomError({ code: "load_interrupted", message }), () => this.start());
  }

  /** Asks what is in the composer, once that can be. */
  #ask() {
    if (!this.occupied) return void this.send(...this.editing.take());
    this.view.attempt(import("./waiting.js").then(({ wait }) => wait(this)));
  }

  /**
   * Asks a question; resolves to the answer, or null if it was stopped before its first word or failed.
   *
   * @param {string} text
   * @param {number} [edited] the question that gives way to it
   * @returns {Promise<TabloomChatMessage | null>}
   */
  async send(text, edited) {
    if (this.#answering.busy) throw invalid("text", "the chat is busy: wait, or call stop()");
    if (typeof text !== "string") throw wrong("text", typeof text, "a text");
    const content = text.trim();
    if (!content) return null;
    if (edited !== undefined) this.conversation.branch(edited);
    /** @type {TabloomChatMessage} */
    const message = { role: "user", content };
    this.conversation.add(message);
    this.view.add(message);
    this.#host.onMessage?.({ message: { role: "user", content }, finishReason: null });
    return this.#answering.answer();
  }

  /** Stops the answer, and keeps what there is of it, or stops loading. */
  stop() {
    this.#answering.stop();
    if (!this.#host.engine.current) this.leave();
    this.update();
  }

  /** Empties the conversation. */
  clear() {
    this.show([]);
    this.view.content = "";
    this.conversation.keep();
  }

  /** Gives up the engine. */
  leave() {
    this.view.hush();
    this.#answering.stop();
    this.#host.engine.release();
  }

  /**
   * Shows an error; null removes it.
   *
   * @param {any} error
   * @param {() => void} [redo] tries again
   */
  fail(error, redo) {
    this.#problem = error && { error, redo };
    if (error) {
      // For developers: the visitor reads what to do, not why.
      console.warn(error);
      this.#host.onError?.(error);
    }
    this.update();
  }

  /** Shows the state. */
  update() {
    const { state, view } = this;
    view.busy = this.busy;
    view.answering = state === "busy";
    view.startable = state === "idle" && Boolean(this.#host.startable?.());
    view.loading = state === "loading";
    view.problem(this.#problem?.error ?? null);
    this.#host.onState?.(state);
  }

  /**
   * Answers again: another version of an answer, or the answer to a question that has none.
   *
   * @param {number} i
   */
  again(i) {
    this.editing.end();
    this.conversation.branch(this.conversation.messages[i].role === "user" ? i + 1 : i);
    this.#answering.answer();
  }
}
