// The page's engine: loads a model, and shows progress and errors.
import { Engine } from "./tabloom/index.js";
import { $ } from "./dom.js";
import { formatBytes } from "./format.js";

/** @import { ModelSource, Progress } from "./tabloom/index.js" */

/** The model that comes with the page. */
export const BUILT_IN = "model/";

/** Errors after which an engine, which survives a lost worker or device by itself, has given up. */
const GONE = ["engine_crashed", "no_gpu", "closed"];

/**
 * Loads models, one after the other. Dispatches `change` when there is another engine, or none, and `use`
 * when another model was chosen.
 */
export class Loader extends EventTarget {
  /** @type {Engine | null} */
  engine = null;
  /** How long loading took, in milliseconds. */
  took = 0;
  #source;
  #options;
  /** @type {AbortController | null} */
  #loading = null;

  /**
   * @param {ModelSource} source
   * @param {import("./tabloom/index.js").LoadOptions} options
   */
  constructor(source, options) {
    super();
    this.#source = source;
    this.#options = options;
    $("retry").addEventListener("click", () => this.load());
    $("use-cpu").addEventListener("click", () => {
      this.#options.device = "cpu";
      this.load();
    });
  }

  /** The model's name for people. */
  get name() {
    return nameOf(this.#source, this.engine?.info.model);
  }

  /**
   * Switches to another model.
   *
   * @param {ModelSource} source
   */
  use(source) {
    this.#source = source;
    this.#drop();
    this.dispatchEvent(new Event("use"));
    this.load();
  }

  async load() {
    this.#loading?.abort();
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    $("problem").hidden = true;
    $("loading").hidden = false;
    const began = performance.now();
    try {
      const options = { ...this.#options, onProgress: showProgress, signal };
      this.engine = await Engine.load(this.#source, options);
    } catch (/** @type {any} */ error) {
      if (signal.aborted) return;
      const noGpu = error.code === "no_gpu";
      showProblem(noGpu ? "This browser offers no WebGPU" : "The model could not be loaded", error);
      return;
    } finally {
      if (!signal.aborted) $("loading").hidden = true;
    }
    this.took = performance.now() - began;
    this.dispatchEvent(new Event("change"));
  }

  /**
   * Handles a request's error: after some of them the engine is of no use.
   *
   * @param {any} error
   */
  failed(error) {
    if (!GONE.includes(error.code) || !this.engine) return;
    this.#drop();
    showProblem("The model has stopped", error);
  }

  #drop() {
    this.engine?.close();
    this.engine = null;
    this.dispatchEvent(new Event("change"));
  }
}

/**
 * A model's name for people.
 *
 * @param {ModelSource} source
 * @param {string} [address] what it was loaded from
 */
function nameOf(source, address) {
  if (source === BUILT_IN) return "Built-in model";
  return modelName(address ?? (typeof source === "string" ? source : "files of this device"));
}

/**
 * The name in a model's address: on Hugging Face its repository's, elsewhere the last part.
 *
 * @param {string} address
 */
export function modelName(address) {
  const hub = /^https:\/\/huggingface\.co\/([^/]+\/[^/]+)\//.exec(address);
  const [last = address] = address.split(/[?#]/)[0].split("/").filter(Boolean).slice(-1);
  const name = decodeURIComponent(last);
  if (!hub) return name;
  return /\.gguf$/i.test(name) ? name.replace(/\.gguf$/i, "") : hub[1].split("/")[1];
}

/** @param {Progress} progress */
function showProgress({ stage, file, loaded, total, rate }) {
  const bar = $("loading-bar");
  if (total > 0) [bar.max, bar.value] = [total, loaded];
  else bar.removeAttribute("value");
  $("loading-label").textContent = stage === "download" ? "Loading the model…" : "Preparing the GPU kernels…";
  $("loading-detail").textContent =
    stage === "download"
      ? `${file}: ${formatBytes(loaded)} of ${formatBytes(total)}, ${formatBytes(rate)}/s`
      : `${loaded} of ${total}`;
}

/**
 * @param {string} title
 * @param {any} error
 */
function showProblem(title, error) {
  $("problem-title").textContent = title;
  $("problem-text").textContent = error.message;
  $("use-cpu").hidden = error.code !== "no_gpu";
  $("problem").hidden = false;
  $(error.code === "no_gpu" ? "use-cpu" : "retry").focus();
}
