import { now } from "./calls.js";

/**
 * The message that asks what the tokenizer or the template makes of a text or a conversation.
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
 * The message that asks for the text of tokens.
 *
 * @param {number[]} tokens
 * @returns {import("../host/messages.js").Request}
 */
export function detokenizing(tokens) {
  return { type: "tokens", task: "detokenize", request: { tokens: [...tokens] }, now: now() };
}
