/**
 * The Prompt API's `LanguageModel` for a page that has loaded no model: the first session loads it.
 *
 * @example
 * import { languageModel } from "tabloom/prompt-api";
 *
 * const LanguageModel = languageModel("smollm2-360m", { preferBrowser: true });
 * const session = await LanguageModel.create({
 *   monitor: (monitor) => monitor.addEventListener("downloadprogress", ({ loaded }) => show(loaded)),
 * });
 *
 * @module tabloom/prompt-api
 */
import { unlessAborted, whenAborted } from "./abort.js";
import { OF_LOAD } from "./calls/arguments.js";
import { invalid, kindOf } from "./error.js";
import { copied, interfaceOf } from "./prompt-api/interface.js";

export {
  LanguageModelToolCall,
  LanguageModelToolError,
  LanguageModelToolSuccess,
} from "./prompt-api/tool-messages.js";

/** @import { Engine } from "./index.js" */
/** @import { LanguageModel, LanguageModelAvailability, LanguageModelLoadOptions, ModelSource } from "./types.js" */

/**
 * Options of `Engine.load` that have another place here.
 *
 * @type {Record<string, string>}
 */
const OF_SESSIONS = {
  signal: "Use create({ signal })",
  onProgress: "Use create({ monitor })",
  fallback: "Sessions are answered on the device: leave it out",
};

/**
 * The class `LanguageModel` of a model. Nothing is loaded before it is asked; `create` loads the model, once for all
 * sessions, unless it is loaded already.
 *
 * @param {ModelSource} source as `Engine.load` takes it
 * @param {LanguageModelLoadOptions | null} [options] as well
 * @returns {LanguageModel}
 */
export function languageModel(source, options) {
  const { preferBrowser = false, browserRules = false, ...others } = read(options);
  if (source == null) throw invalid("model", `found ${source}, expected what Engine.load takes`);
  const names = OF_LOAD.split(" ")
    .map((name) => name.split(":")[0])
    .filter((name) => !OF_SESSIONS[name]);
  for (const [name, value] of Object.entries(others)) {
    if (value == null || names.includes(name)) continue;
    throw invalid(name, `there is no such option. ${OF_SESSIONS[name] ?? `Expected some of ${names.join(", ")}`}`);
  }
  const ours = interfaceOf(new Later(source, others, Boolean(browserRules)));
  const { LanguageModel: theirs } = /** @type {any} */ (globalThis);
  return preferBrowser && theirs ? steppingAside(ours, theirs) : ours;
}

/**
 * The options, each read once.
 *
 * @param {LanguageModelLoadOptions | null} [options]
 */
function read(options) {
  try {
    if (kindOf(options ?? {}) === "Object") return { ...options };
  } catch {
    // A getter throws.
  }
  throw invalid("options", `found ${kindOf(options)}, expected an object of plain values`);
}

/**
 * The class, which leaves sessions to the browser's where that has its model already.
 *
 * @param {LanguageModel} ours
 * @param {any} theirs
 */
function steppingAside(ours, theirs) {
  const { create, availability } = ours;
  /** @param {unknown} options */
  const isReady = async (options) => {
    // What the browser's refuses may be something that it does not know.
    return (await theirs.availability(options).catch(() => null)) === "available";
  };
  return Object.assign(ours, {
    /** @param {unknown} options */
    async create(options) {
      const given = copied(options);
      return (await isReady(given)) ? theirs.create(given) : create(given);
    },
    /** @param {unknown} options */
    async availability(options) {
      const given = copied(options);
      return (await isReady(given)) ? "available" : availability(given);
    },
  });
}

/** A model that is loaded when it is first needed. */
class Later {
  #source;
  #options;
  /** @type {Engine | null} */
  #engine = null;
  /** @type {Loading | null} */
  #loading = null;
  /** @type {import("./types.js").ProbedModel | null} what a look at the model has shown */
  #seen = null;

  /**
   * @param {ModelSource} source
   * @param {import("./types.js").LoadOptions} options
   * @param {boolean} browserRules
   */
  constructor(source, options, browserRules) {
    this.#source = source;
    this.#options = options;
    this.browserRules = browserRules;
  }

  /**
   * @param {(loaded: number) => void} progress
   * @param {AbortSignal} [signal]
   */
  async load(progress, signal) {
    if (this.#engine) return this.#engine;
    if (!this.#loading) {
      const loading = new Loading((onProgress, signal) => this.#begin(onProgress, signal));
      this.#loading = loading;
      whenAborted(loading.over, () => {
        if (this.#loading === loading) this.#loading = null;
      });
    }
    return this.#loading.join(progress, signal);
  }

  /** @returns {Promise<LanguageModelAvailability>} */
  async availability() {
    if (this.#engine) return "available";
    if (this.#loading) return "downloading";
    const source = this.#source;
    // Files of the page need no download.
    if (typeof source !== "string" && kindOf(source) !== "URL") return "available";
    const { quantisation, quantize, device, kvBytes, budgetBytes, workerUrl, hub, registry } = this.#options;
    // With its bytes known, only the store is asked.
    const models = [{ model: `${source}`, quantisation, quantize, bytes: this.#seen?.bytes ?? undefined }];
    const { Engine } = await import("./index.js");
    const probe = await Engine.probe({ models, kvBytes, budgetBytes, workerUrl, hub, registry });
    const [now] = probe.models;
    if (!now.problem) this.#seen ??= now;
    const { problem, fits } = this.#seen ?? now;
    const runs = device === "cpu" ? !problem : fits !== "no";
    return runs ? (now.stored ? "available" : "downloadable") : "unavailable";
  }

  /**
   * @param {(loaded: number) => void} onProgress
   * @param {AbortSignal} signal
   */
  async #begin(onProgress, signal) {
    const { Engine } = await import("./index.js");
    this.#engine = await Engine.load(this.#source, {
      ...this.#options,
      signal,
      onProgress({ stage, loaded, total }) {
        if (stage === "download" && total > 0) onProgress(loaded / total);
      },
    });
    return this.#engine;
  }
}

/** A load that several wait for; it is aborted when none does any more. */
class Loading {
  /** @type {Set<(loaded: number) => void>} */
  #waiting = new Set();
  #over = new AbortController();
  #engine;

  /** @param {(onProgress: (loaded: number) => void, signal: AbortSignal) => Promise<Engine>} begin */
  constructor(begin) {
    const onProgress = (/** @type {number} */ loaded) => {
      for (const progress of this.#waiting) progress(loaded);
    };
    this.#engine = begin(onProgress, this.#over.signal);
    const end = () => this.#over.abort();
    this.#engine.then(end, end);
  }

  /** Aborted when it has ended, or nobody waits for it. */
  get over() {
    return this.#over.signal;
  }

  /**
   * @param {(loaded: number) => void} progress
   * @param {AbortSignal} [signal]
   */
  async join(progress, signal) {
    this.#waiting.add(progress);
    progress(0);
    if (!signal) return this.#engine;
    whenAborted(signal, () => this.#leave(progress, signal.reason), this.over);
    return unlessAborted(this.#engine, signal);
  }

  /**
   * @param {(loaded: number) => void} progress
   * @param {unknown} reason
   */
  #leave(progress, reason) {
    this.#waiting.delete(progress);
    if (this.#waiting.size === 0) this.#over.abort(reason);
  }
}
