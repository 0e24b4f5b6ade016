import { unlessAborted } from "../abort.js";
import { TEXTS } from "./texts.js";

/** @import { ChatCompletionChunk, ChatCompletionParams } from "../types.js" */
/** @import { Conversation } from "./conversation.js" */
/** @import { Host } from "./host.js" */
/** @import { TabloomChatEventMap, TabloomChatMessage } from "./types.js" */
/** @import { View } from "./view/view.js" */

const GONE = ["engine_crashed", "no_host", "no_gpu", "closed"];
/** The error of a conversation that has outgrown the model's context. */
const TOO_LONG = "context_length_exceeded";
/** Milliseconds between two times that a growing answer is kept. */
const KEPT = 300;

/**
 * The chat whose conversation is answered.
 *
 * @typedef {object} Chat
 * @property {View} view
 * @property {Conversation} conversation
 * @property {{end: (well: boolean) => void}} [waiting] the questions that wait, if any
 * @property {() => void} update shows the state
 * @property {(error: any, redo?: () => void) => void} fail shows an error, and how to try again; null removes it
 * @property {(i: number) => void} again answers again
 */

/** Answers the conversation. */
export class Answering {
  #chat;
  #host;
  /** @type {AbortController | null} ends the answer */
  #controller = null;

  /**
   * @param {Chat} chat
   * @param {Host} host
   */
  constructor(chat, host) {
    this.#chat = chat;
    this.#host = host;
  }

  get busy() {
    return this.#controller !== null;
  }

  /** Stops the answer, and keeps what there is of it. */
  stop() {
    this.#controller?.abort();
  }

  /** Stops the answer to a conversation that was replaced. */
  drop() {
    this.stop();
    this.#controller = null;
  }

  /**
   * Answers the last question, or goes on with the last answer.
   *
   * @param {TabloomChatMessage} [begun]
   * @returns {Promise<TabloomChatMessage | null>}
   */
  async answer(begun) {
    const chat = this.#chat;
    const host = this.#host;
    const { view, conversation } = chat;
    const controller = (this.#controller = new AbortController());
    const { signal } = controller;
    const { messages } = conversation;
    /** @type {TabloomChatMessage} */
    const message = begun ?? { role: "assistant", content: "" };
    const shown = begun ? view.last : view.add(message);
    shown.begin();
    view.announce(TEXTS.thinking);
    view.toEnd();
    chat.fail(null);
    /** @type {TabloomChatEventMap["tabloom-message"]["detail"]["finishReason"]} */
    let finishReason = null;
    let problem = null;
    let full = false;
    /** @type {import("../index.js").Engine | undefined} */
    let loaded;
    /** @type {ReturnType<typeof setTimeout> | 0} */
    let keeping = 0;
    const keep = () => {
      keeping = 0;
      if (conversation.messages === messages) conversation.keep();
    };
    // The page may be about to go.
    addEventListener("visibilitychange", keep);
    try {
      loaded = await unlessAborted(host.engine.load(), signal);
      chat.update();
      const stream = await this.#stream(loaded, signal);
      import("./ponder.js").then(
        ({ ponder }) => ponder(shown, view),
        () => {},
      );
      for await (const chunk of stream) {
        const { choices, usage } = chunk;
        const [choice] = choices;
        full = (usage?.total_tokens ?? 0) >= loaded.info.context;
        finishReason = choice?.finish_reason ?? finishReason;
        const piece = choice?.delta.content ?? "";
        message.content += piece;
        if (piece) shown.grow();
        host.onChunk?.(chunk, shown);
        if (!piece) continue;
        // Until it has ended, as far as a page knows that is left meanwhile.
        message.end = "stopped";
        if (conversation.messages !== messages) continue;
        if (messages.at(-1) !== message) conversation.add(message);
        else keeping ||= setTimeout(keep, KEPT);
      }
    } catch (/** @type {any} */ error) {
      if (signal.aborted) finishReason = "stopped";
      else problem = error;
    }
    clearTimeout(keeping);
    removeEventListener("visibilitychange", keep);
    // Another may have taken its place.
    if (isGone(problem) && host.engine.current === loaded) host.engine.discard();
    if (finishReason === "length") message.end = full ? "full" : "length";
    else if (finishReason && finishReason !== "stopped") delete message.end;
    shown.end();
    // The conversation may have been replaced meanwhile.
    if (this.#controller === controller) this.#controller = null;
    if (conversation.messages !== messages) {
      chat.update();
      return null;
    }
    const said = messages.at(-1) === message;
    if (!said) {
      view.cut(messages.length);
      conversation.restore();
    }
    conversation.keep();
    chat.fail(problem, () => chat.again(messages.length - 1));
    /** @type {TabloomChatMessage} */
    const answer = { role: "assistant", content: message.content };
    if (said) host.onMessage?.({ message: answer, finishReason });
    const done = said && !problem;
    // Whoever stops an answer may want to ask something else.
    chat.waiting?.end(done && !signal.aborted);
    return done ? answer : null;
  }

  /**
   * The pieces of an answer. Where the conversation has outgrown the context, its oldest turns are left out.
   *
   * @param {import("../index.js").Engine} engine
   * @param {AbortSignal} signal
   * @returns {Promise<AsyncIterable<ChatCompletionChunk>>}
   */
  async #stream({ chat }, signal) {
    const { view, conversation } = this.#chat;
    for (;;) {
      const params = /** @type {ChatCompletionParams & {stream: true}} */ ({
        ...this.#host.request(),
        messages: this.#host.prompt(sent(conversation.remembered)),
        stream: true,
        stream_options: { include_usage: true },
      });
      try {
        // The chat promises that nothing leaves the device.
        const stream = await chat.completions.create(params, { signal, fallback: false });
        view.forgotten = conversation.forgotten;
        return stream;
      } catch (/** @type {any} */ error) {
        if (error.code !== TOO_LONG || !conversation.forget()) throw error;
      }
    }
  }
}

/**
 * Whether an engine is of no use after this error.
 *
 * @param {any} error
 */
export function isGone(error) {
  return GONE.includes(error?.code);
}

/**
 * What is sent to the model: without unanswered questions, which would only confuse it.
 *
 * @param {TabloomChatMessage[]} messages
 */
function sent(messages) {
  return messages
    .filter(({ role }, i) => role === "assistant" || i === messages.length - 1 || messages[i + 1].role !== role)
    .map(({ role, content }) => ({ role, content }));
}
