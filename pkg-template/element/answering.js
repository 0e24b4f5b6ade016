import { unlessAborted } from "../abort.js";
import { TEXTS } from "./texts.js";

/** @import { ChatCompletionChunk, ChatCompletionParams } from "../types.js" */
/** @import { TabloomChatEventMap, TabloomChatMessage } from "./types.js" */

const GONE = ["engine_crashed", "no_gpu", "closed"];
/** The error of a conversation that has outgrown the model's context. */
const TOO_LONG = "context_length_exceeded";
/** Milliseconds between two times that a growing answer is kept. */
const KEPT = 300;

/**
 * The chat whose conversation is answered.
 *
 * @typedef {object} Chat
 * @property {import("./view/view.js").View} view
 * @property {import("./conversation.js").Conversation} conversation
 * @property {import("./chat.js").EngineSource} engine
 * @property {(messages: TabloomChatMessage[]) => ChatCompletionParams} request throws where a setting is wrong
 * @property {() => void} onChange
 * @property {(problem: any) => void} onProblem
 * @property {(chunk: ChatCompletionChunk, message: import("./view/message.js").Message) => void} onChunk
 * @property {(detail: TabloomChatEventMap["tabloom-message"]["detail"]) => void} onMessage
 */

/** Answers the conversation. */
export class Answering {
  #chat;
  /** @type {AbortController | null} ends the answer */
  #controller = null;

  /** @param {Chat} chat */
  constructor(chat) {
    this.#chat = chat;
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
    const { view, conversation, engine, onChange, onProblem, onChunk, onMessage } = this.#chat;
    const controller = (this.#controller = new AbortController());
    const { signal } = controller;
    const { messages } = conversation;
    /** @type {TabloomChatMessage} */
    const message = begun ?? { role: "assistant", content: "" };
    const shown = begun ? view.last : view.add(message);
    shown.begin();
    view.announce(TEXTS.thinking);
    view.toEnd();
    onProblem(null);
    /** @type {TabloomChatEventMap["tabloom-message"]["detail"]["finishReason"]} */
    let finishReason = null;
    let problem = null;
    let kept = performance.now();
    try {
      const loaded = await unlessAborted(engine.load(), signal);
      onChange();
      for await (const chunk of await this.#stream(loaded, signal)) {
        const [choice] = chunk.choices;
        finishReason = choice?.finish_reason ?? finishReason;
        const piece = choice?.delta.content ?? "";
        message.content += piece;
        if (piece) shown.grow();
        onChunk(chunk, shown);
        if (!piece) continue;
        // Until it has ended, as far as a page knows that is left meanwhile.
        message.end = "stopped";
        if (conversation.messages !== messages) continue;
        if (messages.at(-1) !== message) conversation.add(message);
        else if (performance.now() - kept > KEPT) {
          kept = performance.now();
          conversation.keep();
        }
      }
    } catch (/** @type {any} */ error) {
      if (signal.aborted) finishReason = "stopped";
      else problem = error;
    }
    if (isGone(problem)) engine.discard();
    if (finishReason === "length") message.end = "length";
    else if (finishReason && finishReason !== "stopped") delete message.end;
    shown.end();
    // The conversation may have been replaced meanwhile.
    if (this.#controller === controller) this.#controller = null;
    if (conversation.messages !== messages) {
      onChange();
      return null;
    }
    const said = messages.at(-1) === message;
    if (!said) {
      view.cut(messages.length);
      conversation.restore();
    }
    conversation.keep();
    onProblem(problem);
    view.follow();
    if (said) onMessage({ message: { role: "assistant", content: message.content }, finishReason });
    return said && !problem ? { role: "assistant", content: message.content } : null;
  }

  /**
   * The pieces of an answer. Where the conversation has outgrown the context, its oldest turns are left out.
   *
   * @param {import("../index.js").Engine} engine
   * @param {AbortSignal} signal
   * @returns {Promise<AsyncIterable<ChatCompletionChunk>>}
   */
  async #stream({ chat }, signal) {
    const { view, conversation, request } = this.#chat;
    for (;;) {
      const params = /** @type {ChatCompletionParams & {stream: true}} */ ({
        ...request(conversation.remembered),
        stream: true,
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
