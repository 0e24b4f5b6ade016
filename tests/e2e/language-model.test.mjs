// Sessions in the Prompt API's shape.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPackage } from "./package.mjs";

let session;
let page;

before(async () => {
  session = await openPackage();
  page = session.page;
  await page.evaluate(async () => {
    globalThis.engine = await Engine.load("model/", { device: "cpu" });
    globalThis.model = engine.languageModel();
    globalThis.FRANCE = "What is the capital of France?";
    /** Greedy, so that answers can be compared. */
    globalThis.create = (options) => model.create({ temperature: 0, ...options });
    globalThis.user = (content) => ({ role: "user", content });
    globalThis.assistant = (content) => ({ role: "assistant", content });
    globalThis.system = (content) => ({ role: "system", content });
    /** Tokens of a conversation that is over: without the beginning of an answer. */
    globalThis.tokens = (messages) => {
      const over = messages.map((message) => (message.role === "assistant" ? { ...message, prefix: false } : message));
      return engine.countTokens(over, { addGenerationPrompt: false });
    };
    /** What a promise is rejected with. */
    globalThis.reason = (promise) =>
      Promise.resolve(promise).then(
        () => "no failure",
        (error) => ({ name: error?.name ?? error, dom: error instanceof DOMException, message: error?.message }),
      );
    globalThis.cached = async () => (await engine.metrics()).prefix_cache_hits;
    globalThis.aborted = async () => (await engine.metrics()).request_success.abort;
  });
});

after(() => session?.close());

test("a session remembers what was said, and streams the same", async () => {
  const { first, second, expected, pieces, usage } = await page.evaluate(async () => {
    const session = await create();
    const start = session.contextUsage;
    const first = await session.prompt(FRANCE);
    const then = [user(FRANCE), assistant(first), user("And of Italy?")];
    const pieces = [];
    const clone = await session.clone();
    for await (const piece of clone.promptStreaming("And of Italy?")) pieces.push(piece);
    const before = session.contextUsage;
    const second = await session.prompt([
      {
        role: "user",
        content: [
          { type: "text", value: "And of " },
          { type: "text", value: "Italy?" },
        ],
      },
    ]);
    const { contextUsage, contextWindow, inputUsage, inputQuota } = session;
    const count = await tokens([...then, assistant(second)]);
    const usage = { start, before, contextUsage, contextWindow, inputUsage, inputQuota, count };
    return {
      first,
      second,
      expected: [await answer(engine, [user(FRANCE)]), await answer(engine, then)],
      pieces,
      usage,
    };
  });
  assert.deepEqual([first, second], expected);
  assert.ok(pieces.length > 1, `${pieces.length} pieces`);
  assert.equal(pieces.join(""), second);
  assert.equal(usage.start, 0);
  assert.ok(usage.before > 0 && usage.before < usage.contextUsage, JSON.stringify(usage));
  assert.equal(usage.contextUsage, usage.count);
  assert.equal(usage.contextWindow, 1024 - 128);
  assert.deepEqual([usage.inputUsage, usage.inputQuota], [usage.contextUsage, usage.contextWindow]);
});

test("initial prompts, what is appended and what is measured add up", async () => {
  const { usages, measures, answers } = await page.evaluate(async () => {
    const initialPrompts = [system("Be brief."), user("Hello"), assistant("Hello!")];
    const session = await create({ initialPrompts });
    const usages = [session.contextUsage];
    const measures = [];
    for (const input of ["The fox is red.", [user("It has a friend."), assistant("Who is it?")]]) {
      measures.push(await session.measureContextUsage(input));
      await session.append(input);
      usages.push(session.contextUsage);
    }
    const said = [...initialPrompts, user("The fox is red."), user("It has a friend."), assistant("Who is it?")];
    const text = await session.prompt("Who is it?");
    const measured = await session.measureInputUsage("a", { responseConstraint: { type: "string" } });
    const omitted = { responseConstraint: { type: "string" }, omitResponseConstraintInput: true };
    measures.push(measured - (await session.measureContextUsage("a", omitted)));
    return { usages, measures, answers: [text, await answer(engine, [...said, user("Who is it?")])] };
  });
  assert.ok(usages[0] > 0);
  assert.deepEqual([usages[1] - usages[0], usages[2] - usages[1]], measures.slice(0, 2));
  assert.ok(measures[2] > 10, "the schema is given to the model unless that is omitted");
  assert.equal(answers[0], answers[1]);
});

test("a clone goes its own way, and does not compute again what both begin with", async () => {
  const found = await page.evaluate(async () => {
    const initialPrompts = [system("You are a friendly and helpful assistant who likes foxes. ".repeat(6))];
    const session = await create({ initialPrompts });
    await session.prompt("Hello");
    const clone = await session.clone();
    const same = [clone.contextUsage === session.contextUsage, clone !== session];
    const { contextUsage } = clone;
    const before = await cached();
    const [a, b] = await Promise.all([session.prompt("Tell me of a fox."), clone.prompt(FRANCE)]);
    const hits = (await cached()) - before;
    clone.destroy();
    return { same, contextUsage, hits, apart: a !== b, alive: (await session.prompt("Hi")).length > 0 };
  });
  assert.deepEqual(found.same, [true, true]);
  assert.ok(found.apart && found.alive);
  // Each has all blocks of 16 tokens before its own turn.
  assert.ok(found.hits >= 2 * (found.contextUsage - 32), `${found.hits} of 2 × ${found.contextUsage} tokens`);
});

test("where a prompt does not fit, the oldest turns go, and the initial prompts stay", async () => {
  const found = await page.evaluate(async () => {
    const initialPrompts = [system("Be brief.")];
    const session = await create({ initialPrompts });
    const events = [];
    session.addEventListener("contextoverflow", ({ type }) => events.push(type));
    session.onquotaoverflow = ({ type, target }) => events.push(type, target === session);
    const turns = ["one", "two", "three"].map((word) => `${word} `.repeat(60));
    const usages = [];
    for (const turn of turns) {
      await session.append(turn);
      usages.push(session.contextUsage);
    }
    const quiet = events.length;
    // As much as fits after one turn is gone.
    const room = session.contextWindow - session.contextUsage + (usages[1] - usages[0]) - 40;
    const each =
      (await session.measureContextUsage("word ".repeat(101))) - (await session.measureContextUsage("word "));
    const long = "word ".repeat(Math.floor((room * 100) / each));
    await session.append(long);
    const kept = [...initialPrompts, user(turns[1]), user(turns[2]), user(long)];
    const [usage, count] = [session.contextUsage, await tokens(kept)];
    const { contextWindow } = session;
    const text = await session.prompt("Hello");
    return { quiet, events, usage, count, contextWindow, text, last: session.contextUsage };
  });
  assert.equal(found.quiet, 0);
  assert.deepEqual(found.events.slice(0, 3), ["contextoverflow", "quotaoverflow", true]);
  assert.equal(found.usage, found.count);
  assert.ok(found.usage <= found.contextWindow, JSON.stringify(found));
  assert.ok(found.text.length > 0);
});

test("what the system says by append() is not forgotten either", async () => {
  const found = await page.evaluate(async () => {
    const session = await create();
    await session.append([system("Be brief."), user("one ".repeat(60))]);
    const each =
      (await session.measureContextUsage("word ".repeat(101))) - (await session.measureContextUsage("word "));
    const long = "word ".repeat(Math.floor(((session.contextWindow - session.contextUsage) * 100) / each));
    const overflow = new Promise((resolve) => session.addEventListener("contextoverflow", resolve, { once: true }));
    await Promise.all([overflow, session.append(long)]);
    return { usage: session.contextUsage, count: await tokens([system("Be brief."), user(long)]) };
  });
  assert.equal(found.usage, found.count);
});

test("a prompt that cannot fit fails with QuotaExceededError, and nothing is forgotten", async () => {
  const found = await page.evaluate(async () => {
    const session = await create();
    await session.prompt(FRANCE);
    const { contextUsage } = session;
    const error = await session.prompt("word ".repeat(2000)).catch((error) => error);
    const initial = await create({ initialPrompts: [system("word ".repeat(2000))] }).catch((error) => error);
    const told = ({ name, quota, requested }) => ({ name, quota, requested });
    return { errors: [told(error), told(initial)], same: session.contextUsage === contextUsage };
  });
  for (const { name, quota, requested } of found.errors) {
    assert.equal(name, "QuotaExceededError");
    assert.equal(quota, 896);
    assert.ok(requested > 1000, `${requested}`);
  }
  assert.equal(found.same, true);
});

test("answers keep to a schema or a regular expression", async () => {
  const found = await page.evaluate(async () => {
    const session = await model.create({ temperature: 1 });
    const schema = {
      type: "object",
      properties: { rating: { type: "integer", minimum: 0, maximum: 5 } },
      required: ["rating"],
      additionalProperties: false,
    };
    const json = JSON.parse(await session.prompt("How good is it?", { responseConstraint: schema }));
    const texts = [];
    const frame = document.createElement("iframe");
    document.body.append(frame);
    const { RegExp: Framed } = /** @type {any} */ (frame.contentWindow);
    const patterns = [/^(fox|cat)-\d{3}$/, /[A-C][[\w]{2}\/(?:x|y)/i, /^a\$$/, /^[a&&b]{4}$/g, new Framed("^[xy]{5}$")];
    for (const responseConstraint of patterns) {
      const options = { responseConstraint, omitResponseConstraintInput: true };
      texts.push(await session.prompt("A name, please.", options));
    }
    const matches = texts.map((text, i) =>
      new RegExp(patterns[i].source, patterns[i].flags.replace("g", "")).test(text),
    );
    const prompt = (responseConstraint, more) => reason(session.prompt("a", { responseConstraint, ...more }));
    const lookbehind = /(?<=a)b/;
    const wrong = [
      await prompt({ type: 5 }),
      await prompt(lookbehind),
      await prompt("object"),
      await prompt(undefined, { omitResponseConstraintInput: true }),
    ];
    // With little more room than what is kept for answers.
    const narrow = await create({ initialPrompts: [system("word ".repeat(200))] });
    const each = narrow.contextUsage / 200;
    await narrow.append("word ".repeat((narrow.contextWindow - narrow.contextUsage) / each - 20));
    const responseConstraint = { type: "string", minLength: 1000 };
    const options = { responseConstraint, omitResponseConstraintInput: true };
    wrong.push(await reason(narrow.prompt("a", options)));
    return { json, texts, matches, wrong };
  });
  assert.ok(Number.isInteger(found.json.rating) && found.json.rating >= 0 && found.json.rating <= 5);
  assert.deepEqual(found.matches, [true, true, true, true, true], JSON.stringify(found.texts));
  assert.match(found.texts[0], /^(fox|cat)-[0-9]{3}$/);
  assert.deepEqual(
    found.wrong.map(({ name, dom }) => [name, dom]),
    [
      ["NotSupportedError", true],
      ["NotSupportedError", true],
      ["TypeError", false],
      ["TypeError", false],
      ["SyntaxError", true],
    ],
    JSON.stringify(found.wrong),
  );
});

test("a prefix is gone on with, and remembered as one message", async () => {
  const found = await page.evaluate(async () => {
    const session = await create();
    const whole = await answer(engine, [user(FRANCE)]);
    const prefix = whole.slice(0, 6);
    const rest = await session.prompt([user(FRANCE), { role: "assistant", content: prefix, prefix: true }]);
    const usage = await tokens([user(FRANCE), assistant(prefix + rest)]);
    // Without `prefix` the assistant speaks again.
    const other = await create();
    const again = await other.prompt([user(FRANCE), assistant(prefix)]);
    const continue_final_message = false;
    const request = { messages: [user(FRANCE), assistant(prefix)], temperature: 0, continue_final_message };
    const { choices } = await engine.chat.completions.create(request);
    return { whole, rest, prefix, usages: [session.contextUsage, usage], again, expected: choices[0].message.content };
  });
  assert.ok(found.rest.length > 0);
  assert.equal(found.usages[0], found.usages[1]);
  assert.equal(found.again, found.expected);
});

test("calls of tools and their results are written and counted as the engine's own API has them", async () => {
  const found = await page.evaluate(async () => {
    const [name, description] = ["weather", "The weather of a city."];
    const inputSchema = { type: "object", properties: { city: { type: "string" } } };
    class LanguageModelToolCall {
      callId = "a";
      name = name;
      arguments = { city: "Rome" };
      get [Symbol.toStringTag]() {
        return "LanguageModelToolCall";
      }
    }
    class LanguageModelToolSuccess {
      callId = "a";
      name = name;
      result = [{ type: "text", value: "25 degrees" }];
      get [Symbol.toStringTag]() {
        return "LanguageModelToolSuccess";
      }
    }
    const session = await create({
      expectedInputs: [{ type: "tool-call" }, { type: "tool-response" }],
      expectedOutputs: [{ type: "tool-call" }],
      tools: [{ name, description, inputSchema }],
      initialPrompts: [
        user("How is Rome?"),
        assistant([{ type: "tool-call", value: new LanguageModelToolCall() }]),
        user([{ type: "tool-response", value: new LanguageModelToolSuccess() }]),
      ],
    });
    const call = { id: "a", type: "function", function: { name, arguments: '{"city":"Rome"}' } };
    const messages = [
      user("How is Rome?"),
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "a", content: "25 degrees" },
    ];
    const tools = [{ type: "function", function: { name, description, parameters: inputSchema } }];
    const usages = [session.contextUsage, await engine.countTokens(messages, { addGenerationPrompt: false, tools })];
    const bare = await engine.countTokens(messages, { addGenerationPrompt: false });
    const request = { messages: [...messages, user("And Paris?")], tools, temperature: 0 };
    const { choices } = await engine.chat.completions.create(request);
    const [{ type, value }] = await session.prompt("And Paris?");
    return { usages, bare, answer: [type, value], expected: ["text", choices[0].message.content] };
  });
  assert.equal(found.usages[0], found.usages[1]);
  assert.ok(found.usages[0] > found.bare);
  assert.deepEqual(found.answer, found.expected);
});

test("what the engine calls is executed, and it answers with what that gave", async () => {
  const found = await page.evaluate(async () => {
    const { completions } = engine.chat;
    const { create: asIs } = completions;
    const requests = [];
    // The small model calls a tool where it must, and would go on to.
    completions.create = async (request, options) => {
      if (!request.stream) return asIs(request, options);
      const tool_choice = requests.length === 0 ? "required" : "none";
      requests.push({ ...request, tool_choice });
      return asIs(requests.at(-1), options);
    };
    const given = [];
    const tool = {
      name: "weather",
      description: "Tells the weather.",
      inputSchema: {
        type: "object",
        properties: { city: { enum: ["Paris", "Rome"] } },
        required: ["city"],
        additionalProperties: false,
      },
      execute: async (call) => {
        given.push(call);
        return "It is 21 degrees.";
      },
    };
    const session = await create({ tools: [tool] });
    const pieces = [];
    try {
      for await (const piece of session.promptStreaming("Is it warm in Paris?")) pieces.push(piece);
    } finally {
      completions.create = asIs;
    }
    const [, second] = requests;
    const { choices } = await engine.chat.completions.create({ ...second, stream: false });
    return { given, count: requests.length, roles: second.messages.map(({ role }) => role), pieces, choices };
  });
  assert.ok(found.given.length >= 1 && found.given.every(({ city }) => ["Paris", "Rome"].includes(city)));
  assert.equal(found.count, 2);
  assert.deepEqual(found.roles.slice(0, 3), ["user", "assistant", "tool"]);
  assert.ok(found.pieces.length > 1);
  assert.equal(found.pieces.join(""), found.choices[0].message.content);
});

test("input that the API has no place for fails with its errors", async () => {
  const found = await page.evaluate(async () => {
    const session = await create();
    const used = await create({ initialPrompts: [user("a"), assistant("b")] });
    const prefixed = (role) => ({ role, content: "a", prefix: true });
    const part = (type, value) => [{ role: "user", content: [{ type, value }] }];
    return Promise.all(
      [
        session.prompt([prefixed("user")]),
        session.prompt([prefixed("assistant"), user("a")]),
        session.prompt([user("a"), system("b")]),
        used.prompt([system("b")]),
        session.prompt([{ role: "robot", content: "a" }]),
        session.prompt(part("image", new Blob())),
        session.prompt(part("smell", "a")),
        session.prompt(part("text", new Uint8Array(8))),
        session.append(part("audio", new ArrayBuffer(8))),
        session.measureContextUsage(part("audio", new ArrayBuffer(8))),
        create({ initialPrompts: [user("a"), system("b")] }),
        create({ expectedInputs: [{ type: "image" }] }),
        create({ expectedOutputs: [{ type: "text", languages: ["no language"] }] }),
        create({ responseConstraint: {}, expectedOutputs: [{ type: "tool-response" }] }),
        create({ temperature: -1 }),
        create({ temperature: NaN }),
        create({ topK: 0.5 }),
        create({ samplingMode: null }),
        model.create({ samplingMode: "wild" }),
        create({ signal: AbortSignal.abort("early") }),
        create({
          monitor() {
            throw new RangeError("mine");
          },
        }),
      ].map(reason),
    );
  });
  assert.deepEqual(
    found.map(({ name, dom }) => [name, dom]),
    [
      ["SyntaxError", true],
      ["SyntaxError", true],
      ["TypeError", false],
      ["TypeError", false],
      ["TypeError", false],
      ["NotSupportedError", true],
      ["TypeError", false],
      ["TypeError", false],
      ["NotSupportedError", true],
      ["NotSupportedError", true],
      ["TypeError", false],
      ["NotSupportedError", true],
      ["RangeError", false],
      ["NotSupportedError", true],
      ["RangeError", false],
      ["RangeError", false],
      ["RangeError", false],
      ["TypeError", false],
      ["TypeError", false],
      ["early", false],
      ["RangeError", false],
    ],
    JSON.stringify(found),
  );
});

test("what is available is reported, and how far the download is", async () => {
  const found = await page.evaluate(async () => {
    const text = [{ type: "text", languages: ["en", "ja"] }];
    const steps = [];
    const monitor = (target) =>
      target.addEventListener("downloadprogress", ({ loaded, total }) => steps.push(loaded / total));
    const { samplingMode } = await model.create({ monitor, samplingMode: "most-predictable" });
    const { temperature, topK } = await model.create({ temperature: Infinity, topK: 3.7 });
    return {
      told: [
        await model.availability(),
        await model.availability({ expectedInputs: text, expectedOutputs: text }),
        await model.availability({ expectedInputs: [{ type: "image" }] }),
        (await reason(model.availability({ expectedInputs: [{ type: "text", languages: ["-"] }] }))).name,
      ],
      steps,
      sampling: [samplingMode, temperature, topK],
    };
  });
  assert.deepEqual(found.told, ["available", "available", "unavailable", "RangeError"]);
  assert.deepEqual(found.steps, [0, 1]);
  assert.deepEqual(found.sampling, ["most-predictable", 2, 3]);
});

test("prompts are answered in order, and one that is aborted leaves no trace", async () => {
  const found = await page.evaluate(async () => {
    const session = await create();
    const first = session.prompt(FRANCE);
    const queued = new AbortController();
    const second = reason(session.prompt("Tell me a story.", { signal: queued.signal }));
    const third = session.prompt("And of Italy?");
    queued.abort();
    const texts = [await first, await third];
    const said = [user(FRANCE), assistant(texts[0]), user("And of Italy?")];

    const { contextUsage } = session;
    const before = await aborted();
    const long = { responseConstraint: /[a-z]{400}/, omitResponseConstraintInput: true };
    const controller = new AbortController();
    const read = session.promptStreaming("a", { signal: controller.signal, ...long }).getReader();
    await read.read();
    controller.abort("enough");
    const told = await reason(
      (async () => {
        while (!(await read.read()).done);
      })(),
    );
    const left = session.promptStreaming("a", long).getReader();
    await left.read();
    await left.cancel();
    for (let i = 0; i < 300 && (await aborted()) < before + 2; i++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const ended = (await aborted()) - before;
    const after = await session.prompt("Hello");
    const expected = await answer(engine, [...said, assistant(texts[1]), user("Hello")]);
    return {
      texts,
      second: await second,
      expected: await answer(engine, said),
      told,
      ended,
      after: [after, expected],
      grew: session.contextUsage > contextUsage,
    };
  });
  assert.equal(found.second.name, "AbortError");
  assert.equal(found.texts[1], found.expected);
  assert.equal(found.told.name, "enough");
  assert.equal(found.ended, 2);
  assert.equal(found.after[0], found.after[1]);
  assert.equal(found.grew, true);
});

test("a session that is destroyed, or whose signal is aborted, answers no more", async () => {
  const found = await page.evaluate(async () => {
    const session = await create();
    const running = reason(session.prompt("Tell me a story."));
    const stream = session.promptStreaming("a").getReader();
    session.destroy();
    session.destroy();
    const controller = new AbortController();
    const other = await create({ signal: controller.signal });
    controller.abort(new DOMException("mine", "TimeoutError"));
    const names = [
      await running,
      await reason(stream.read()),
      await reason(session.prompt("a")),
      await reason(session.append("a")),
      await reason(session.clone()),
      await reason(session.measureContextUsage("a")),
      await reason(other.prompt("a")),
    ].map(({ name }) => name);
    return names;
  });
  assert.deepEqual(found, [...Array(6).fill("AbortError"), "TimeoutError"]);
});
