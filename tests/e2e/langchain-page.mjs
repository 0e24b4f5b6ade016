// LangChain.js in a page, by its classes for OpenAI's API.
import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { createAgent, createMiddleware } from "langchain";
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
    createAgent,
    createMiddleware,
    z,
    weather,
    chat: (/** @type {object} */ more) => new ChatOpenAI({ ...fields, temperature: 0, ...more }),
    embeddings: new OpenAIEmbeddings(fields),
  };
}

/**
 * A tool that notes the cities for which it is called.
 *
 * @param {string[]} cities
 */
function weather(cities) {
  const schema = z.object({ city: z.enum(["Paris", "Rome"]) });
  const tell = (/** @type {z.infer<typeof schema>} */ { city }) => {
    cities.push(city);
    return `It is 21 degrees in ${city}.`;
  };
  return tool(tell, { name: "weather", description: "Tells the weather.", schema });
}
