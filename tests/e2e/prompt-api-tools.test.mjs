// Tools and thinking in sessions of the Prompt API, over an engine that answers by a script: what the model says
// is known then. The loop that the session closes is the specification's; the open one Chrome's, after
// `language-model-tool-use` of the web-platform-tests.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { z } from "zod";
import {
  LanguageModelToolCall,
  LanguageModelToolError,
  LanguageModelToolSuccess,
} from "../../pkg-template/prompt-api.js";
import { TabloomError } from "../../pkg-template/error.js";
import { interfaceOf } from "../../pkg-template/prompt-api/interface.js";

/** One word is one token. */
const words = (messages) => JSON.stringify(messages).split(/\W+/).length;

/** A piece of an answer. */
const piece = (delta) => ({ choices: [{ delta }] });
const call = (index, id, name, json) => [
  piece({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] }),
  ...json.match(/.{1,5}/g).map((part) => piece({ tool_calls: [{ index, function: { arguments: part } }] })),
];

/** A `LanguageModel` whose answers are those of the script, one after the other; `requests` are what was asked. */
function scripted(...answers) {
  const requests = [];
  const create = async (request, { signal }) => {
    signal?.throwIfAborted();
    if (!request.stream) return {};
    requests.push(structuredClone(request));
    const answer = answers.shift() ?? [piece({ content: "nothing more" })];
    if (answer instanceof Error) throw answer;
    return (async function* () {
      yield* answer;
    })();
  };
  const engine = {
    info: { context: 800, device: "cpu" },
    countTokens: async (messages) => words(messages),
    chat: { completions: { create } },
  };
  const model = { load: async () => engine, availability: async () => "available" };
  /** @type {any} */
  const LanguageModel = interfaceOf(/** @type {any} */ (model));
  return { LanguageModel, requests };
}

const WEATHER = {
  name: "weather",
  description: "The weather of a city.",
  inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const OPEN = {
  expectedInputs: [{ type: "tool-response" }],
  expectedOutputs: [{ type: "tool-call" }],
  tools: [WEATHER],
};

/** With what a promise is rejected: its name, or the error itself if it is that. */
async function fault(promise) {
  try {
    await promise;
    return "no failure";
  } catch (error) {
    return error.name === "Error" ? error.message : error.name;
  }
}

async function all(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

const user = (content) => ({ role: "user", content });

describe("tools with execute", () => {
  test("calls are carried out together, and the model goes on with what they gave", async () => {
    const { LanguageModel, requests } = scripted(
      [
        piece({ content: "Let me " }),
        piece({ content: "see. " }),
        ...call(0, "a", "weather", '{"city":"Paris"}'),
        ...call(1, "b", "weather", '{"city":"Rome"}'),
      ],
      [piece({ content: "Rome is warmer." })],
    );
    const asked = [];
    let running = 0;
    let most = 0;
    const execute = async (args) => {
      asked.push(args);
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve));
      running -= 1;
      return args.city === "Rome" ? 25 : "18 degrees";
    };
    const session = await LanguageModel.create({ tools: [{ ...WEATHER, execute }] });
    const pieces = await all(session.promptStreaming("Where is it warmer?"));
    assert.deepEqual(pieces, ["Let me ", "see. ", "Rome is warmer."]);
    assert.deepEqual([asked, most], [[{ city: "Paris" }, { city: "Rome" }], 2]);
    const [first, second] = requests;
    assert.deepEqual(first.tools, [
      {
        type: "function",
        function: { name: "weather", description: WEATHER.description, parameters: WEATHER.inputSchema },
      },
    ]);
    assert.deepEqual(second.messages, [
      user("Where is it warmer?"),
      {
        role: "assistant",
        content: "Let me see. ",
        prefix: false,
        tool_calls: [
          { id: "a", type: "function", function: { name: "weather", arguments: '{"city":"Paris"}' } },
          { id: "b", type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } },
        ],
      },
      { role: "tool", tool_call_id: "a", name: "weather", content: "18 degrees" },
      { role: "tool", tool_call_id: "b", name: "weather", content: "25" },
    ]);
    // All of it is remembered.
    assert.equal(await session.prompt("Thanks"), "nothing more");
    assert.deepEqual(requests[2].messages.slice(0, 4), second.messages);
    assert.equal(requests[2].messages[4].content, "Rome is warmer.");
    const clone = await session.clone();
    await clone.prompt("a");
    assert.equal(requests[3].tools.length, 1);
  });

  test("the explainer's options are those of texts", async () => {
    const { LanguageModel } = scripted([piece({ content: "Hello" })]);
    const tools = [{ ...WEATHER, execute: async () => "" }];
    const session = await LanguageModel.create({ ...OPEN, tools });
    assert.equal(await session.prompt("Hi"), "Hello");
  });

  test("what a function throws ends the prompt, which leaves no trace", async () => {
    const { LanguageModel, requests } = scripted(call(0, "a", "weather", "{}"));
    const execute = () => {
      throw new Error("no network");
    };
    const session = await LanguageModel.create({ tools: [{ ...WEATHER, execute }] });
    assert.equal(await fault(session.prompt("a")), "no network");
    assert.equal(session.contextUsage, 0);
    await session.prompt("b");
    assert.deepEqual(requests[1].messages, [user("b")]);
  });

  test("the model is told the JSON of an object", async () => {
    const { LanguageModel, requests } = scripted(call(0, "a", "weather", "{}"));
    const session = await LanguageModel.create({ tools: [{ ...WEATHER, execute: () => ({ celsius: 21 }) }] });
    await session.prompt("a");
    assert.equal(requests[1].messages.at(-1).content, '{"celsius":21}');
  });

  test("an abort does not wait for functions", async () => {
    const { LanguageModel } = scripted(call(0, "a", "weather", "{}"));
    const controller = new AbortController();
    const execute = () => {
      controller.abort();
      return new Promise(() => {});
    };
    const session = await LanguageModel.create({ tools: [{ ...WEATHER, execute }] });
    assert.equal(await fault(session.prompt("a", { signal: controller.signal })), "AbortError");
    assert.equal(await session.prompt("b"), "nothing more");
  });

  test("a model that calls for ever runs out of context", async () => {
    const { LanguageModel } = scripted(...Array.from({ length: 99 }, (_, i) => call(0, `a${i}`, "weather", "{}")));
    const tools = [{ ...WEATHER, execute: () => "word ".repeat(50) }];
    const session = await LanguageModel.create({ tools });
    assert.equal(await fault(session.prompt("a")), "QuotaExceededError");
    assert.equal(session.contextUsage, 0);
  });

  test("a constraint holds the answer that calls none of them", async () => {
    const schema = { type: "object" };
    const { LanguageModel, requests } = scripted(call(0, "a", "weather", "{}"), [
      piece({ content: '{"celsius": 21}' }),
    ]);
    const session = await LanguageModel.create({ tools: [{ ...WEATHER, execute: () => "21" }] });
    assert.equal(await session.prompt("a", { responseConstraint: schema }), '{"celsius": 21}');
    assert.deepEqual(
      requests.map(({ structured_outputs, tools }) => [structured_outputs, tools.length]),
      Array(2).fill([{ json: schema }, 1]),
    );
  });

  test("calls that are no JSON fail", async () => {
    const { LanguageModel } = scripted(call(0, "a", "weather", "{city"));
    const session = await LanguageModel.create({ tools: [{ ...WEATHER, execute: () => "" }] });
    assert.equal(await fault(session.prompt("a")), "UnknownError");
  });
});

describe("createLanguageModel", () => {
  const tool = (fields) => ({ expectedOutputs: [{ type: "tool-call" }], tools: [{ ...WEATHER, ...fields }] });
  const circular = { type: "object" };
  circular.self = circular;
  const throwing = (property) =>
    new Proxy(property === "type" ? {} : { type: "object" }, {
      get(target, name) {
        if (name === property) throw property === "type" ? new TypeError("mine") : new Error("mine");
        return target[name];
      },
    });
  const schema = (more) => tool({ inputSchema: { type: "object", ...more } });
  for (const [name, options, expected] of [
    ["null inputSchema", tool({ inputSchema: null }), "TypeError"],
    ["empty inputSchema", tool({ inputSchema: {} }), "TypeError"],
    ["inputSchema that is no object", tool({ inputSchema: "not an object" }), "TypeError"],
    ["inputSchema without type", tool({ inputSchema: { properties: { a: { type: "string" } } } }), "TypeError"],
    ["inputSchema of another type", schema({ type: "string" }), "TypeError"],
    ["properties that are no object", schema({ properties: "not an object" }), "TypeError"],
    ["required that is no list", schema({ required: "not a list" }), "TypeError"],
    ["inputSchema whose properties throw", tool({ inputSchema: throwing("properties") }), "mine"],
    ["inputSchema whose type throws", tool({ inputSchema: throwing("type") }), "TypeError"],
    ["empty name", tool({ name: "" }), "TypeError"],
    ["a name that no model reads", tool({ name: "a b" }), "TypeError"],
    ["empty description", tool({ description: "" }), "TypeError"],
    ["names twice", { ...OPEN, tools: [WEATHER, WEATHER] }, "TypeError"],
    ["no inputSchema", tool({ inputSchema: undefined }), "TypeError"],
    ["a circle in inputSchema", tool({ inputSchema: circular }), "TypeError"],
    [
      "toJSON that throws",
      schema({
        toJSON() {
          throw new Error("mine");
        },
      }),
      "mine",
    ],
    [
      "a getter that throws",
      tool({
        inputSchema: {
          type: "object",
          get a() {
            throw new Error("mine");
          },
        },
      }),
      "mine",
    ],
    [
      "one bad tool among several",
      { ...OPEN, tools: [WEATHER, { ...WEATHER, name: "b", inputSchema: circular }] },
      "TypeError",
    ],
    ["tools without expectedOutputs", { tools: [WEATHER] }, "TypeError"],
    [
      "tools without tool-call in expectedOutputs",
      { tools: [WEATHER], expectedOutputs: [{ type: "text" }] },
      "TypeError",
    ],
    ["execute in one tool only", { ...OPEN, tools: [WEATHER, { ...WEATHER, name: "b", execute() {} }] }, "TypeError"],
    ["what execute is not", tool({ execute: "a" }), "TypeError"],
    ["tool responses as outputs", { expectedOutputs: [{ type: "tool-response" }] }, "NotSupportedError"],
    [
      "text in a schema that looks like wrong JSON",
      schema({ properties: { a: { description: '{"a": 10,}' } } }),
      "no failure",
    ],
    ["inputSchema without properties", schema({}), "no failure"],
    ["a schema of Zod as inputSchema", tool({ inputSchema: z.object({ city: z.string() }) }), "TypeError"],
    ["Zod's JSON Schema", tool({ inputSchema: z.toJSONSchema(z.object({ city: z.string() })) }), "no failure"],
    ["an empty list of tools", { tools: [] }, "no failure"],
  ]) {
    test(`${name}: ${expected}`, async () => {
      const { LanguageModel } = scripted();
      assert.equal(await fault(LanguageModel.create(options)), expected);
    });
  }
});

test("languages without a name are not available", async () => {
  const { LanguageModel } = scripted();
  for (const [language, expected] of [
    ["en-GB", "available"],
    ["unk", "unavailable"],
  ]) {
    for (const name of ["expectedInputs", "expectedOutputs"]) {
      const options = { [name]: [{ type: "text", languages: [language] }] };
      assert.equal(await LanguageModel.availability(options), expected);
      const failure = expected === "available" ? "no failure" : "NotSupportedError";
      assert.equal(await fault(LanguageModel.create(options)), failure);
    }
  }
});

describe("tools without execute", () => {
  const given = (callId, ...result) => ({
    role: "user",
    content: [{ type: "tool-response", value: new LanguageModelToolSuccess({ callId, name: "weather", result }) }],
  });

  test("where tool-call is expected, answers are lists, also of text alone", async () => {
    const { LanguageModel } = scripted([piece({ content: "Hel" }), piece({ content: "lo" })], []);
    const session = await LanguageModel.create({ expectedOutputs: [{ type: "tool-call" }] });
    assert.deepEqual(await session.prompt("Hi"), [{ type: "text", value: "Hello" }]);
    assert.deepEqual(await session.prompt("Hi"), [{ type: "text", value: "" }]);
  });

  test("prompt() gives text, then calls; a later prompt says what they gave", async () => {
    const { LanguageModel, requests } = scripted(
      [
        piece({ content: "Let me see." }),
        ...call(0, "a", "weather", '{"city":"Rome"}'),
        ...call(1, "b", "weather", "{}"),
      ],
      [piece({ content: "Warm." })],
    );
    const session = await LanguageModel.create(OPEN);
    const answer = await session.prompt("How is Rome?");
    assert.deepEqual(
      answer.map(({ type, value }) => [type, value instanceof LanguageModelToolCall ? { ...value } : value]),
      [
        ["text", "Let me see."],
        ["tool-call", { callId: "a", name: "weather", arguments: { city: "Rome" } }],
        ["tool-call", { callId: "b", name: "weather", arguments: {} }],
      ],
    );
    const error = new LanguageModelToolError({ callId: "b", name: "weather", errorMessage: "which city?" });
    const results = [
      { type: "text", value: "25 degrees" },
      { type: "object", value: { sun: true } },
      { type: "text", value: [1] },
    ];
    const prompt = [given("a", ...results), user([{ type: "tool-response", value: error }])];
    assert.deepEqual(await session.prompt(prompt), [{ type: "text", value: "Warm." }]);
    assert.deepEqual(requests[1].messages.slice(2), [
      { role: "tool", tool_call_id: "a", name: "weather", content: '25 degrees\n{"sun":true}\n[1]' },
      { role: "tool", tool_call_id: "b", name: "weather", content: '{"error":"which city?"}' },
    ]);
    const clone = await session.clone();
    assert.ok(Array.isArray(await clone.prompt("And now?")));
    assert.deepEqual(requests[2].tools, requests[0].tools);
  });

  test("promptStreaming() gives pieces of text, then calls", async () => {
    const { LanguageModel } = scripted([
      piece({ content: "Let " }),
      piece({ content: "me" }),
      ...call(0, "a", "weather", "{}"),
    ]);
    const session = await LanguageModel.create(OPEN);
    const pieces = await all(session.promptStreaming("a"));
    assert.deepEqual(
      pieces.map(({ type, value }) => [type, typeof value === "string" ? value : value.name]),
      [
        ["text", "Let "],
        ["text", "me"],
        ["tool-call", "weather"],
      ],
    );
  });

  test("a page may begin with calls and what they gave, or append them", async () => {
    const calls = [{ city: "Rome", more: { of: ["it"] } }, {}, undefined].map((given, i) => ({
      type: "tool-call",
      value: new LanguageModelToolCall({ callId: `a${i}`, name: "weather", arguments: given }),
    }));
    const options = { ...OPEN, expectedInputs: [{ type: "tool-call" }, { type: "tool-response" }] };
    const history = [{ role: "assistant", content: calls }, given("a0", { type: "text", value: "25" })];
    const written = [calls[0].value.arguments, {}, {}].map((given) => JSON.stringify(given));
    const begun = scripted();
    await (await begun.LanguageModel.create({ ...options, initialPrompts: history })).prompt("b");
    const appended = scripted();
    const session = await appended.LanguageModel.create(options);
    await session.append(history);
    await session.prompt("b");
    for (const { requests } of [begun, appended]) {
      const [first, second] = requests[0].messages;
      assert.deepEqual(
        first.tool_calls.map((call) => call.function.arguments),
        written,
      );
      assert.equal(first.content, null);
      assert.deepEqual(second, { role: "tool", tool_call_id: "a0", name: "weather", content: "25" });
    }
  });

  test("a call that is forgotten takes what it gave with it", async () => {
    const { LanguageModel, requests } = scripted(call(0, "a", "weather", "{}"), [piece({ content: "Warm." })]);
    const session = await LanguageModel.create(OPEN);
    await session.prompt("word ".repeat(200));
    await session.prompt([given("a", { type: "text", value: "25" })]);
    await session.prompt("word ".repeat(600));
    assert.deepEqual(
      requests[2].messages.map(({ role }) => role),
      ["user"],
    );
  });

  const value = (callId) => new LanguageModelToolCall({ callId, name: "weather", arguments: {} });
  const circular = {};
  circular.self = circular;
  const says = (role, type, value) => [{ role, content: [{ type, value }] }];
  for (const [name, input, expected] of [
    ["a call by the user", says("user", "tool-call", value("a")), "TypeError"],
    ["a response by the assistant", says("assistant", "tool-response", given("a").content[0].value), "TypeError"],
    ["a call that is none", says("assistant", "tool-call", {}), "TypeError"],
    ["a response that is none", says("user", "tool-response", value("a")), "TypeError"],
    [
      "a call whose arguments are a list",
      says("assistant", "tool-call", new LanguageModelToolCall({ callId: "a", name: "a", arguments: [] })),
      "DataError",
    ],
    [
      "a call whose arguments are a circle",
      says("assistant", "tool-call", new LanguageModelToolCall({ callId: "a", name: "a", arguments: circular })),
      "DataError",
    ],
    ["a result that is a circle", [given("a", { type: "text", value: circular })], "DataError"],
    ["a result that is a function", [given("a", { type: "text", value() {} })], "DataError"],
    ["a result that is a BigInt", [given("a", { type: "text", value: 1n })], "DataError"],
    ["bytes labelled as an object", [given("a", { type: "object", value: new ArrayBuffer(8) })], "DataError"],
    ["an image", [given("a", { type: "image", value: new ArrayBuffer(8) })], "NotSupportedError"],
    ["a sound", [given("a", { type: "audio", value: new ArrayBuffer(8) })], "NotSupportedError"],
  ]) {
    test(`${name}: ${expected}`, async () => {
      const { LanguageModel, requests } = scripted();
      const expectedInputs = [{ type: "tool-call" }, { type: "tool-response" }];
      const session = await LanguageModel.create({ ...OPEN, expectedInputs });
      assert.equal(await fault(session.prompt(input)), expected);
      assert.deepEqual(requests, []);
    });
  }

  test("what was not expected is refused", async () => {
    const { LanguageModel } = scripted();
    const session = await LanguageModel.create({ expectedOutputs: [{ type: "tool-call" }], tools: [WEATHER] });
    for (const input of [says("assistant", "tool-call", value("a")), [given("a")]]) {
      assert.equal(await fault(session.prompt(input)), "NotSupportedError");
    }
  });

  test("tools that this model cannot have are refused", async () => {
    const refusal = new TabloomError({ code: "invalid_request", message: "no tools here", param: "tools[0].function" });
    const session = await scripted(refusal).LanguageModel.create(OPEN);
    assert.equal(await fault(session.prompt("a")), "NotSupportedError");
  });
});

describe("thinking", () => {
  const ANSWER = [piece({ reasoning_content: "Hm, " }), piece({ reasoning_content: "2." }), piece({ content: "Two." })];

  test("a session does not think unless it is asked", async () => {
    const { LanguageModel, requests } = scripted(ANSWER, ANSWER);
    for (const options of [{}, { thinking: {} }, { thinking: { effort: "none" } }]) {
      await (await LanguageModel.create(options)).prompt("a");
      assert.deepEqual(requests.at(-1).chat_template_kwargs, { enable_thinking: false });
    }
    const session = await LanguageModel.create({ thinking: { effort: "low" } });
    await (await session.clone()).prompt("a");
    assert.deepEqual(requests.at(-1).chat_template_kwargs, { enable_thinking: true, reasoning_effort: "low" });
  });

  test("thoughts are told if they are asked for, and kept for the model", async () => {
    const { LanguageModel, requests } = scripted(ANSWER, ANSWER, ANSWER);
    const quiet = await LanguageModel.create({ thinking: { effort: "high" } });
    assert.equal(await quiet.prompt("1 + 1?"), "Two.");
    const session = await LanguageModel.create({ thinking: { effort: "high", includeThoughts: true } });
    assert.deepEqual(await all(session.promptStreaming("1 + 1?")), [
      { type: "thought", value: "Hm, " },
      { type: "thought", value: "2." },
      { type: "text", value: "Two." },
    ]);
    assert.deepEqual(await session.prompt("Again?"), [
      { type: "thought", value: "Hm, 2." },
      { type: "text", value: "Two." },
    ]);
    const said = { role: "assistant", content: "Two.", prefix: false, reasoning_content: "Hm, 2." };
    assert.deepEqual(requests[2].messages[1], said);
  });
});
