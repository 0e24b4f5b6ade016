// What a page passes by mistake: each value is taken as JSON would send it, or refused by its place, before a worker
// hears of it; and the engine answers the next request.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { open } from "./client.mjs";
import { goldens, openPackage } from "./package.mjs";

/** Adds the values to a page, and counts what its workers are told; `sent` ends with what is told next. */
async function prepare(page) {
  await page.evaluate(async () => {
    globalThis.bad = await import(/** @type {any} */ ("./bad-values.js"));
    globalThis.told = [];
    globalThis.sent = null;
    const { postMessage } = MessagePort.prototype;
    MessagePort.prototype.postMessage = function (message, ...rest) {
      if (/ping|credit|bye|cancel/.test(message.type)) return postMessage.call(this, message, ...rest);
      told.push(message);
      if (!sent) return postMessage.call(this, message, ...rest);
      sent.abort("sent");
    };
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
        const HUGE = ["messages[0].content", "tools[0].function.parameters", "response_format.json_schema.schema"];
        const wrong = [];
        for (const place of places) {
          const ask = async (value, name) => {
            sent = new AbortController();
            const asked = engine.chat.completions.create(bad.put(chat, place, value), sent);
            await asked.catch((error) => {
              if (error !== "sent") throw error;
            });
            const [found, given] = [told.at(-1).request, bad.put(chat, place, bad.VALUES[name](globalThis))];
            const texts = [found, given].map((params) => JSON.stringify(bad.asJson(params)));
            if (texts[0] !== texts[1]) throw new Error(`sent ${texts[0]}`);
          };
          const among = HUGE.includes(place) ? () => true : undefined;
          const found = await bad.tried(ask, place, { heard, among });
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
        found[`${name} params`] = await bad.tried((value) => call(value ?? 5), "", { heard });
        found[`${name} options`] = await bad.tried((value) => call(undefined, value), "", { heard });
        for (const option of ["signal", "fallback"]) {
          const chosen = (value) => call(undefined, { [option]: value });
          found[`${name} ${option}`] = await bad.tried(chosen, option, { heard });
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

  const OPTIONS =
    "onProgress signal workerUrl host isolation fallback persist registry quantisation hub draft budgetBytes device store quantize context kv kvBytes prefixCache slidingWindow speculation gpu integrity crossOriginStorage";

  test("models, and options of loads", async () => {
    const page = await prepare(await open(null));
    const found = await page.evaluate(async (names) => {
      let workers = 0;
      globalThis.Worker = globalThis.SharedWorker = /** @type {any} */ (
        class {
          constructor() {
            workers += 1;
            throw new Error("a worker");
          }
        }
      );
      const heard = () => workers;
      /** Loads until a worker would start. */
      const load = (source, options) =>
        Engine.load(source, options).catch((error) => {
          if (error.code !== "no_host") throw error;
        });
      const found = { model: await bad.tried((value) => load(value), "model", { heard }) };
      found.options = await bad.tried((value) => load("model/", value), "", { heard });
      for (const name of names)
        found[name] = await bad.tried((value) => load("model/", { [name]: value }), name, { heard });
      for (const name of ["baseURL", "model", "apiKey", "when", "wings"]) {
        const server = { baseURL: "https://a.example", model: "m" };
        const backed = (value) => load("model/", { fallback: { ...server, [name]: value } });
        // A class as `when` is asked later, and throws then.
        const among = (value) => !bad.HEAVY.includes(value) && value !== "class";
        found[`fallback.${name}`] = await bad.tried(backed, "fallback", { heard, among });
      }
      return found;
    }, OPTIONS.split(" "));
    const taken = {
      onProgress: ["undefined", "null", "function", "class"],
      signal: ["undefined", "null", "signal"],
      persist: ["undefined", "null", "true"],
      host: ["undefined", "null"],
      "fallback.wings": ["undefined", "null"],
    };
    for (const [what, { wrong }] of Object.entries(found)) assert.deepEqual(wrong, [], what);
    for (const [what, names] of Object.entries(taken)) assert.deepEqual(found[what].taken, names, what);
  });

  test("what is probed and deleted", async () => {
    const page = await prepare(await open({ host: "private" }));
    const found = await page.evaluate(async () => {
      const known = (error) => {
        if (error.code !== "fetch") throw error;
      };
      const found = {};
      for (const name of ["models", "kvBytes", "budgetBytes", "signal", "hub", "registry"]) {
        found[`probe ${name}`] = await bad.tried((value) => Engine.probe({ [name]: value }), name, { heard });
      }
      for (const name of ["id", "model", "bytes", "quantisation"]) {
        const probe = (value) => Engine.probe({ models: [{ id: "a", bytes: 5, [name]: value }] });
        found[`probe models[0].${name}`] = await bad.tried(probe, "models[0]", { heard });
      }
      found["models[0]"] = await bad.tried((value) => Engine.probe({ models: [value] }), "models[0]", { heard });
      found.delete = await bad.tried((value) => Engine.store.delete(value), "model", { heard });
      for (const name of ["hub", "quantisation", "registry"]) {
        const remove = (value) => Engine.store.delete("org/name", { [name]: value }).catch(known);
        found[`delete ${name}`] = await bad.tried(remove, name, { heard });
      }
      return found;
    });
    for (const [what, { wrong }] of Object.entries(found)) assert.deepEqual(wrong, [], what);
  });
});

/** Greedily, one token. */
const SHORT = { messages: [{ role: "user", content: "a" }], max_completion_tokens: 1, temperature: 0 };

describe("by the engine", () => {
  let session;
  let page;

  before(async () => {
    const values = readFileSync(new URL("bad-values.js", import.meta.url), "utf8");
    session = await openPackage({ "": { "bad-values.js": values } });
    page = await prepare(session.page);
    await page.evaluate(async () => {
      globalThis.engine = await Engine.load("model/");
    });
  });

  after(() => session?.close());

  /** What is wrong with how calls of the engine, each a function of the page, were refused. */
  async function check(calls, args) {
    const found = await page.evaluate(calls, args);
    for (const [what, { wrong }] of Object.entries(found)) assert.deepEqual(wrong, [], what);
    const { messages, answer: expected } = goldens[0];
    assert.equal(await page.evaluate((messages) => answer(engine, messages), messages), expected);
    return found;
  }

  test("parameters of chats", () =>
    check(
      async ([chat, short, places]) => {
        const found = {};
        for (const place of places) {
          const template = { ...short, [place.split(/[.[]/)[0]]: chat[place.split(/[.[]/)[0]] };
          if (/^(messages\[[12]\]|tool_choice)/.test(place)) Object.assign(template, { tools: chat.tools });
          const ask = async (value) => {
            const answer = await engine.chat.completions.create(bad.put(template, place, value));
            await answer.return?.();
          };
          found[place] = await bad.tried(ask, place.split(/[.[]/)[0], { among: (name) => bad.SENT.includes(name) });
        }
        return found;
      },
      [CHAT, SHORT, [...PLACES, "stream"]],
    ));

  test("parameters of text completions, embeddings and tokens", () =>
    check(async () => {
      const found = {};
      for (const name of ["prompt", "n", "stop", "logprobs", "echo", "suffix", "stream", "temperature"]) {
        const ask = async (value) => {
          const answer = await engine.completions.create({ prompt: "a", max_tokens: 1, [name]: value });
          await answer.return?.();
        };
        found[name] = await bad.tried(ask, name);
      }
      for (const name of ["input", "encoding_format", "dimensions", "user"]) {
        found[`embeddings ${name}`] = await bad.tried(
          (value) => engine.embeddings.create({ input: "a", [name]: value }),
          name,
        );
      }
      for (const call of ["tokenize", "countTokens", "applyChatTemplate"]) {
        found[call] = await bad.tried((value) => engine[call](value), "");
        for (const name of ["tools", "chatTemplateKwargs", "addSpecialTokens", "addGenerationPrompt", "wings"]) {
          const messages = [{ role: "user", content: "a" }];
          found[`${call} ${name}`] = await bad.tried((value) => engine[call](messages, { [name]: value }), "");
        }
      }
      found.detokenize = await bad.tried((value) => engine.detokenize(value), "tokens");
      return found;
    }));

  test("requests of engine.fetch are answered by errors of OpenAI's shape", () =>
    check(async (short) => {
      const ask = async (input, init) => {
        const response = await engine.fetch(input, init);
        const { error } = await response.json();
        if (!error) return;
        if (response.status < 400 || response.status > 499) throw new Error(`status ${response.status}`);
        throw { name: "TabloomError", ...error, code: "invalid_request", param: "", message: `: ${error.message}` };
      };
      const body = JSON.stringify(short);
      const found = { input: await bad.tried((value) => ask(value, { method: "POST", body }), "") };
      found.init = await bad.tried((value) => ask("/v1/chat/completions", value), "");
      for (const name of ["method", "body", "headers", "signal", "duplex"]) {
        const init = (value) => ({ method: "POST", body, [name]: value });
        found[name] = await bad.tried((value) => ask("/v1/chat/completions", init(value)), "");
      }
      const stream = (value) =>
        new ReadableStream({
          pull: (controller) => controller.error(value),
        });
      const broken = (value) => ask("/v1/chat/completions", { method: "POST", body: stream(value), duplex: "half" });
      found.stream = await bad.tried(broken, "");
      return found;
    }, SHORT));

  /** A request for a response with a value in each place where one may stand. */
  const RESPONSE = {
    input: [
      { role: "user", content: [{ type: "input_text", text: "a" }] },
      { type: "function_call", call_id: "1", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "1", output: "a" },
    ],
    tools: [{ type: "function", name: "f", parameters: { type: "object", properties: {} } }],
    tool_choice: { type: "function", name: "f" },
    text: { format: { type: "json_schema", name: "a", schema: {} } },
    reasoning: {},
    stream_options: {},
  };
  const RESPONSE_PLACES = [
    "input",
    "input[0]",
    "input[0].role",
    "input[0].content",
    "input[0].content[0]",
    "input[0].content[0].type",
    "input[0].content[0].text",
    "input[1].call_id",
    "input[1].name",
    "input[1].arguments",
    "input[2].call_id",
    "input[2].output",
    "tools",
    "tools[0]",
    "tools[0].type",
    "tools[0].name",
    "tools[0].parameters",
    "tool_choice",
    "tool_choice.name",
    "text",
    "text.format",
    "text.format.type",
    "text.format.schema",
    "reasoning",
    "reasoning.effort",
    "reasoning.summary",
    "stream_options",
    ...["instructions", "include", "truncation", "background", "store", "previous_response_id", "stream"],
    ...["temperature", "top_p", "max_output_tokens", "metadata", "user", "parallel_tool_calls", "messages", "wings"],
  ];

  test("bodies of the Responses API", () =>
    check(
      async ([template, places]) => {
        const found = {};
        for (const place of places) {
          const [root] = place.split(/[.[]/);
          const base = { input: "a", max_output_tokens: 1, temperature: 0, [root]: template[root] };
          if (/input\[[12]\]|tool_choice/.test(place)) base.tools = template.tools;
          const ask = async (value) => {
            const init = { method: "POST", body: JSON.stringify(bad.put(base, place, value)) };
            const response = await engine.fetch("/v1/responses", init);
            if (response.ok) return void (await response.text());
            const { error } = await response.json();
            if (response.status !== 400) throw new Error(`status ${response.status}`);
            throw { name: "TabloomError", ...error, message: `${error.param}: ${error.message}` };
          };
          found[place] = await bad.tried(ask, root, { among: (name) => bad.SENT.includes(name) });
        }
        return found;
      },
      [RESPONSE, RESPONSE_PLACES],
    ));

  test("sessions of the Prompt API reject, and go on", () =>
    check(async () => {
      const api = engine.languageModel();
      const session = await api.create();
      const wrong = [];
      /** As WebIDL has it: a text where it can be one, and what the page throws is thrown. */
      const settles = async (what, call) => {
        const late = new Promise((resolve) => setTimeout(resolve, 60_000, "late"));
        const made = await Promise.race([Promise.resolve().then(call), late]).catch((error) => {
          const ofThePage = /throws|cannot be a text|error|proxy/.test(what);
          const isTyped = [TypeError, RangeError, SyntaxError, DOMException].some((type) => error instanceof type);
          if (!isTyped && !ofThePage) wrong.push(`${what}: ${error}`);
        });
        if (made === "late") wrong.push(what);
        else made?.destroy?.();
      };
      for (const name of Object.keys(bad.VALUES)) {
        if (/long|huge|of holes|generator/.test(name)) continue;
        const value = () => bad.VALUES[name](globalThis);
        for (const option of ["initialPrompts", "tools", "signal", "temperature", "topK", "samplingMode", "monitor"]) {
          await settles(`${option} = ${name}`, () => api.create({ [option]: value() }));
        }
        await settles(`create(${name})`, () => api.create(value()));
        await settles(`responseConstraint = ${name}`, () =>
          session.measureContextUsage("a", { responseConstraint: value() }),
        );
        for (const prompt of [value, () => [value()], () => [{ role: "user", content: value() }]]) {
          await settles(`prompt = ${name}`, () => session.measureContextUsage(prompt()));
        }
      }
      if ((await session.measureContextUsage("a")) < 1) wrong.push("it does not go on");
      return { sessions: { wrong } };
    }));

  test("the element's messages, engine and questions", () =>
    check(async () => {
      await import(/** @type {any} */ ("./tabloom/element.js"));
      const chat = /** @type {any} */ (document.body.appendChild(document.createElement("tabloom-chat")));
      const set = (name) => async (value) => {
        chat[name] = value;
      };
      const found = {
        messages: await bad.tried(set("messages"), "messages"),
        message: await bad.tried(async (value) => set("messages")([value]), "messages"),
        content: await bad.tried(async (value) => set("messages")([{ role: "user", content: value }]), "messages"),
        versions: await bad.tried(
          async (value) => set("messages")([{ role: "user", content: "a", versions: value }]),
          "messages",
        ),
        engine: await bad.tried(set("engine"), "engine"),
      };
      chat.remove();
      return found;
    }));

  test("the element's attributes", () =>
    check(async () => {
      await import(/** @type {any} */ ("./tabloom/element.js"));
      const TEXTS = [
        "",
        " ",
        "a",
        "NaN",
        "-1",
        "1e999",
        "0x10",
        "5,5",
        "\ud800",
        "javascript:alert(1)",
        "a".repeat(100_000),
      ];
      const names = "model device quantize temperature max-tokens system storage worker-url lang placeholder".split(
        " ",
      );
      const wrong = [];
      for (const name of names) {
        for (const text of TEXTS) {
          const chat = /** @type {any} */ (document.createElement("tabloom-chat"));
          const attributes = { model: "model/", device: "cpu", "max-tokens": "1", [name]: text };
          for (const [name, text] of Object.entries(attributes)) chat.setAttribute(name, text);
          let told = null;
          chat.addEventListener("tabloom-error", ({ detail }) => (told = detail.error));
          document.body.append(chat);
          const late = new Promise((resolve) => setTimeout(resolve, 60_000, "late"));
          const settled = await Promise.race([chat.send("a").then(() => "done"), late]).catch((error) => error);
          const error = settled === "done" ? told : settled;
          const typed = error === null || (error.name === "TabloomError" && error.message.length < 1000);
          if (!typed) wrong.push(`${name} = ${text.slice(0, 20)}: ${`${error?.stack ?? error}`.slice(0, 300)}`);
          chat.remove();
        }
      }
      return { attributes: { wrong } };
    }));
});
