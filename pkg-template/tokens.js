import { now } from "./calls.js";

/**
 * The message that asks what the tokenizer or the template makes of a text or a conversation.
 *
 * @param {"tokenize" | "template"} type
 * @param {string | import("./types.js").ChatMessage[]} input
 * @param {import("./types.js").TokenizeOptions} [options]
 */
export function tokenizing(type, input, { addSpecialTokens, addGenerationPrompt, signal } = {}) {
  signal?.throwIfAborted();
  const settings = {
    add_special_tokens: addSpecialTokens,
    add_generation_prompt: addGenerationPrompt,
  };
  const what = typeof input === "string" ? { prompt: input } : { messages: structuredClone(input) };
  return { type, request: { ...what, ...settings }, now: now() };
}
