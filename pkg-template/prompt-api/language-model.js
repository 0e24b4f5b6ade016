// The Prompt API's shape (https://webmachinelearning.github.io/prompt-api) over an engine: sessions
// that remember what was said. Turns are kept as messages; the engine's prefix cache has the keys and values
// that sessions have in common.
import { unlessAborted, whenAborted } from "../abort.js";
import { constraintOf } from "./constraint.js";
import { expectText, messagesOf, samplingOf } from "./input.js";
import { iterable } from "../iterable.js";
import { TabloomError } from "../error.js";

/** @import { Engine } from "../index.js" */
/** @import { LanguageModelCreateOptions as CreateOptions, LanguageModelPromptOptions as PromptOptions } from "../types.js" */
/** @import { ChatMessage, LanguageModelPrompt as Prompt, LanguageModelSession as Session } from "../types.js" */

/** The part of a context that is kept for answers. */
const ANSWERS = 1 / 8;

/**
 * Begins a session.
 *
 * @param {Engine} engine
 * @param {CreateOptions} [options]
 * @returns {Promise<LanguageModelSession>}
 */
export async function create(engine, options = {}) {
  const { signal, monitor, initialPrompts, expectedInputs, expectedOutputs, tools } = options;
  signal?.throwIfAborted();
  expectModel(engine);
  expectText(expectedInputs, expectedOutputs, tools);
  const sampling = samplingOf(options);
  const initial = initialPrompts ? messagesOf(initialPrompts, false).messages : [];
  watch(monitor);
  const session = new LanguageModelSession(engine, sampling, { initial, turns: [], usage: 0 });
  if (signal) whenAborted(signal, () => session.end(signal.reason));
  await session.begin();
  return session;
}

/**
 * Whether {@link create} would succeed with these options: the engine has loaded its model.
 *
 * @param {Engine} engine
 * @param {import("../types.js").LanguageModelCoreOptions} [options]
 * @returns {"available" | "unavailable"}
 */
export function availability(engine, options = {}) {
  try {
    expectModel(engine);
    expectText(options.expectedInputs, options.expectedOutputs, options.tools);
    return "available";
  } catch (/** @type {any} */ error) {
    if (error.name === "NotSupportedError") return "unavailable";
    throw error;
  }
}

/**
 * Throws where only a fallback answers: a session's answers could not say that a server gave them.
 *
 * @param {Engine} engine
 */
function expectModel({ info }) {
  if (info.device !== "none") return;
  const message = `found no model on this device (${info.fallback?.reason}), expected one: ask engine.chat.completions`;
  throw new DOMException(message, "NotSupportedError");
}

/**
 * Reports the download of the model, which has ended.
 *
 * @param {CreateOptions["monitor"]} monitor
 */
function watch(monitor) {
  if (!monitor) return;
  const target = new EventTarget();
  monitor(target);
  for (const loaded of [0, 1]) {
    const how = { lengthComputable: true, loaded, total: 1 };
    target.dispatchEvent(new ProgressEvent("downloadprogress", how));
  }
}

/**
 * What is remembered of a conversation. A turn is a prompt with its answer, or what was appended.
 *
 * @typedef {{initial: ChatMessage[], turns: ChatMessage[][], usage: number}} Memory
 */

/**
 * A conversation with the model.
 *
 * @implements {Session}
 */
export class LanguageModelSession extends EventTarget {
  #engine;
  #sampling;
  #memory;
  /** Aborted when the session is destroyed. */
  #life = new AbortController();
  /** @type {Promise<unknown>} what was asked before */
  #before = Promise.resolve();
  /** @type {Map<string, EventListener>} */
  #handlers = new Map();

  /**
   * @param {Engine} engine
   * @param {import("./input.js").Sampling} sampling
   * @param {Memory} memory
   */
  constructor(engine, sampling, memory) {
    super();
    this.#engine = engine;
    this.#sampling = sampling;
    this.#memory = memory;
  }

  /** Tokens of the conversation so far. */
  get contextUsage() {
    return this.#memory.usage;
  }

  /** Most tokens of the conversation with another prompt, so that an answer has room. */
  get contextWindow() {
    return this.#engine.info.context - Math.floor(this.#engine.info.context * ANSWERS);
  }

  /** Its older name. */
  get inputUsage() {
    return this.contextUsage;
  }

  /** Its older name. */
  get inputQuota() {
    return this.contextWindow;
  }

  get samplingMode() {
    return this.#sampling.mode;
  }

  get temperature() {
    return this.#sampling.temperature;
  }

  get topK() {
    return this.#sampling.topK;
  }

  /** Handles `contextoverflow`: the oldest turns are forgotten, so that a prompt fits. */
  get oncontextoverflow() {
    return this.#handlers.get("contextoverflow") ?? null;
  }

  set oncontextoverflow(handler) {
    this.#handle("contextoverflow", handler);
  }

  /** Its older name. */
  get onquotaoverflow() {
    return this.#handlers.get("quotaoverflow") ?? null;
  }

  set onquotaoverflow(handler) {
    this.#handle("quotaoverflow", handler);
  }

  /**
   * Answers a prompt, after earlier ones.
   *
   * @param {Prompt} input
   * @param {PromptOptions} [options]
   * @returns {Promise<string>}
   */
  async prompt(input, options = {}) {
    return this.#respond(input, options, options.signal, () => {});
  }

  /**
   * The same in pieces. Cancelling the stream cancels the prompt.
   *
   * @param {Prompt} input
   * @param {PromptOptions} [options]
   * @returns {ReadableStream<string>}
   */
  promptStreaming(input, options = {}) {
    const left = new AbortController();
    const signals = [left.signal, ...(options.signal ? [options.signal] : [])];
    const stream = new ReadableStream({
      start: (controller) => {
        const onText = (/** @type {string} */ text) => controller.enqueue(text);
        // Pieces are queued as the model writes them, so that a slow reader does not delay later prompts.
        this.#respond(input, options, AbortSignal.any(signals), onText).then(
          () => controller.close(),
          (error) => controller.error(error),
        );
      },
      cancel: (reason) => left.abort(reason),
    });
    return iterable(stream);
  }

  /**
   * Adds to the conversation without an answer; resolves when it is computed.
   *
   * @param {Prompt} input
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<void>}
   */
  async append(input, { signal } = {}) {
    return this.#after(signal, async (signal) => {
      const { messages } = messagesOf(input, this.contextUsage > 0);
      const usage = await this.#makeRoom(messages, signal);
      await this.#read([...this.#messages(), ...messages], signal);
      this.#remember(messages, usage);
    });
  }

  /**
   * How many tokens a prompt would add.
   *
   * @param {Prompt} input
   * @param {PromptOptions} [options]
   * @returns {Promise<number>}
   */
  async measureContextUsage(input, options = {}) {
    const signal = this.#signal(options.signal);
    const { hint } = constraintOf(options);
    const { messages } = messagesOf(input, false, hint);
    const before = this.#messages();
    return guarded(async () => {
      const count = await this.#count([...before, ...messages], signal);
      return Math.max(0, count - (await this.#count(before, signal)));
    });
  }

  /**
   * Its older name.
   *
   * @param {Prompt} input
   * @param {PromptOptions} [options]
   */
  measureInputUsage(input, options) {
    return this.measureContextUsage(input, options);
  }

  /**
   * Another session that begins with the same conversation.
   *
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<LanguageModelSession>}
   */
  async clone({ signal } = {}) {
    this.#signal(signal);
    const { initial, turns, usage } = this.#memory;
    const memory = { initial, turns: [...turns], usage };
    return new LanguageModelSession(this.#engine, this.#sampling, memory);
  }

  /** Ends the session and its open prompts. */
  destroy() {
    this.end(new DOMException("The session was destroyed.", "AbortError"));
  }

  /**
   * @param {unknown} reason
   * @ignore
   */
  end(reason) {
    this.#life.abort(reason);
  }

  /**
   * Computes the initial prompts.
   *
   * @ignore
   */
  begin() {
    return this.#after(undefined, async (signal) => {
      if (this.#memory.initial.length === 0) return;
      this.#memory.usage = await this.#makeRoom([], signal);
      await this.#read(this.#messages(), signal);
    });
  }

  /**
   * @param {Prompt} input
   * @param {PromptOptions} options
   * @param {AbortSignal | undefined} signal
   * @param {(text: string) => void} onText
   */
  async #respond(input, options, signal, onText) {
    const { structured_outputs, hint, check } = constraintOf(options);
    return this.#after(signal, async (signal) => {
      const { messages, prefix } = messagesOf(input, this.contextUsage > 0, hint);
      await this.#makeRoom(messages, signal);
      const { temperature, topK } = this.#sampling;
      const request = {
        messages: [...this.#messages(), ...messages],
        stream: /** @type {const} */ (true),
        continue_final_message: prefix !== null,
        ...(structured_outputs && { structured_outputs }),
        ...(temperature !== undefined && { temperature }),
        ...(topK !== undefined && { top_k: topK }),
      };
      let answer = "";
      for await (const { choices } of await this.#engine.chat.completions.create(request, {
        signal,
        fallback: false,
      })) {
        signal.throwIfAborted();
        const text = choices[0]?.delta.content;
        if (!text) continue;
        answer += text;
        onText(text);
      }
      check(answer);
      const asked = prefix === null ? messages : messages.slice(0, -1);
      /** @type {ChatMessage} */
      const said = { role: "assistant", content: (prefix ?? "") + answer };
      const turn = [...asked, said];
      const usage = await this.#count([...this.#messages(), ...turn], signal);
      this.#remember(turn, usage);
      return answer;
    });
  }

  /**
   * @param {ChatMessage[]} turn
   * @param {number} usage tokens of the conversation with it
   */
  #remember(turn, usage) {
    this.#memory.turns.push(turn);
    this.#memory.usage = usage;
  }

  /** @returns {ChatMessage[]} */
  #messages(dropped = 0) {
    const { initial, turns } = this.#memory;
    return [...initial, ...turns.slice(dropped).flat()];
  }

  /**
   * Forgets the oldest turns until messages fit; gives the tokens of all that is left.
   *
   * @param {ChatMessage[]} messages
   * @param {AbortSignal} signal
   */
  async #makeRoom(messages, signal) {
    const { turns } = this.#memory;
    const quota = this.contextWindow;
    let requested = 0;
    for (let dropped = 0; dropped <= turns.length; dropped++) {
      requested = await this.#count([...this.#messages(dropped), ...messages], signal);
      if (requested > quota) continue;
      if (dropped > 0) {
        turns.splice(0, dropped);
        for (const type of ["contextoverflow", "quotaoverflow"]) this.dispatchEvent(new Event(type));
      }
      return requested;
    }
    throw quotaExceeded(requested, quota);
  }

  /**
   * @param {ChatMessage[]} messages
   * @param {AbortSignal} signal
   */
  async #count(messages, signal) {
    return messages.length === 0 ? 0 : this.#engine.countTokens(messages, { signal });
  }

  /**
   * Computes keys and values, so that later requests with these messages find them in the prefix cache.
   *
   * @param {ChatMessage[]} messages
   * @param {AbortSignal} signal
   */
  async #read(messages, signal) {
    const request = { messages, max_completion_tokens: 1, continue_final_message: false };
    await this.#engine.chat.completions.create(request, { signal, fallback: false });
  }

  /** @param {AbortSignal} [signal] combined with that of the session */
  #signal(signal) {
    const any = AbortSignal.any([this.#life.signal, ...(signal ? [signal] : [])]);
    any.throwIfAborted();
    return any;
  }

  /**
   * Runs `work` after all that was asked before, unless it is aborted.
   *
   * @template T
   * @param {AbortSignal | undefined} signal
   * @param {(signal: AbortSignal) => Promise<T>} work
   * @returns {Promise<T>}
   */
  async #after(signal, work) {
    const any = this.#signal(signal);
    const run = this.#before.then(() => {
      any.throwIfAborted();
      return guarded(() => work(any));
    });
    this.#before = run.catch(() => {});
    return unlessAborted(run, any);
  }

  /**
   * @param {string} type
   * @param {EventListener | null} handler
   */
  #handle(type, handler) {
    this.removeEventListener(type, this.#handlers.get(type) ?? null);
    this.#handlers.delete(type);
    if (typeof handler !== "function") return;
    this.#handlers.set(type, handler);
    this.addEventListener(type, handler);
  }
}

/**
 * The result of `work`, with the engine's errors as the API's.
 *
 * @template T
 * @param {() => Promise<T>} work
 */
async function guarded(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof TabloomError)) throw error;
    const { code, message, param } = error;
    const unsupported = code === "invalid_request" && param?.startsWith("structured_outputs");
    throw new DOMException(message, unsupported ? "NotSupportedError" : "UnknownError");
  }
}

/**
 * @param {number} requested
 * @param {number} quota
 */
function quotaExceeded(requested, quota) {
  const message = `found ${requested} tokens, expected at most ${quota}`;
  const { QuotaExceededError } = /** @type {any} */ (globalThis);
  if (QuotaExceededError) return new QuotaExceededError(message, { requested, quota });
  return Object.assign(new DOMException(message, "QuotaExceededError"), { requested, quota });
}
