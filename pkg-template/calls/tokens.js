import { now } from "./calls.js";

/**
 * The request for the tokens of a text, or for what the chat template makes of a conversation.
 *
 * @param {"tokenize" | "template"} task
 * @param {string | import("../types.js").ChatMessage[]} input
 * @param {import("../types.js").TokenizeOptions} [options]
 * @returns {import("../host/messages.js").Request}
 */
export function tokenizing(task, input, options = {}) {
  options.signal?.throwIfAborted();
  const request = {
    [typeof input === "string" ? "prompt" : "messages"]: input,
    add_special_tokens: options.addSpecialTokens,
    add_generation_prompt: options.addGenerationPrompt,
    tools: options.tools,
    chat_template_kwargs: options.chatTemplateKwargs,
  };
  return { type: "tokens", task, request: structuredClone(request), now: now() };
}

/**
 * The request for the text of tokens.
 *
 * @param {number[]} tokens
 * @returns {import("../host/messages.js").Request}
 */
export function detokenizing(tokens) {
  return { type: "tokens", task: "detokenize", request: { tokens: [...tokens] }, now: now() };
}
