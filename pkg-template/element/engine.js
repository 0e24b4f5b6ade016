// The engine of a chat. Elements with the same model and options share one.
import { Engine } from "../index.js";
import { addressOf, isAddress, nameOf } from "../models/address.js";

/** @import { LoadOptions, Progress } from "../types.js" */

/**
 * @typedef {object} Shared
 * @property {Promise<Engine>} engine
 * @property {Set<(progress: Progress) => void>} lent what each share is told
 * @property {AbortController} loading
 * @property {Progress | null} progress
 */

/** @type {Map<string, Shared>} */
const engines = new Map();

/**
 * A share in an engine. `engine` rejects as `Engine.load` does; `forget` has the next element load another;
 * `release` gives the share back, and the last one closes the engine.
 *
 * @param {string} model
 * @param {LoadOptions} options
 * @param {(progress: Progress) => void} onProgress
 */
function lend(model, options, onProgress) {
  const name = isAddress(model) ? nameOf(addressOf(model)) : model;
  const key = [name, options.device, options.quantize, options.workerUrl].join("\n");
  const shared = engines.get(key) ?? load(model, options);
  const { engine, lent, loading, progress } = shared;
  engines.set(key, shared);
  lent.add(onProgress);
  if (progress) onProgress(progress);
  const forget = () => {
    if (engines.get(key) === shared) engines.delete(key);
  };
  const release = () => {
    if (!lent.delete(onProgress) || lent.size > 0) return;
    forget();
    loading.abort();
    engine.then(
      (engine) => engine.close(),
      () => {},
    );
  };
  // After a failed load, the next element tries again.
  engine.catch(forget);
  return { engine, forget, release };
}

/**
 * @param {string} address
 * @param {LoadOptions} options
 * @returns {Shared}
 */
function load(address, options) {
  const loading = new AbortController();
  const onProgress = (/** @type {Progress} */ progress) => {
    shared.progress = progress;
    for (const report of shared.lent) report(progress);
  };
  const engine = Engine.load(address, { ...options, onProgress, signal: loading.signal });
  /** @type {Shared} */
  const shared = { engine, lent: new Set(), loading, progress: null };
  return shared;
}

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
  /** @type {ReturnType<typeof lend> | null} */
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
      if (this.#lease !== lease) throw new DOMException("stopped", "AbortError");
      if (!this.current) this.#chat.onReady((this.current = engine));
      return engine;
    } catch (error) {
      if (this.#lease === lease) this.release();
      throw error;
    }
  }

  #lend() {
    const { model, options } = this.#chat.wanted();
    return lend(model, options, this.#chat.onProgress);
  }

  release() {
    this.#lease?.release();
    this.#lease = this.current = null;
  }

  /** The same for an engine that is of no use, so that no element gets it again. */
  discard() {
    this.#lease?.forget();
    this.release();
  }
}
