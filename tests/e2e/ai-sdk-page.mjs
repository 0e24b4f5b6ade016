// The Vercel AI SDK in a page, by its provider for OpenAI-compatible servers and by that for OpenAI.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as ai from "ai";

/**
 * The SDK, its functions bound to the engine's model.
 *
 * @param {import("tabloom").Engine} engine
 */
export function sdk({ fetch, info }) {
  const baseURL = "https://nowhere.invalid/v1";
  const options = { name: "tabloom", baseURL, fetch, includeUsage: true, supportsStructuredOutputs: true };
  const model = createOpenAICompatible(options)(info.model);
  const { generateText, streamText, generateObject, streamObject } = ai;
  const bound = Object.entries({ generateText, streamText, generateObject, streamObject }).map(([name, ask]) => [
    name,
    (/** @type {object} */ settings) =>
      /** @type {Function} */ (ask)({ model, maxRetries: 0, temperature: 0, ...settings }),
  ]);
  return { ...ai, ...Object.fromEntries(bound), openai: createOpenAI({ apiKey: "none", fetch }), name: info.model };
}
