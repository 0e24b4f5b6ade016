// Why a page's arguments are refused, and what to do; loaded when they are.
import { TabloomError, invalid } from "../error.js";

/** What other libraries, and people, call it: the name here, or what to do instead. */
const HERE = {
  onProgress: "progress_callback initProgressCallback progressCallback monitor onprogress progress",
  quantize: "dtype",
  context: "n_ctx context_window_size contextLength max_length maxContext numCtx",
  kv: "cache_type_k cache_type_v kv_cache_dtype kvDtype",
  store: "useCache use_browser_cache useIndexedDBCache cacheBackend cache",
  registry: "appConfig model_list",
  hub: "remote_host remoteHost endpoint",
  signal: "abortSignal",
  workerUrl: "wasmPaths workerPath",
  slidingWindow: "sliding_window_size attention_sink_size",
  budgetBytes: "n_gpu_layers gpuLayers maxMemory",
  speculation: "speculative",
  draft: "draft_model draftModel assistant_model",
  fallback: "baseURL baseUrl apiKey",
};

/** What belongs elsewhere. */
const ELSEWHERE = {
  "Name the revision in the model: org/name@revision": "revision",
  "Name the model, its file or its folder in the first argument":
    "model modelId model_id subfolder model_file_name modelAssetPath",
  "It is a parameter of requests, such as engine.chat.completions.create({ messages, … })":
    "temperature top_p topP top_k topK seed max_tokens maxTokens max_new_tokens stop stream tools frequency_penalty presence_penalty repetition_penalty messages",
  "Use signal: AbortSignal.timeout(milliseconds)": "timeout",
  "Requests do not leave the page: leave it out": "headers maxRetries query idempotencyKey defaultHeaders",
};

/** There is no page, and no worker to be had. */
export function noWorkers() {
  const message =
    "Engine.load was called where there are no workers, as on a server or in a test without a browser. Call it in the browser: in an effect (useEffect, onMount), or when something is clicked";
  return new TabloomError({ code: "no_host", message, details: { reason: "there are no workers" } });
}

/** How many levels of a value are searched for what is no JSON. */
const DEEPEST = 10;

/**
 * What is wrong with options: one that there is not, one that cannot be read, or the signal.
 *
 * @param {any} options
 * @param {string[]} names of those that there are
 */
export function wrongOption(options, names) {
  for (const name of [...keys(options), "signal"]) {
    let value;
    try {
      value = options[name];
    } catch (/** @type {any} */ error) {
      return invalid(name, `found what cannot be read (${error.message}), expected plain values`);
    }
    if (value !== undefined && !names.includes(name)) {
      return invalid(name, `there is no such option. ${advice(name, names) ?? `Expected some of ${names.join(", ")}`}`);
    }
    if (name === "signal" && value != null && !value.throwIfAborted) return noSignal(value);
  }
  return invalid("options", "found what has no names that can be read, expected plain values");
}

/** @param {unknown} found */
function noSignal(found) {
  return invalid("signal", `found ${kindOf(found)}, expected an AbortSignal. Use controller.signal`);
}

/**
 * A value that an option or a parameter does not have.
 *
 * @param {string} param
 * @param {unknown} found a value of JSON
 * @param {string} expected
 */
export function noValue(param, found, expected) {
  return invalid(param, `found ${JSON.stringify(found)?.slice(0, 60) ?? "nothing"}, expected ${expected}`);
}

/**
 * What is wrong with a value that is no object of JSON.
 *
 * @param {unknown} value
 * @param {any} error what copying it throws
 * @param {(value: unknown) => unknown} copied
 */
export function noJson(value, error, copied) {
  const isObject = typeof value === "object" && value !== null;
  if (isObject && error instanceof Error) return flaw(value, "", error, copied);
  const found = isObject || typeof value === "string" ? JSON.stringify(value).slice(0, 40) : String(value);
  return invalid("request", `found ${found}, expected an object of parameters`);
}

/**
 * @param {any} value
 * @param {string} path
 * @param {any} error
 * @param {(value: unknown) => unknown} copied
 * @param {unknown[]} [above] the values that it is within
 * @returns {TabloomError}
 */
function flaw(value, path, error, copied, above = []) {
  const isWithin = above.includes(value);
  for (const key of isWithin || above.length === DEEPEST ? [] : keys(value)) {
    let inner;
    try {
      inner = value[key];
      copied(inner);
    } catch (error) {
      const place = Array.isArray(value) ? `${path}[${key}]` : path && `${path}.${key}`;
      return flaw(inner, place || key, error, copied, [...above, value]);
    }
  }
  const problem = typeof value === "bigint" ? "a bigint" : error.message || kindOf(value);
  const found = isWithin ? "an object within itself" : problem;
  return invalid(path || "request", `found what cannot be sent (${found}), expected plain values`);
}

/** @param {unknown} value such as a Map */
function kindOf(value) {
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

/** @param {any} value */
function keys(value) {
  try {
    return Object(value) === value ? Object.keys(value) : [];
  } catch {
    return [];
  }
}

/**
 * @param {string} wrong
 * @param {string[]} names
 */
function advice(wrong, names) {
  const alike = names.find((name) => folded(name) === folded(wrong));
  const here = alike ?? entry(HERE, wrong);
  if (here && names.includes(here)) return `Use ${here}`;
  return entry(ELSEWHERE, wrong);
}

/**
 * @param {Record<string, string>} table
 * @param {string} name
 */
function entry(table, name) {
  return Object.keys(table).find((key) => table[key].split(" ").includes(name));
}

/**
 * A name without what people write in different ways.
 *
 * @param {string} name
 */
function folded(name) {
  return name
    .replace(/[^a-z]/gi, "")
    .toLowerCase()
    .replace(/z/g, "s");
}
