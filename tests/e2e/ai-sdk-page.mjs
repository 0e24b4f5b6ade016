// The Vercel AI SDK in a page, the version that npm installs and the one before, by its provider for
// OpenAI-compatible servers and by that for OpenAI.
import * as openai7 from "@ai-sdk/openai";
import * as compatible7 from "@ai-sdk/openai-compatible";
import * as ai7 from "ai";
import * as ai6 from "ai-6";
import * as openai6 from "ai-6-openai";
import * as compatible6 from "ai-6-openai-compatible";

const VERSIONS = {
  6: { ...ai6, ...openai6, ...compatible6 },
  7: { ...ai7, ...openai7, ...compatible7 },
};

/**
 * The SDK, its functions bound to the engine's model.
 *
 * @param {import("tabloom").Engine} engine
 * @param {keyof typeof VERSIONS} version
 */
export function sdk({ fetch, info }, version) {
  const ai = VERSIONS[version];
  const baseURL = "https://nowhere.invalid/v1";
  const options = { name: "tabloom", baseURL, fetch, includeUsage: true, supportsStructuredOutputs: true };
  const model = ai.createOpenAICompatible(options)(info.model);
  const { generateText, streamText, generateObject, streamObject } = ai;
  const bound = Object.entries({ generateText, streamText, generateObject, streamObject }).map(([name, ask]) => [
    name,
    (/** @type {object} */ settings) =>
      /** @type {Function} */ (ask)({ model, maxRetries: 0, temperature: 0, ...settings }),
  ]);
  const openai = ai.createOpenAI({ apiKey: "none", fetch });
  return { ...ai, ...Object.fromEntries(bound), model, openai, name: info.model };
}
