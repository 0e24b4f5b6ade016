// Why a page's arguments are refused, and what to do; loaded when they are.
import { TabloomError, invalid } from "../error.js";
import { brief, noValue, reason, unread } from "../found.js";

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

/** @typedef {[holder: any, name: string | number][]} Trail the way to a value that is being copied */

/** Most names of a place that are told. */
const DEEPEST = 10;

/** What kinds of options are called, where their values are not named. */
const KINDS = new Map(
  Object.entries({
    Function: "a function",
    signal: "an AbortSignal. Use controller.signal",
    Boolean: "true or false",
    Number: "a number",
    String: "a text",
    Object: "an object",
    Array: "a list",
  }),
);

/**
 * What is wrong with an option: there is no such, it cannot be read, or it has another value.
 *
 * @param {string} name
 * @param {unknown} found
 * @param {Map<string, string | undefined>} known the options that there are
 * @param {unknown} thrown
 */
export function wrongOption(name, found, known, thrown) {
  if (found === undefined) return unread(name, thrown);
  if (name === "options") return noValue(name, found, "an object");
  const names = [...known.keys()];
  if (!known.has(name)) {
    return invalid(name, `there is no such option. ${advice(name, names) ?? `Expected some of ${names.join(", ")}`}`);
  }
  const kinds = (known.get(name) ?? name).split("|").map((kind) => KINDS.get(kind) ?? kind);
  return noValue(name, found, kinds.length > 1 ? `one of ${kinds.join(", ")}` : kinds[0]);
}

/**
 * What is wrong with a value that is no object of JSON.
 *
 * @param {unknown} value
 * @param {Trail} trail to what is wrong; none where all is JSON
 * @param {unknown} error
 */
export function noJson(value, trail, error) {
  if (trail.length === 0) return noValue("request", value, "an object of parameters");
  const holders = trail.map(([holder]) => holder);
  const again = holders.findIndex((holder, i) => holders.indexOf(holder) < i);
  const names = trail.slice(1, again < 0 ? undefined : again).map(([, name]) => name);
  const found = again < 0 ? reason(error) : "an object within itself";
  return invalid(place(names) || "request", `found what cannot be sent (${found}), expected plain values`);
}

/** @param {(string | number)[]} names */
function place(names) {
  const told = names.slice(0, DEEPEST);
  return told.map((name, i) => (typeof name === "number" ? `[${name}]` : `${i ? "." : ""}${brief(name)}`)).join("");
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
