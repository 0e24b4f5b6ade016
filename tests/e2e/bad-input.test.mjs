// What a page passes by mistake: each value is taken as JSON would send it, or refused by its place, before a worker
// hears of it; and the engine answers the next request.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { context, open } from "./client.mjs";
import { goldens, openPackage } from "./package.mjs";

/** Adds the values to a page, and counts what its workers are told of each type. */
async function prepare(page) {
  await page.evaluate(async () => {
    Object.assign(globalThis, await import(/** @type {any} */ ("./bad-values.js")));
    globalThis.told = [];
    for (const { prototype } of [MessagePort, Worker]) {
      const { postMessage } = prototype;
      prototype.postMessage = function (message, ...rest) {
        if (!/ping|credit|bye|cancel/.test(message.type)) told.push(message);
        return postMessage.call(this, message, ...rest);
      };
    }
    globalThis.heard = () => told.length;
  });
  return page;
}

/** Parameters with a value in each place where one may stand. */
const CHAT = {
  messages: [
    { role: "user", content: [{ type: "text", text: "a" }] },
    { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", tool_call_id: "1", content: "a" },
  ],
  tools: [{ type: "function", function: { name: "f", parameters: { type: "object", properties: { a: {} } } } }],
  tool_choice: { type: "function", function: { name: "f" } },
  response_format: { type: "json_schema", json_schema: { name: "a", schema: {} } },
  structured_outputs: { choice: ["a"] },
  stop: ["a"],
  logit_bias: { 5: 1 },
  stream_options: {},
};
const PLACES = [
  "messages",
  "messages[0]",
  "messages[0].role",
  "messages[0].content",
  "messages[0].content[0]",
  "messages[0].content[0].type",
  "messages[0].content[0].text",
  "messages[1].tool_calls",
  "messages[1].tool_calls[0]",
  "messages[1].tool_calls[0].id",
  "messages[1].tool_calls[0].function",
  "messages[1].tool_calls[0].function.name",
  "messages[1].tool_calls[0].function.arguments",
  "messages[2].tool_call_id",
  "tools",
  "tools[0]",
  "tools[0].function",
  "tools[0].function.name",
  "tools[0].function.description",
  "tools[0].function.parameters",
  "tools[0].function.parameters.properties",
  "tools[0].function.parameters.properties.a",
  "tool_choice",
  "tool_choice.function.name",
  "response_format",
  "response_format.type",
  "response_format.json_schema",
  "response_format.json_schema.name",
  "response_format.json_schema.schema",
  "structured_outputs",
  "structured_outputs.json",
  "structured_outputs.choice",
  "structured_outputs.choice[0]",
  "stop",
  "stop[0]",
  "logit_bias",
  "logit_bias.5",
  "stream_options",
  ...["n", "model", "seed", "temperature", "max_tokens", "logprobs", "top_logprobs", "user", "metadata"],
  ...["chat_template_kwargs", "allowed_token_ids", "bad_words", "reasoning_effort", "wings"],
];

describe("before a worker hears of it", () => {
  test("parameters", async () => {
    const page = await prepare(await open({ host: "private" }));
    const wrong = await page.evaluate(
      async ([chat, places]) => {
        const wrong = [];
        for (const place of places) {
          const ask = async (value, name) => {
            await engine.chat.completions.create(put(chat, place, value));
            const sent = JSON.stringify(asJson(told.at(-1).request));
            const given = JSON.stringify(asJson(put(chat, place, VALUES[name](globalThis))));
            if (sent !== given) throw new Error(`sent ${sent}`);
          };
          const found = await tried(ask, place, { heard, heavy: place === "messages[0].content" });
          wrong.push(...found.wrong.map((what) => `${place} = ${what}`));
        }
        return wrong;
      },
      [CHAT, PLACES],
    );
    assert.deepEqual(wrong, []);
  });

  test("requests, and options of calls", async () => {
    const page = await prepare(await open({ host: "private" }));
    const found = await page.evaluate(async () => {
      const messages = [];
      const calls = {
        chat: (params, options) => engine.chat.completions.create(params ?? { messages }, options),
        complete: (params, options) => engine.completions.create(params ?? { prompt: "a" }, options),
        embed: (params, options) => engine.embeddings.create(params ?? { input: "a" }, options),
      };
      const found = {};
      for (const [name, call] of Object.entries(calls)) {
        found[`${name} params`] = await tried((value) => call(value ?? 5), "", { heard });
        found[`${name} options`] = await tried((value) => call(undefined, value), "", { heard });
        for (const option of ["signal", "fallback"]) {
          const chosen = (value) => call(undefined, { [option]: value });
          found[`${name} ${option}`] = await tried(chosen, option, { heard });
        }
      }
      return found;
    });
    for (const [what, { taken, wrong }] of Object.entries(found)) {
      assert.deepEqual(wrong, [], what);
      if (/signal/.test(what)) assert.deepEqual(taken, ["undefined", "null", "signal"], what);
      if (/fallback/.test(what)) assert.deepEqual(taken, ["undefined", "null", "true"], what);
    }
  });
});
