/**
 * Private language models inside the browser, on the visitor's own GPU.
 *
 * @example
 * import { Engine } from "tabloom";
 *
 * const engine = await Engine.load("smollm2-360m");
 * const stream = await engine.chat.completions.create({
 *   messages: [{ role: "user", content: "Tell me a story." }],
 *   stream: true,
 * });
 * for await (const chunk of stream) show(chunk.choices[0]?.delta.content ?? "");
 *
 * @module tabloom
 */

import { unlessAborted, whenAborted } from "./abort.js";
import { OF_LOAD, chosen, plain, refusal } from "./calls/arguments.js";
import { Whole, ask, complete, now } from "./calls/calls.js";
import { detokenize, tokenize } from "./calls/tokens.js";
import { TabloomError } from "./error.js";
import { Ladder } from "./host/ladder.js";
import { Session } from "./host/session.js";
import { budget, interrupted } from "./memory.js";
import { addressOf, isAddress, nameOf } from "./models/address.js";
import { Models } from "./models/kept.js";
import { identify } from "./models/source.js";
import { interfaceOf } from "./prompt-api/interface.js";

export { TabloomError };
export * from "./types.js";

/** @import { EngineInfo, EngineMetrics, LanguageModel, LoadOptions, ModelList, ModelSource, Probe, ProbeOptions } from "./types.js" */
/** @import { Serving } from "./calls/calls.js" */
/** @import { ChatMessageParam, CreateChatCompletion, CreateCompletion, CreateEmbedding, TokenizeOptions } from "./types.js" */

/** Milliseconds for the note that a model was loaded. */
const NOTING = 2000;

/** @type {Models | undefined} made when it is asked for: bundlers leave out what a page does not use */
let store;

/** A loaded model in a worker; the page's thread never waits for it. */
export class Engine {
  #session;
  /** @type {LanguageModel | undefined} */
  #languageModel;
  #told;

  /** The models that the site keeps between visits: lists and deletes them, and adds up their sizes. */
  static get store() {
    return (store ??= new Models());
  }

  /**
   * Whether the page of this tab died while it loaded a model, mostly for want of memory, and began anew. It is
   * false again once a load has ended. A page that loads without being asked should ask then.
   */
  static get interrupted() {
    return interrupted;
  }

  /**
   * Loads a model from a folder in Hugging Face's layout: `config.json`, `tokenizer.json`,
   * `tokenizer_config.json`, `model.safetensors` (or its shards); or from a GGUF file, if the
   * address ends with `.gguf`.
   *
   * A name is one on Hugging Face (`org/name`, `org/name@revision`, `hf:org/name/file.gguf`) or in the
   * registry (`qwen3-0.6b`); an address begins with a scheme, `/` or `.`, or ends with `/` or `.gguf`. A
   * branch is pinned to the commit that it had when its model was first kept.
   *
   * It also takes files of the page: a GGUF file as `File`, `Blob`, handle or bytes; a folder as its
   * `File`s or its handle; or files by name. They are read in place, in pieces, and not copied to the
   * store.
   *
   * The tabs of a site share one worker, which answers their requests together: a model that another tab
   * has loaded with the same options is not loaded again. Files on disk count as the same if their names,
   * sizes and dates are; others if their bytes are.
   *
   * Rejects with a {@link TabloomError} that says what was found, what was expected and what to
   * do, or with the signal's reason when aborted.
   *
   * @param {ModelSource} source name, or address of the folder or file, absolute or relative to the
   *   page, or its files
   * @param {LoadOptions | null} [options]
   * @returns {Promise<Engine>}
   */
  static async load(source, options) {
    if (!globalThis.Worker && !globalThis.SharedWorker) throw (await refusal()).noWorkers();
    return chosen(options, OF_LOAD, (given) => {
      const { signal } = given;
      signal?.throwIfAborted();
      const loading = Engine.#load(source, given);
      return signal ? unlessAborted(loading, signal) : loading;
    });
  }

  /**
   * @param {ModelSource} source
   * @param {LoadOptions} options
   */
  static async #load(source, options) {
    const { onProgress, signal, workerUrl, fallback, ...others } = options;
    const {
      host = "auto",
      isolation = "shared",
      crossOriginStorage = "public",
      persist: lasting,
      registry,
      quantisation,
      ...settings
    } = await plain(others, (copy) => copy);
    const needsGpu = settings.device !== "cpu" && Boolean(navigator.gpu);
    // A TrustedScriptURL stays one.
    const ladder = new Ladder({ host, needsGpu, workerUrl: /** @type {string} */ (workerUrl) });
    const backed = fallback && (await import("./host/fallback.js")).behind(fallback);
    const names = { ...settings, registry, signal };
    const { pin, ...model } = await identify(source, { ...names, quantisation });
    const { draft } = settings;
    const drafter = typeof draft === "string" ? await identify(draft, names, "draft") : null;
    if (drafter) settings.draft = drafter.url;
    signal?.throwIfAborted();
    if (settings.hub) settings.hub = addressOf(settings.hub, "hub");
    const name = typeof source === "string" && !isAddress(source) ? source : null;
    const told = { name, ...budget(settings.budgetBytes) };
    settings.budgetBytes = told.budgetBytes;
    const isShared = crossOriginStorage !== "none" && !model.files && "crossOriginStorage" in navigator;
    const urls = [model.url, drafter?.url];
    const shares = isShared ? { urls, all: crossOriginStorage === "all" } : undefined;
    const device = new Session(ladder, isolation, { ...model, options: settings }, shares);
    /** @type {Serving} */
    const session = backed ? backed(device, nameOf(model.url)) : device;
    const over = new AbortController();
    if (signal) whenAborted(signal, () => session.close(signal.reason), over.signal);
    try {
      await session.start(onProgress);
      if (session.info?.stored) {
        const models = [{ url: model.url, pin }, drafter];
        const noting = import("./models/use.js").then(({ note }) => note(settings.store ?? "cache", models, lasting));
        // No load fails by it, and no page waits for a store that hangs.
        await unlessAborted(noting, AbortSignal.timeout(NOTING)).catch(() => {});
      }
    } finally {
      over.abort();
    }
    return new Engine(session, told);
  }

  /**
   * Reports what this browser on this device can do, and which models would run. It asks the visitor nothing.
   *
   * A model that is given with its `bytes` is compared with the memory: nothing is downloaded and no worker
   * starts. One without is looked at, by a worker that begins to load it and stops before its weights: what
   * is wrong with it is its `problem`, the error that {@link Engine.load} would reject with.
   *
   * @param {ProbeOptions | null} [options]
   * @returns {Promise<Probe>}
   */
  static async probe(options) {
    return (await import("./probe.js")).probe(options);
  }

  /**
   * Use {@link Engine.load}.
   *
   * @param {Serving} session
   * @param {Pick<EngineInfo, "name" | "budgetBytes" | "budgetReason">} told what the page knows of it
   */
  constructor(session, told) {
    this.#session = session;
    this.#told = told;
    /** @readonly */
    this.chat = { completions: new Completions(session) };
    /** @readonly */
    this.completions = new TextCompletions(session);
    /** @readonly */
    this.models = new LoadedModels(session);
    /** @readonly */
    this.embeddings = new Embeddings(session);
    /** @readonly the same as {@link Engine.store} */
    this.store = Engine.store;
    /**
     * OpenAI's HTTP API, answered by this engine: a `fetch` for `/v1/chat/completions`, `/v1/responses`,
     * `/v1/completions`, `/v1/embeddings` and `/v1/models`, behind any origin and path. Clients of that API
     * take it in place of the browser's; it needs no `this`.
     *
     * Errors are responses, as OpenAI's; it rejects only when aborted, with the signal's reason.
     *
     * @example
     * const client = new OpenAI({ fetch: engine.fetch, apiKey: "none", dangerouslyAllowBrowser: true });
     *
     * @readonly
     * @type {(input: RequestInfo | URL, init?: RequestInit) => Promise<Response>}
     */
    this.fetch = async (input, init) => {
      const { answer } = await import("./calls/fetch.js");
      return answer(this, input, init);
    };
  }

  /** What was loaded, and on what. */
  get info() {
    return /** @type {EngineInfo} */ ({ ...this.#session.info, ...this.#told });
  }

  /**
   * Where the engine runs: in a worker that all tabs share (`shared`), in the `leader` tab's, or in a
   * `private` one. It may move when a worker is lost. Null where only the fallback answers.
   */
  get host() {
    return this.#session.host;
  }

  /**
   * Counters and gauges of the engine, most of them under vLLM's names.
   *
   * @returns {Promise<EngineMetrics>}
   */
  async metrics() {
    return ask(this.#session, new Whole({ type: "metrics" }));
  }

  /**
   * The token ids of a text, or of a conversation up to the answer.
   *
   * Control tokens (`<|im_start|>`) in a text count as such; in a message they are text.
   *
   * @param {string | readonly ChatMessageParam[]} input
   * @param {TokenizeOptions | null} [options]
   * @returns {Promise<number[]>}
   */
  async tokenize(input, options) {
    return (await tokenize(this.#session, "tokenize", input, options)).tokens;
  }

  /**
   * How many tokens {@link Engine.tokenize} gives.
   *
   * @param {string | readonly ChatMessageParam[]} input
   * @param {TokenizeOptions | null} [options]
   * @returns {Promise<number>}
   */
  async countTokens(input, options) {
    return (await this.tokenize(input, options)).length;
  }

  /**
   * The text of token ids, with special tokens by name.
   *
   * @param {Iterable<number>} tokens
   * @param {{signal?: AbortSignal} | null} [options]
   * @returns {Promise<string>}
   */
  async detokenize(tokens, options) {
    return (await detokenize(this.#session, tokens, options)).prompt;
  }

  /**
   * A conversation as the model's chat template writes it, up to the answer.
   *
   * In this text, control tokens of the template and look-alikes in messages are the same: where others
   * write the messages, use chat completions.
   *
   * @param {readonly ChatMessageParam[]} messages
   * @param {TokenizeOptions | null} [options]
   * @returns {Promise<string>}
   */
  async applyChatTemplate(messages, options) {
    return tokenize(this.#session, "template", messages, options);
  }

  /**
   * The engine in the shape of the Prompt API's `LanguageModel`, always the same class: sessions that remember
   * what was said. Its errors are `DOMException`s with the names of that API.
   *
   * @example
   * const session = await engine.languageModel().create();
   * console.log(await session.prompt("Tell me a story."));
   *
   * @returns {LanguageModel}
   */
  languageModel() {
    return (this.#languageModel ??= interfaceOf({
      load: async () => this,
      availability: async () => (this.info.device === "none" ? "unavailable" : "available"),
    }));
  }

  /**
   * Ends this engine's requests, with code `closed`. Its model stays in memory, for a tab that loads it again, until
   * that is needed for another; {@link Engine.release} frees it.
   */
  close() {
    this.#end();
  }

  /** Ends this engine's requests, with code `closed`, and frees its model at once if no other tab uses it. */
  release() {
    this.#end({ free: true });
  }

  /** @param {{free: true}} [details] */
  #end(details) {
    const message = "the engine was closed. Load it again";
    this.#session.close(new TabloomError({ code: "closed", message, details }));
  }
}

class Completions {
  #session;

  /** @param {Serving} session */
  constructor(session) {
    this.#session = session;
  }

  /** @type {CreateChatCompletion} */
  create = (params, options) => complete(this.#session, "chat", params, ({ n }) => n ?? 1, options);
}

/** Text completions, without a chat template. */
class TextCompletions {
  #session;

  /** @param {Serving} session */
  constructor(session) {
    this.#session = session;
  }

  /** @type {CreateCompletion} */
  create = (params, options) =>
    complete(this.#session, "complete", params, ({ prompt, n }) => prompts(prompt) * (n ?? 1), options);
}

/** @param {unknown} prompt */
function prompts(prompt) {
  return Array.isArray(prompt) && typeof prompt[0] !== "number" ? prompt.length : 1;
}

/** The models of the engine: the one that was loaded. */
class LoadedModels {
  #session;
  #created = now();

  /** @param {Serving} session */
  constructor(session) {
    this.#session = session;
  }

  /**
   * Lists the model, in OpenAI's shape.
   *
   * @returns {Promise<ModelList>}
   */
  async list() {
    const { model } = /** @type {EngineInfo} */ (this.#session.info);
    const card = /** @type {const} */ ({ object: "model", owned_by: "tabloom" });
    return { object: "list", data: [{ id: model, created: this.#created, ...card }] };
  }
}

class Embeddings {
  #session;

  /** @param {Serving} session */
  constructor(session) {
    this.#session = session;
  }

  /** @type {CreateEmbedding} */
  create = (params, options) => {
    /** @returns {Promise<any>} */
    const embed = (/** @type {object} */ request) => ask(this.#session, new Whole({ type: "embed", request }), options);
    return plain(params, embed);
  };
}
