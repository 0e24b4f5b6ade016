// The Vercel AI SDK over `engine.fetch`.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openClients } from "./bundled-clients.mjs";

let session;
let page;

before(async () => {
  session = await openClients("ai-sdk-page.mjs");
  page = session.page;
});

after(() => session?.close());

const FRANCE = "What is the capital of France?";

/** A test by each version of the SDK. */
function byEach(title, check) {
  for (const version of [6, 7]) {
    test(`version ${version}: ${title}`, async () => {
      await page.evaluate((version) => {
        globalThis.sdk = clients.sdk(engine, version);
      }, version);
      await check();
    });
  }
}

byEach("generateText gives the engine's answer, with its usage", async () => {
  const { text, finishReason, usage, expected } = await page.evaluate(async (prompt) => {
    const { text, finishReason, usage } = await sdk.generateText({ prompt });
    return { text, finishReason, usage, expected: await answer(engine, [{ role: "user", content: prompt }]) };
  }, FRANCE);
  assert.equal(text, expected);
  assert.equal(finishReason, "stop");
  assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0, JSON.stringify(usage));
});

byEach("streamText gives it in pieces, and can be aborted", async () => {
  const { pieces, reason, whole, aborts } = await page.evaluate(async (prompt) => {
    const streamed = sdk.streamText({ prompt });
    const pieces = [];
    for await (const piece of streamed.textStream) pieces.push(piece);
    const { text: whole } = await sdk.generateText({ prompt });

    const aborted = async () => (await engine.metrics()).request_success.abort;
    const before = await aborted();
    const controller = new AbortController();
    const { textStream } = sdk.streamText({
      prompt: "Tell me a story.",
      abortSignal: controller.signal,
      providerOptions: { tabloom: { ignore_eos: true } },
      maxOutputTokens: 900,
    });
    for await (const _ of textStream) controller.abort();
    for (let i = 0; i < 300 && (await aborted()) === before; i++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return { pieces, reason: await streamed.finishReason, whole, aborts: (await aborted()) - before };
  }, FRANCE);
  assert.ok(pieces.length > 1, `${pieces.length} pieces`);
  assert.equal(pieces.join(""), whole);
  assert.equal(reason, "stop");
  assert.equal(aborts, 1);
});

byEach("tools are called with valid arguments, and their results answered", async () => {
  const { calls, steps, text, streamed } = await page.evaluate(async () => {
    const calls = [];
    const inputSchema = sdk.jsonSchema({
      type: "object",
      properties: { city: { enum: ["Paris", "Rome"] } },
      required: ["city"],
      additionalProperties: false,
    });
    const execute = async (input) => {
      calls.push(input);
      return { degrees: 21 };
    };
    const tools = { weather: sdk.tool({ description: "Tells the weather.", inputSchema, execute }) };
    const ask = {
      prompt: "Is it warm in Paris?",
      tools,
      maxOutputTokens: 120,
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
      stopWhen: sdk.stepCountIs(2),
    };
    const { steps, text } = await sdk.generateText(ask);
    const streamed = [];
    for await (const part of sdk.streamText(ask).fullStream) {
      if (part.type === "tool-call") streamed.push([part.toolName, part.input]);
      if (part.type === "error") throw part.error;
    }
    const { prompt, ...settings } = ask;
    await new sdk.ToolLoopAgent({ model: sdk.model, instructions: "Be brief.", ...settings }).generate({ prompt });
    return { calls, steps: steps.map(({ finishReason }) => finishReason), text, streamed };
  });
  assert.equal(calls.length, 3);
  for (const { city, ...rest } of [...calls, streamed[0][1]]) {
    assert.ok(["Paris", "Rome"].includes(city), city);
    assert.deepEqual(rest, {});
  }
  assert.deepEqual([streamed.length, streamed[0][0]], [1, "weather"]);
  assert.equal(steps[0], "tool-calls");
  assert.equal(steps.length, 2);
  assert.ok(text.length > 0);
});

byEach("objects keep to the schema", async () => {
  const objects = await page.evaluate(async () => {
    const schema = sdk.jsonSchema({
      type: "object",
      properties: { animal: { enum: ["fox", "cat"] }, legs: { type: "integer", minimum: 0, maximum: 9 } },
      required: ["animal", "legs"],
      additionalProperties: false,
    });
    const ask = { schema, schemaName: "animal", prompt: "Tell me of an animal.", temperature: 1 };
    const objects = [];
    for (const seed of [1, 2]) objects.push((await sdk.generateObject({ ...ask, seed })).object);
    const partial = [];
    const { partialObjectStream } = sdk.streamObject({ ...ask, seed: 3 });
    for await (const object of partialObjectStream) partial.push(object);
    objects.push(partial.at(-1));

    const { prompt, temperature } = ask;
    const settings = { output: sdk.Output.object({ schema, name: "animal" }), prompt, temperature };
    objects.push((await sdk.generateText({ ...settings, seed: 1 })).output);
    const { partialOutputStream } = sdk.streamText({ ...settings, seed: 3 });
    for await (const object of partialOutputStream) partial.push(object);
    return [...objects, partial.at(-1)];
  });
  assert.equal(objects.length, 5);
  for (const { animal, legs, ...rest } of objects) {
    assert.ok(["fox", "cat"].includes(animal), animal);
    assert.ok(Number.isInteger(legs) && legs >= 0 && legs <= 9, `${legs}`);
    assert.deepEqual(rest, {});
  }
});

byEach("OpenAI's provider goes on with a conversation, by either of its APIs", async () => {
  const { texts, refused } = await page.evaluate(async (prompt) => {
    const first = { role: "user", content: prompt };
    const ask = async (model, providerOptions) => {
      const settings = { model, providerOptions };
      const { text, response } = await sdk.generateText({ ...settings, messages: [first] });
      const messages = [first, ...response.messages, { role: "user", content: "Tell me a story." }];
      const { text: next } = await sdk.generateText({ ...settings, messages, maxOutputTokens: 20 });
      return [text, next];
    };
    const texts = await Promise.all([
      ask(sdk.openai.chat(sdk.name)),
      ask(sdk.openai(sdk.name), { openai: { store: false } }),
    ]);
    const refused = await failure(ask(sdk.openai(sdk.name)));
    return { texts, refused: refused.message };
  }, FRANCE);
  const [chat, responses] = texts;
  assert.deepEqual(chat, responses);
  assert.ok(chat.every(Boolean));
  assert.match(refused, /item_reference.*store: false/);
});

byEach("errors are the SDK's own", async () => {
  const found = await page.evaluate(async () => {
    const failed = (promise) =>
      promise.then(
        () => null,
        (error) => error,
      );
    const hot = await failed(sdk.generateText({ prompt: "a", temperature: 9 }));
    return { typed: sdk.APICallError.isInstance(hot), status: hot.statusCode, message: hot.message };
  });
  assert.deepEqual([found.typed, found.status], [true, 400]);
  assert.match(found.message, /temperature/);
});
