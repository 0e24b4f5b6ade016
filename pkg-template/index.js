/**
 * Private language models inside the browser, on the visitor's own GPU.
 *
 * @example
 * import { Engine } from "tabloom";
 *
 * const engine = await Engine.load("/models/my-model/");
 * const stream = await engine.chat.completions.create({
 *   messages: [{ role: "user", content: "Tell me a story." }],
 *   stream: true,
 * });
 * for await (const chunk of stream) show(chunk.choices[0]?.delta.content ?? "");
 *
 * @module tabloom
 */

import { Streamed, Whole } from "./calls.js";
import { TabloomError } from "./error.js";
import { Ladder } from "./ladder.js";
import { Session } from "./session.js";

export { TabloomError };

/**
 * What loading is doing.
 *
 * @typedef {object} Progress
 * @property {"download" | "compile"} stage
 * @property {string} file the file being read; empty while kernels are compiled
 * @property {number} loaded bytes of weights read so far, or dispatches made ready
 * @property {number} total bytes of all weight files, or dispatches in all
 * @property {number} rate bytes (or dispatches) per second since the stage began
 */

/**
 * @typedef {object} LoadOptions
 * @property {"auto" | "gpu" | "cpu"} [device] `auto` (default) uses the GPU; `cpu` is the slow fallback where there is none
 * @property {"keep" | "w8" | "w4"} [quantize] how 16- and 32-bit matrices are held; default `keep`
 * @property {number} [context] most tokens of one conversation; default the model's own, as far as
 *   `kvBytes` reach
 * @property {"f16" | "int8"} [kv] how keys and values are held; `int8` takes little more than half the
 *   memory of `f16` (default). Layers for which it is unsafe stay in f16
 * @property {number} [kvBytes] memory for keys and values, shared by all conversations; default
 *   256 MiB, or what 4096 tokens need where that is more
 * @property {{sinks?: number, tokens: number}} [slidingWindow] lets a conversation outgrow the model's
 *   context: each token sees the first `sinks` tokens (a multiple of 16, default 16) and the last
 *   `tokens`, both together within the context. What lies between them is forgotten
 * @property {"auto" | "shared" | "leader" | "private"} [host] where the engine lives: in a worker that
 *   the site's tabs share, a SharedWorker (`shared`) or one tab's (`leader`), or in one of its own
 *   (`private`). `auto` (default) is the first that works here; another that does not rejects with
 *   code `no_host`
 * @property {"shared" | "tab" | {session: string}} [isolation] who may share cached prompts, whose
 *   shorter time to the first token others could notice: all tabs (default), none, or those with the
 *   same `session`
 * @property {number} [budgetBytes] memory for the weights, keys and values of all models that the
 *   site's tabs share; default 4 GiB. The latest to be named counts
 * @property {(progress: Progress) => void} [onProgress]
 * @property {AbortSignal} [signal] ends loading
 * @property {string | {toString(): string}} [workerUrl] where `worker.js` is served, if not beside
 *   this module; pages that require Trusted Types pass a `TrustedScriptURL`
 */

/**
 * What was loaded, and on what.
 *
 * @typedef {object} EngineInfo
 * @property {string} model the address it was loaded from
 * @property {string} architecture
 * @property {"gpu" | "cpu"} device
 * @property {string} adapter for people
 * @property {boolean} software a CPU emulates the GPU
 * @property {number} context most tokens of one conversation
 * @property {number} weightBytes bytes of weights held
 */

/**
 * @typedef {object} ChatMessage
 * @property {"system" | "user" | "assistant"} role
 * @property {string | {type: "text", text: string}[]} content
 */

/**
 * @typedef {object} ChatCompletionParams
 * @property {ChatMessage[]} messages
 * @property {boolean} [stream]
 * @property {{include_usage?: boolean}} [stream_options]
 * @property {number} [max_completion_tokens]
 * @property {number} [max_tokens]
 * @property {number} [temperature] 0 is greedy
 * @property {number} [top_p]
 * @property {number} [top_k]
 * @property {number} [min_p]
 * @property {number} [seed]
 * @property {number} [n] answers to the same messages, 1 to 16; the i-th uses `seed` + i
 * @property {string | string[]} [stop]
 * @property {{type: "text"} | {type: "json_object"} | {type: "json_schema", json_schema: {name?: string,
 *   description?: string, schema: object | boolean, strict?: boolean | null}}} [response_format]
 *   what the answer must look like; schemas are always enforced
 * @property {StructuredOutputs} [structured_outputs] the same in vLLM's terms
 * @property {number} [presence_penalty] -2 to 2, on tokens of the answer so far
 * @property {number} [frequency_penalty] -2 to 2, on each of their occurrences
 * @property {number} [repetition_penalty] above 0, on tokens of prompt and answer; 1 is off
 * @property {Record<string, number>} [logit_bias] token ids to -100 to 100, at most 1024
 * @property {boolean} [logprobs] tells how likely each token was, before penalties, bias and filters
 * @property {number} [top_logprobs] 0 to 20 of the likeliest tokens beside each
 * @property {number} [prompt_logprobs] the same for the tokens of the prompt; not in a stream
 * @property {number[]} [allowed_token_ids] the only tokens that may be drawn
 * @property {string[]} [bad_words] texts that may not appear, at most 256
 * @property {number[]} [stop_token_ids] tokens that end the answer
 * @property {boolean} [ignore_eos] the model's own end tokens do not
 * @property {number} [min_tokens] before so many tokens, no end token can be drawn
 * @property {string} [model] ignored: an engine holds one model
 */

/**
 * What an answer must look like: exactly one of these.
 *
 * @typedef {object} StructuredOutputs
 * @property {object | boolean} [json] a JSON schema
 * @property {string} [regex] a regular expression that the whole answer matches, in the syntax of
 *   Rust's `regex`
 * @property {string[]} [choice] texts of which the answer is one
 * @property {string} [grammar] a grammar in llguidance's dialect of Lark
 * @property {boolean} [json_object] any JSON object
 */

/**
 * @typedef {object} Usage
 * @property {number} prompt_tokens
 * @property {number} completion_tokens
 * @property {number} total_tokens
 */

/** @typedef {"stop" | "length"} FinishReason */

/**
 * A token and the natural logarithm of its probability.
 *
 * @typedef {object} TopLogprob
 * @property {string} token
 * @property {number} logprob
 * @property {number[]} bytes the token's UTF-8, which may be part of a character
 */

/** @typedef {TopLogprob & {top_logprobs: TopLogprob[]}} TokenLogprob */

/** @typedef {{content: TokenLogprob[], refusal: null}} Logprobs */

/**
 * @typedef {object} ChatCompletionChunk
 * @property {string} id
 * @property {"chat.completion.chunk"} object
 * @property {number} created seconds since 1970
 * @property {string} model
 * @property {{index: number, delta: {role?: "assistant", content?: string}, logprobs: Logprobs | null, finish_reason: FinishReason | null, stop_reason?: number}[]} choices
 *   `logprobs` are those of the tokens whose text ends in this chunk; `stop_reason` is the one of
 *   `stop_token_ids` that ended the answer
 * @property {Usage | null} [usage]
 */

/**
 * @typedef {object} ChatCompletion
 * @property {string} id
 * @property {"chat.completion"} object
 * @property {number} created seconds since 1970
 * @property {string} model
 * @property {{index: number, message: {role: "assistant", content: string, refusal: null}, logprobs: Logprobs | null, finish_reason: FinishReason, stop_reason?: number}[]} choices
 * @property {Usage} usage
 * @property {(TokenLogprob | null)[]} [prompt_logprobs] one per token of the prompt; null for the first
 */

/**
 * @typedef {object} EmbeddingParams
 * @property {string | string[] | number[] | number[][]} input texts, or their token ids, at most 2048
 * @property {"float" | "base64"} [encoding_format] default `float`; `base64` is little-endian f32
 * @property {"last" | "mean"} [pooling] the last hidden state of a text (default), or the mean of all
 * @property {string} [model] ignored: an engine holds one model
 */

/**
 * @typedef {object} EmbeddingResponse
 * @property {"list"} object
 * @property {{object: "embedding", index: number, embedding: number[] | string}[]} data one per input,
 *   in order, of length 1; strings where base64 was asked for
 * @property {string} model
 * @property {{prompt_tokens: number, total_tokens: number}} usage
 */

/** A loaded model in a worker; the page's thread never waits for it. */
export class Engine {
  #session;

  /**
   * Loads a model from a folder in Hugging Face's layout: `config.json`, `tokenizer.json`,
   * `tokenizer_config.json`, `model.safetensors` (or its shards).
   *
   * Where another tab of the site has loaded the same model in the same way, there is nothing to
   * load: its tabs share one worker, which answers their requests together.
   *
   * Rejects with a {@link TabloomError} that says what was found, what was expected and what to
   * do, or with the signal's reason when aborted.
   *
   * @param {string | URL} url address of the folder, absolute or relative to the page
   * @param {LoadOptions} [options]
   * @returns {Promise<Engine>}
   */
  static async load(url, options = {}) {
    const { onProgress, signal, workerUrl, host = "auto", isolation = "shared", ...settings } = options;
    signal?.throwIfAborted();
    const base = globalThis.document?.baseURI ?? globalThis.location?.href;
    const folder = new URL(url, base).href.replace(/\/*$/, "/");
    const needsGpu = settings.device !== "cpu" && "gpu" in navigator && Boolean(navigator.gpu);
    // A TrustedScriptURL stays one.
    const ladder = new Ladder({ host, needsGpu, workerUrl: /** @type {string} */ (workerUrl) });
    const session = new Session(ladder, isolation, { url: folder, options: settings });
    await session.start(signal, onProgress);
    return new Engine(session);
  }

  /**
   * Use {@link Engine.load}.
   *
   * @param {Session} session
   */
  constructor(session) {
    this.#session = session;
    /** @readonly */
    this.chat = { completions: new Completions(session) };
    /** @readonly */
    this.embeddings = new Embeddings(session);
  }

  /** What was loaded, and on what. */
  get info() {
    return /** @type {EngineInfo} */ (this.#session.info);
  }

  /**
   * Where the engine lives: in a worker that all tabs `shared`, in the `leader` tab's, or in a
   * `private` one. It may move when a worker is lost.
   */
  get host() {
    return this.#session.host;
  }

  /**
   * Counters and gauges of the engine, under vLLM's names, and `wasm_heap_bytes`, the size of the
   * worker's WebAssembly memory.
   *
   * @returns {Promise<Record<string, number>>}
   */
  async metrics() {
    return ask(this.#session, new Whole({ type: "metrics" }));
  }

  /**
   * Ends this engine's requests, which fail with code `closed`, and frees what no other tab uses.
   */
  close() {
    const message = "the engine was closed. Load it again";
    this.#session.close(new TabloomError({ code: "closed", message }));
  }
}

class Completions {
  #session;

  /** @param {Session} session */
  constructor(session) {
    this.#session = session;
  }

  /**
   * Answers a conversation, in OpenAI's shapes.
   *
   * With `stream: true` the promise gives an async iterator of chunks; leaving its loop cancels
   * the request. Without, it gives the whole completion.
   *
   * @template {ChatCompletionParams} P
   * @param {P} params
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<P extends {stream: true} ? AsyncIterableIterator<ChatCompletionChunk> : ChatCompletion>}
   */
  async create(params, { signal } = {}) {
    signal?.throwIfAborted();
    // Asked again, it is the same question, whatever the page has done to its object since.
    const message = { type: "chat", request: structuredClone(params), moment: moment(), credit: 0, resume: null };
    const call = params.stream ? new Streamed(message, this.#session) : new Whole(message);
    return /** @type {any} */ (ask(this.#session, call, signal));
  }
}

class Embeddings {
  #session;

  /** @param {Session} session */
  constructor(session) {
    this.#session = session;
  }

  /**
   * Turns texts into vectors, in OpenAI's shapes: final hidden states, pooled and scaled to length 1.
   *
   * @param {EmbeddingParams} params
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<EmbeddingResponse>}
   */
  async create(params, { signal } = {}) {
    signal?.throwIfAborted();
    return ask(this.#session, new Whole({ type: "embed", request: structuredClone(params) }), signal);
  }
}

/**
 * @template T
 * @param {Session} session
 * @param {import("./calls.js").Call & {result: Promise<T>}} call
 * @param {AbortSignal} [signal]
 */
function ask(session, call, signal) {
  session.ask(call, signal);
  return call.result;
}

/** Names, dates and seeds an answer, so that asking again asks for the same. */
function moment() {
  return { now: Math.floor(Date.now() / 1000), entropy: Math.floor(Math.random() * 2 ** 53) };
}
