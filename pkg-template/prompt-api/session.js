// A conversation in the Prompt API's shape (https://webmachinelearning.github.io/prompt-api). Turns are kept as
// messages; the engine's prefix cache has the keys and values that sessions have in common.
import { unlessAborted } from "../abort.js";
import { iterable } from "../iterable.js";
import { constraintOf } from "./constraint.js";
import { promptOf, promptOptionsOf } from "./convert.js";
import { guarded, quotaExceeded } from "./errors.js";
import { EventHandlers } from "./event-handlers.js";
import { messagesOf, said, whole } from "./input.js";
import { Result } from "./result.js";
import { Calls, execute } from "./tools.js";

/** @import { ChatMessage, CreateChatCompletion, EngineInfo, TokenizeOptions } from "../types.js" */
/** @import { LanguageModelPrompt as Prompt, LanguageModelPromptOptions as PromptOptions } from "../types.js" */
/** @import { LanguageModelSession as Session, StructuredOutputs } from "../types.js" */
/** @import { Input } from "./input.js" */
/** @import { Setup } from "./options.js" */

/** The part of a context that is kept for answers. */
const ANSWERS = 1 / 8;

/**
 * What a session uses of an engine.
 *
 * @typedef {object} Engine
 * @property {EngineInfo} info
 * @property {{completions: {create: CreateChatCompletion}}} chat
 * @property {(messages: ChatMessage[], options: TokenizeOptions) => Promise<number>} countTokens
 */

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
  #setup;
  #memory;
  #handlers = new EventHandlers(this);
  /** Aborted when the session is destroyed. */
  #life = new AbortController();
  /** @type {Promise<unknown>} what was asked before */
  #before = Promise.resolve();

  /**
   * @param {Engine} engine
   * @param {Setup} setup
   * @param {Memory} memory
   */
  constructor(engine, setup, memory) {
    super();
    this.#engine = engine;
    this.#setup = setup;
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
    return this.#setup.samplingMode;
  }

  get temperature() {
    return this.#setup.temperature;
  }

  get topK() {
    return this.#setup.topK;
  }

  /** Handles `contextoverflow`: the oldest turns are forgotten, so that a prompt fits. */
  get oncontextoverflow() {
    return this.#handlers.get("contextoverflow");
  }

  set oncontextoverflow(handler) {
    this.#handlers.set("contextoverflow", handler);
  }

  /** Its older name. */
  get onquotaoverflow() {
    return this.#handlers.get("quotaoverflow");
  }

  set onquotaoverflow(handler) {
    this.#handlers.set("quotaoverflow", handler);
  }

  /**
   * Answers a prompt, after earlier ones.
   *
   * @param {Prompt} input
   * @param {PromptOptions} [options]
   * @returns {Promise<any>}
   */
  async prompt(input, options) {
    const asked = this.#asked(input, options);
    return this.#respond(asked, this.#signal(asked.signal), () => {});
  }

  /**
   * The same in pieces. Cancelling the stream cancels the prompt.
   *
   * @param {Prompt} input
   * @param {PromptOptions} [options]
   * @returns {ReadableStream<any>}
   */
  promptStreaming(input, options) {
    const asked = this.#asked(input, options);
    const left = new AbortController();
    const signal = AbortSignal.any([left.signal, this.#signal(asked.signal)]);
    const stream = new ReadableStream({
      start: (controller) => {
        // Pieces are queued as the model writes them, so that a slow reader does not delay later prompts.
        this.#respond(asked, signal, (piece) => controller.enqueue(piece)).then(
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
  async append(input, options) {
    const { prompt, signal } = this.#asked(input, { signal: promptOptionsOf(options).signal });
    return this.#after(this.#signal(signal), async (signal) => {
      const messages = whole(this.#checked(prompt, this.contextUsage > 0));
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
  async measureContextUsage(input, options) {
    const { prompt, constraint, signal } = this.#asked(input, options);
    const any = this.#signal(signal);
    const messages = whole(this.#checked(prompt, false, constraint.hint));
    // A message of the system can only stand at the beginning.
    const before = messages[0]?.role === "system" ? [] : this.#messages();
    return guarded(async () => {
      const count = await this.#count([...before, ...messages], any);
      return Math.max(0, count - (await this.#count(before, any)));
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
   * @returns {Promise<any>}
   */
  async clone(options) {
    const signal = this.#signal(promptOptionsOf(options).signal);
    await null;
    signal.throwIfAborted();
    const { initial, turns, usage } = this.#memory;
    const memory = { initial: [...initial], turns: [...turns], usage };
    return Reflect.construct(LanguageModelSession, [this.#engine, this.#setup, memory], this.constructor);
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
    return this.#after(this.#life.signal, async (signal) => {
      if (this.#memory.initial.length === 0) return;
      this.#memory.usage = await this.#makeRoom([], signal);
      await this.#read(this.#messages(), signal);
    });
  }

  /**
   * What a page asks, as it is now.
   *
   * @param {unknown} input
   * @param {unknown} options
   */
  #asked(input, options) {
    const prompt = promptOf(input);
    const given = promptOptionsOf(options);
    return { prompt, signal: given.signal, constraint: constraintOf(given) };
  }

  /**
   * @param {ReturnType<typeof promptOf>} prompt
   * @param {boolean} late
   * @param {string} [hint]
   */
  #checked(prompt, late, hint) {
    return messagesOf(prompt, this.#setup.inputs, late, hint);
  }

  /**
   * @param {{prompt: ReturnType<typeof promptOf>, constraint: ReturnType<typeof constraintOf>}} asked
   * @param {AbortSignal} signal
   * @param {(piece: any) => void} onPiece
   */
  async #respond({ prompt, constraint }, signal, onPiece) {
    const { contents, tools } = this.#setup;
    return this.#after(signal, async (signal) => {
      const result = new Result(contents, onPiece);
      const { messages: turn, prefix: first } = this.#checked(prompt, this.contextUsage > 0, constraint.hint);
      for (let prefix = first, open = true; open; prefix = "") {
        const input = { messages: turn, prefix };
        await this.#makeRoom(whole(input), signal);
        const { text, thoughts, calls } = await this.#answer(input, constraint.form, result, signal);
        if (calls.list.length === 0) constraint.check(prefix + text);
        turn.push(said(prefix + text, calls.list, thoughts));
        open = tools.executed && calls.list.length > 0;
        if (open) turn.push(...(await unlessAborted(execute(calls.asked, tools.functions), signal)));
        else for (const value of calls.asked) result.add({ type: "tool-call", value });
      }
      this.#remember(turn, await this.#makeRoom(turn, signal, true));
      return result.whole;
    });
  }

  /**
   * One answer of the model, which may be calls of tools.
   *
   * @param {Input} input
   * @param {StructuredOutputs | undefined} form
   * @param {Result} result
   * @param {AbortSignal} signal
   */
  async #answer({ messages, prefix }, form, result, signal) {
    const { sampling, template, thoughts } = this.#setup;
    const request = {
      messages: [...this.#messages(), ...whole({ messages, prefix })],
      stream: /** @type {const} */ (true),
      continue_final_message: prefix !== "",
      chat_template_kwargs: template,
      ...sampling,
      ...(form && { structured_outputs: prefix ? { ...form, prefix } : form }),
      tools: this.#tools,
    };
    const answer = { text: "", thoughts: "", calls: new Calls() };
    const options = { signal, fallback: false };
    for await (const { choices } of await this.#engine.chat.completions.create(request, options)) {
      signal.throwIfAborted();
      const { content = "", reasoning_content = "", tool_calls = [] } = choices[0]?.delta ?? {};
      answer.text += content;
      answer.thoughts += reasoning_content;
      answer.calls.add(tool_calls);
      if (reasoning_content && thoughts) result.add({ type: "thought", value: reasoning_content });
      if (content) result.add({ type: "text", value: content });
    }
    return answer;
  }

  /**
   * @param {ChatMessage[]} turn
   * @param {number} usage tokens of the conversation with it
   */
  #remember(turn, usage) {
    const { initial, turns } = this.#memory;
    // What the system says is not forgotten; it can only come first.
    const system = turn.filter(({ role }) => role === "system");
    initial.push(...system);
    if (turn.length > system.length) turns.push(turn.slice(system.length));
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
   * @param {boolean} [answered] whether they stay, however long the answer in them is
   */
  async #makeRoom(messages, signal, answered = false) {
    const { turns } = this.#memory;
    const quota = this.contextWindow;
    let requested = 0;
    let forgotten = 0;
    for (let dropped = 0; dropped <= turns.length; dropped++) {
      // What a tool gave stays with the call, in the turn before.
      const [first] = turns[dropped] ?? messages;
      if (dropped > 0 && first?.role === "tool") continue;
      requested = await this.#count([...this.#messages(dropped), ...messages], signal);
      forgotten = dropped;
      if (requested <= quota) break;
    }
    if (requested > quota && !answered) throw quotaExceeded(requested, quota);
    if (forgotten > 0) {
      turns.splice(0, forgotten);
      for (const type of ["contextoverflow", "quotaoverflow"]) this.dispatchEvent(new Event(type));
    }
    return requested;
  }

  /** What the model is told of tools, if there are any. */
  get #tools() {
    const { list } = this.#setup.tools;
    return list.length > 0 ? list : undefined;
  }

  /**
   * Tokens of a conversation, without the beginning of an answer.
   *
   * @param {ChatMessage[]} messages
   * @param {AbortSignal} signal
   */
  async #count(messages, signal) {
    const { template } = this.#setup;
    if (messages.length === 0) return 0;
    return this.#engine.countTokens(messages, {
      addGenerationPrompt: false,
      chatTemplateKwargs: template,
      tools: this.#tools,
      signal,
    });
  }

  /**
   * Computes keys and values, so that later requests with these messages find them in the prefix cache.
   *
   * @param {ChatMessage[]} messages
   * @param {AbortSignal} signal
   */
  async #read(messages, signal) {
    const { template } = this.#setup;
    const request = {
      messages,
      max_completion_tokens: 1,
      continue_final_message: false,
      chat_template_kwargs: template,
      tools: this.#tools,
    };
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
   * @param {AbortSignal} signal
   * @param {(signal: AbortSignal) => Promise<T>} work
   * @returns {Promise<T>}
   */
  async #after(signal, work) {
    const run = this.#before.then(() => {
      signal.throwIfAborted();
      return guarded(() => work(signal));
    });
    this.#before = run.catch(() => {});
    return unlessAborted(run, signal);
  }
}
