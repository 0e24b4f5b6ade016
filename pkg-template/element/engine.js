import { Lease } from "./engines.js";

/** @import { Engine } from "../index.js" */
/** @import { LoadOptions, Progress } from "../types.js" */

/**
 * The chat that an engine is loaded for.
 *
 * @typedef {object} Chat
 * @property {() => {model: string, options: LoadOptions}} wanted throws where there is no model
 * @property {() => void} onLoading
 * @property {(progress: Progress) => void} onProgress
 * @property {(engine: Engine) => void} onReady
 */

/** The engine of a chat: shared with other elements, or set by the page. */
export class ChatEngine {
  /** @type {Engine | null} null until it is loaded */
  current = null;
  #chat;
  /** @type {Lease | null} */
  #lease = null;

  /** @param {Chat} chat */
  constructor(chat) {
    this.#chat = chat;
  }

  get loading() {
    return this.#lease !== null && !this.current;
  }

  /** @returns {Promise<Engine>} */
  async load() {
    if (this.current) return this.current;
    const lease = (this.#lease ??= this.#lend());
    this.#chat.onLoading();
    try {
      const engine = await lease.engine;
      if (this.#lease !== lease) throw new DOMException("the chat was stopped", "AbortError");
      if (!this.current) this.#chat.onReady((this.current = engine));
      return engine;
    } catch (error) {
      if (this.#lease === lease) this.release();
      throw error;
    }
  }

  #lend() {
    const { model, options } = this.#chat.wanted();
    return new Lease(model, options, this.#chat.onProgress);
  }

  release() {
    this.#lease?.release();
    this.#lease = this.current = null;
  }

  /** The same for an engine that is of no use, so that no element gets it again. */
  discard() {
    this.#lease?.discard();
    this.#lease = this.current = null;
  }
}
