import { now } from "./calls.js";

/**
 * The request for the tokens of a text, or for what the chat template makes of a conversation.
 *
 * @param {"tokenize" | "template"} task
 * @param {string | import("../types.js").ChatMessage[]} input
 * @param {import("../types.js").TokenizeOptions} [options]
 * @returns {import("../host/messages.js").Request}
 */
export function tokenizing(task, input, { addSpecialTokens, addGenerationPrompt, signal } = {}) {
  signal?.throwIfAborted();
  const settings = {
    add_special_tokens: addSpecialTokens,
    add_generation_prompt: addGenerationPrompt,
  };
  const what = typeof input === "string" ? { prompt: input } : { messages: structuredClone(input) };
  return { type: "tokens", task, request: { ...what, ...settings }, now: now() };
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
