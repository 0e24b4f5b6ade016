// LangChain.js in a page, by its classes for OpenAI's API.
import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";

/**
 * LangChain's models, bound to the engine.
 *
 * @param {import("tabloom").Engine} engine
 */
export function langchain({ fetch, info }) {
  const { model } = info;
  const configuration = { fetch, baseURL: "https://nowhere.invalid/v1" };
  const fields = { model, apiKey: "none", maxRetries: 0, configuration };
  return {
    HumanMessage,
    tool,
    z,
    chat: (/** @type {object} */ more) => new ChatOpenAI({ ...fields, temperature: 0, ...more }),
    embeddings: new OpenAIEmbeddings(fields),
  };
}
