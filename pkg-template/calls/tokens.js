import { chosen, plain } from "./arguments.js";
import { Whole, ask, now } from "./calls.js";

/** @import { Serving } from "./calls.js" */
/** @import { ChatMessageParam, TokenizeOptions } from "../types.js" */

/**
 * Asks for the tokens of a text, or for what the chat template makes of a conversation.
 *
 * @param {Serving} session
 * @param {"tokenize" | "template"} task
 * @param {string | readonly ChatMessageParam[]} input
 * @param {TokenizeOptions | null} [options]
 * @returns {Promise<any>}
 */
export function tokenize(session, task, input, options) {
  const names = "signal addSpecialTokens addGenerationPrompt tools chatTemplateKwargs";
  return chosen(options, names, ({ signal, addSpecialTokens, addGenerationPrompt, chatTemplateKwargs, tools }) =>
    send(
      session,
      task,
      {
        [typeof input === "string" ? "prompt" : "messages"]: input,
        add_special_tokens: addSpecialTokens,
        add_generation_prompt: addGenerationPrompt,
        chat_template_kwargs: chatTemplateKwargs,
        tools,
      },
      { signal },
    ),
  );
}

/**
 * Asks for the text of tokens.
 *
 * @param {Serving} session
 * @param {Iterable<number>} tokens
 * @param {{signal?: AbortSignal | null} | null} [options]
 * @returns {Promise<any>}
 */
export function detokenize(session, tokens, options) {
  const params = {
    get tokens() {
      return typeof tokens !== "string" && tokens?.[Symbol.iterator] ? [...tokens] : tokens;
    },
  };
  return send(session, "detokenize", params, options);
}

/**
 * @param {Serving} session
 * @param {"tokenize" | "template" | "detokenize"} task
 * @param {object} params
 * @param {{signal?: AbortSignal | null} | null} [options]
 */
function send(session, task, params, options) {
  return plain(params, (request) => ask(session, new Whole({ type: "tokens", task, request, now: now() }), options));
}
