import { unlessAborted } from "../abort.js";
import { TEXTS } from "./texts.js";

/** @import { TabloomChatEventMap, TabloomChatMessage } from "./types.js" */

/** Errors after which an engine is of no use. */
const GONE = ["engine_crashed", "no_gpu", "closed"];

/**
 * The chat whose conversation is answered.
 *
 * @typedef {object} Chat
 * @property {import("./view/view.js").View} view
 * @property {import("./conversation.js").Conversation} conversation
 * @property {import("./engine.js").ChatEngine} engine
 * @property {() => import("../types.js").ChatCompletionParams} request throws where an attribute is wrong
 * @property {() => void} onChange
 * @property {(problem: any) => void} onProblem
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

  /** @returns {Promise<TabloomChatMessage | null>} */
  async answer() {
    const { view, conversation, engine, onChange, onProblem, onMessage } = this.#chat;
    const controller = (this.#controller = new AbortController());
    const { signal } = controller;
    const asked = conversation.messages;
    const shown = view.add("assistant");
    shown.begin();
    view.announce(TEXTS.thinking);
    view.toEnd();
    onProblem(null);
    /** @type {TabloomChatEventMap["tabloom-message"]["detail"]["finishReason"]} */
    let finishReason = null;
    let problem = null;
    try {
      const { chat } = await unlessAborted(engine.load(), signal);
      onChange();
      const request = { ...this.#chat.request(), stream: /** @type {const} */ (true) };
      // The chat promises that nothing leaves the device.
      for await (const { choices } of await chat.completions.create(request, { signal, fallback: false })) {
        const [choice] = choices;
        finishReason = choice?.finish_reason ?? finishReason;
        if (choice?.delta.content) shown.add(choice.delta.content, () => view.follow());
      }
    } catch (/** @type {any} */ error) {
      if (signal.aborted) finishReason = "stopped";
      else problem = error;
    }
    if (GONE.includes(problem?.code)) engine.discard();
    shown.end();
    const { content } = shown;
    // The conversation may have been replaced meanwhile.
    if (this.#controller === controller) this.#controller = null;
    if (conversation.messages !== asked) {
      onChange();
      return null;
    }
    /** @type {TabloomChatMessage | null} */
    const message = content ? { role: "assistant", content } : null;
    if (message) asked.push(message);
    else view.cut(asked.length);
    if (message && finishReason === "length") shown.note(TEXTS.cut);
    conversation.keep();
    onProblem(problem);
    view.follow();
    if (message) onMessage({ message, finishReason });
    return problem ? null : message;
  }
}
