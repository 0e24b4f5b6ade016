// The engine of a chat. Elements with the same model and options share one.
import { Engine } from "../index.js";
import { addressOf, isAddress, nameOf } from "../models/address.js";

/** @import { LoadOptions, Progress } from "../types.js" */

/**
 * @typedef {object} Shared
 * @property {Promise<Engine>} engine
 * @property {Set<Lease>} leases
 * @property {AbortController} loading
 * @property {Progress | null} progress
 */

/** @type {Map<string, Shared>} */
const engines = new Map();

/** A share in an engine. */
class Lease {
  #key;
  #shared;
  /** @type {(progress: Progress) => void} */
  #onProgress;

  /**
   * @param {string} model
   * @param {LoadOptions} options
   * @param {(progress: Progress) => void} onProgress
   */
  constructor(model, options, onProgress) {
    const name = isAddress(model) ? nameOf(addressOf(model)) : model;
    this.#key = JSON.stringify([name, options.device, options.quantize, `${options.workerUrl ?? ""}`]);
    this.#onProgress = onProgress;
    let shared = engines.get(this.#key);
    if (!shared) engines.set(this.#key, (shared = load(model, options)));
    this.#shared = shared;
    shared.leases.add(this);
    if (shared.progress) onProgress(shared.progress);
    // After a failed load, the next element tries again.
    shared.engine.catch(() => this.#forget());
  }

  /** The engine; rejects as `Engine.load` does. */
  get engine() {
    return this.#shared.engine;
  }

  /** @param {Progress} progress */
  report(progress) {
    this.#onProgress(progress);
  }

  /** Gives the share back; the last one closes the engine. */
  release() {
    this.#onProgress = () => {};
    const { leases, loading, engine } = this.#shared;
    if (!leases.delete(this) || leases.size > 0) return;
    this.#forget();
    loading.abort();
    engine.then(
      (engine) => engine.close(),
      () => {},
    );
  }

  /** The same for an engine that is of no use: the next element loads another. */
  discard() {
    this.#forget();
    this.release();
  }

  #forget() {
    if (engines.get(this.#key) === this.#shared) engines.delete(this.#key);
  }
}

/**
 * @param {string} address
 * @param {LoadOptions} options
 * @returns {Shared}
 */
function load(address, options) {
  const loading = new AbortController();
  /** @type {Shared} */
  const shared = { engine: Promise.resolve(/** @type {any} */ (null)), leases: new Set(), loading, progress: null };
  const onProgress = (/** @type {Progress} */ progress) => {
    shared.progress = progress;
    for (const lease of shared.leases) lease.report(progress);
  };
  shared.engine = Engine.load(address, { ...options, onProgress, signal: loading.signal });
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
