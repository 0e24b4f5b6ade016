// The page's engine: loads a model, and another one later.
import { isGone, sentenceOf } from "./tabloom/element/parts.js";
import { Engine } from "./tabloom/index.js";
import { $ } from "./dom.js";
import { SUGGESTED } from "./suggested.js";
import { fill, texts } from "./texts.js";

/** @import { ModelSource, Progress } from "./tabloom/index.js" */

const HUB = "https://huggingface.co";

/** Errors by which files of this device are no model. */
const NO_MODEL = ["fetch", "malformed", "truncated"];

/** Why nothing was fetched, where a server said so: there is nothing of that name, or not for everybody. */
const NOT_FOUND = /HTTP status 40[134]|no such file/;

/** Where the rate of the last download is kept. */
const RATE = "tabloom-rate";

/** Where the address of the model in use is kept, unless it is the built-in one. */
const USED = "tabloom-model";

/** Before the name that is kept of a file or folder of this device in place of an address. */
const LOCAL = "local:";

/** The model that comes with the page. */
export const BUILT_IN = "model/";

/**
 * Loads models, one after the other. Dispatches `change` when there is another engine, or none, and
 * `progress` while one is loaded.
 */
export class Loader extends EventTarget {
  /** @type {Engine | null} */
  current = null;
  /** How long loading took, in milliseconds. */
  took = 0;
  /** Bytes per second of the last download; 0 until there is one. */
  rate = Number(noted(RATE));
  /** @type {Progress | null} null unless a model is being loaded */
  progress = null;
  /** Whether the CPU stands in for a GPU that is not there. */
  withoutGpu = false;
  /** What is loaded, or would be. */
  source;
  #options;
  /** @type {{source: ModelSource, engine: Promise<Engine>, controller: AbortController} | null} */
  #loading = null;

  /**
   * @param {ModelSource} source
   * @param {import("./tabloom/index.js").LoadOptions} options
   */
  constructor(source, options) {
    super();
    this.source = source;
    this.#options = options;
    // A page that is left has not died of its model.
    addEventListener("pagehide", () => {
      if (this.current || this.loading) this.#noteUsed();
    });
  }

  /** The model's name for people. */
  get name() {
    return nameOf(this.source, this.current?.info.model);
  }

  /** Whether there is no engine yet, but there will be. */
  get loading() {
    return this.#loading !== null && !this.current;
  }

  /** The name of the model that is loaded while the present one stays; null where none is. */
  get next() {
    return this.#loading && this.current && nameOf(this.#loading.source);
  }

  /** Ends loading another model. */
  cancel() {
    if (this.next) this.#loading?.controller.abort();
  }

  /** Whether models run on the CPU, as the page's address or the visitor says, or for want of a GPU. */
  get onCpu() {
    return this.#options.device === "cpu";
  }

  /** Gives the engine, loaded if there is none. */
  async load() {
    if (this.current) return this.current;
    return this.#loading?.engine ?? this.#load(this.source);
  }

  /**
   * Switches to another model; the present one stays until that is loaded.
   *
   * @param {ModelSource} source
   */
  async use(source) {
    this.#loading?.controller.abort();
    await this.#load(source);
  }

  /** Uses the CPU from now on. A model that is on it already stays. */
  useProcessor() {
    this.#options.device = "cpu";
    if (this.current?.info.device !== "cpu") this.release();
  }

  /** Ends loading, and gives up the engine. */
  release() {
    this.#loading?.controller.abort();
    this.#loading = this.progress = null;
    this.current?.close();
    this.#be(null);
  }

  /** The same for an engine that is of no use. */
  discard() {
    this.release();
  }

  /**
   * Gives up the engine where a request's error says that it is of no use.
   *
   * @param {any} error
   */
  failed(error) {
    if (isGone(error)) this.release();
  }

  /** @param {ModelSource} source */
  #load(source) {
    const controller = new AbortController();
    const loading = { source, controller, engine: this.#begin(source, controller.signal) };
    this.#loading = loading;
    this.dispatchEvent(new Event("progress"));
    const end = () => {
      if (this.#loading !== loading) return;
      this.#loading = this.progress = null;
      this.dispatchEvent(new Event("progress"));
    };
    return loading.engine.finally(end);
  }

  /**
   * @param {ModelSource} source
   * @param {AbortSignal} signal
   */
  async #begin(source, signal) {
    const began = performance.now();
    // A page that dies of it comes back with the built-in model.
    noteUsed("");
    const engine = await this.#engine(source, signal).catch((error) => {
      if (this.current) this.#noteUsed();
      throw worded(error, source);
    });
    const before = this.current;
    this.source = source;
    this.took = performance.now() - began;
    this.#be(engine);
    this.#noteUsed();
    before?.release();
    return engine;
  }

  #noteUsed() {
    const { source, current } = this;
    if (typeof source !== "string") noteUsed(LOCAL + nameOf(source));
    else if (source !== BUILT_IN) noteUsed(current?.info.model ?? source);
  }

  /**
   * @param {ModelSource} source
   * @param {AbortSignal} signal
   * @returns {Promise<Engine>}
   */
  async #engine(source, signal) {
    let rate = 0;
    const onProgress = (/** @type {Progress} */ progress) => {
      if (signal.aborted) return;
      this.progress = progress;
      if (progress.stage === "download") rate = progress.rate;
      this.dispatchEvent(new Event("progress"));
    };
    const load = async () => {
      const first = source === BUILT_IN && !this.rate;
      const before = first ? [] : Engine.store.list().catch(() => []);
      const engine = await Engine.load(source, { ...this.#options, onProgress, signal });
      const { model } = engine.info;
      // What was on the device was read from there.
      const kept = (await before).some((entry) => entry.complete && entry.model === model);
      if (typeof source === "string" && rate > 0 && !kept) note(RATE, `${(this.rate = rate)}`);
      return engine;
    };
    try {
      return await load();
    } catch (/** @type {any} */ error) {
      // The built-in model is small enough for the CPU. Who then chooses another is told that it will run there.
      if (error.code !== "no_gpu" || source !== BUILT_IN) throw error;
      this.withoutGpu = true;
      this.#options.device = "cpu";
      return load();
    }
  }

  /** @param {Engine | null} engine */
  #be(engine) {
    this.current = engine;
    this.dispatchEvent(new Event("change"));
  }
}

/**
 * Why a model could not be loaded, for people; what the engine says of it is the cause.
 *
 * @param {any} error
 * @param {ModelSource} source
 */
function worded(error, source) {
  if (error.name === "AbortError") return error;
  const { failed, unfetched, unsure, notFound, unnamed, several, models, noModel } = texts.loader;
  const offered = [BUILT_IN, ...SUGGESTED.map(({ address }) => address)].includes(/** @type {string} */ (source));
  // What may be written wrong is told as it was written.
  const name = typeof source !== "string" || offered || /^https?:/.test(source) ? nameOf(source) : source;
  const why = sentenceOf(error);
  const isMissing = error.code === "fetch" && !offered && NOT_FOUND.test(error.details?.reason);
  const unfound = isMissing ? notFound : offered ? unfetched : unsure;
  const fetched = allowed(source) ? fill(unfound, { name }) : $("about-address").textContent;
  const files = error.details?.files?.join(", ");
  const named = ["model", "quantisation"].includes(error.param)
    ? fill(unnamed, { name: `${source}` })
    : fill(failed, { name, why });
  const told = files ? fill(error.param === "model" ? models : several, { name, files }) : named;
  const addressed = error.code === "fetch" ? fetched : told;
  const isNone = typeof source !== "string" && NO_MODEL.includes(error.code);
  const message = isNone ? fill(noModel, { name }) : addressed;
  const isBarred = error.code === "fetch" && !allowed(source);
  const param = isNone || isBarred || isMissing ? "model" : error.param;
  return Object.assign(new Error(message, { cause: error }), { code: error.code, param });
}

/** The model that was in use on the last visit, if all of it is on the device: nothing is downloaded unasked. */
export async function lastUsed() {
  const used = noted(USED);
  const kept = used ? await Engine.store.list() : [];
  return kept.find(({ model, complete }) => complete && model === used)?.model;
}

/** The name of the file or folder of this device that was in use instead, which the page cannot open by itself. */
export function lastLocal() {
  const used = noted(USED) ?? "";
  return used.startsWith(LOCAL) ? used.slice(LOCAL.length) : "";
}

/**
 * Notes which model is in use, unless the page's address names one, which the visitor has not chosen.
 *
 * @param {string} model
 */
function noteUsed(model) {
  if (!new URLSearchParams(location.search).has("model")) note(USED, model);
}

/** @param {string} key */
function noted(key) {
  try {
    return localStorage.getItem(key);
  } catch (error) {
    console.warn(error);
    return null;
  }
}

/**
 * Keeps a note for the next visit.
 *
 * @param {string} key
 * @param {string} text
 */
function note(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch (error) {
    // Denied or full: then the next visit knows nothing of it.
    console.warn(error);
  }
}

/**
 * Whether only another model mends an error: a name that is none, or files that are of no model or of no use.
 *
 * @param {any} error
 */
export function isLasting({ code, param }) {
  const { unusable, noChat } = texts.element;
  return ["model", "quantisation"].includes(param) || [unusable, noChat].includes(sentenceOf({ code }));
}

/**
 * Whether the page's policy lets it fetch from there.
 *
 * @param {ModelSource} source
 */
export function allowed(source) {
  if (typeof source !== "string" || source.startsWith("hf:") || !URL.canParse(source, document.baseURI)) return true;
  return [location.origin, HUB].includes(new URL(source, document.baseURI).origin);
}

/**
 * A model's name for people, of what it is loaded from or of the address that the engine has for it.
 *
 * @param {ModelSource} source
 * @param {string} [address] what it was loaded from
 */
export function nameOf(source, address) {
  if ([BUILT_IN, new URL(BUILT_IN, document.baseURI).href].includes(/** @type {string} */ (source))) {
    return texts.loader.builtIn;
  }
  return modelName(address ?? (typeof source === "string" ? source : fileName(source)));
}

/**
 * The name of a file or folder of this device.
 *
 * @param {any} source
 */
function fileName(source) {
  const { name, webkitRelativePath } = source?.[0] ?? source ?? {};
  const alone = (source?.length ?? 1) === 1;
  return webkitRelativePath?.split("/")[0] || (alone && name) || texts.loader.files;
}

/**
 * The name in a model's address: on Hugging Face its repository's, elsewhere the last part.
 *
 * @param {string} address
 */
export function modelName(address) {
  const hub = /^https:\/\/huggingface\.co\/([^/]+\/[^/]+)\//.exec(address);
  const [last = address] = address.split(/[?#]/)[0].split("/").filter(Boolean).slice(-1);
  const name = decoded(last);
  if (!hub) return name;
  return /\.gguf$/i.test(name) ? name.replace(/\.gguf$/i, "") : hub[1].split("/")[1];
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
