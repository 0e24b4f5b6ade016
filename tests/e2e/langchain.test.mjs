// LangChain.js over `engine.fetch`.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openClients } from "./bundled-clients.mjs";

let session;
let page;
const requests = [];

before(async () => {
  session = await openClients("langchain-page.mjs");
  page = session.page;
  page.on("request", (request) => requests.push(request.url()));
  await page.evaluate(() => {
    globalThis.lc = clients.langchain(engine);
  });
});

after(() => session?.close());

const FRANCE = "What is the capital of France?";

/** The two APIs that the class speaks, by the field that chooses. */
const APIS = { "chat completions": false, responses: true };

for (const [api, useResponsesApi] of Object.entries(APIS)) {
  test(`${api}: invoke gives the engine's answer, with its usage`, async () => {
    const { text, content, usage, expected } = await page.evaluate(
      async ([useResponsesApi, question]) => {
        const { text, content, usage_metadata: usage } = await lc.chat({ useResponsesApi }).invoke(question);
        return { text, content, usage, expected: await answer(engine, [{ role: "user", content: question }]) };
      },
      [useResponsesApi, FRANCE],
    );
    assert.equal(text, expected);
    if (!useResponsesApi) assert.equal(content, expected);
    const { input_tokens, output_tokens, total_tokens } = usage;
    assert.ok(input_tokens > 0 && output_tokens > 0, JSON.stringify(usage));
    assert.equal(total_tokens, input_tokens + output_tokens);
  });

  test(`${api}: stream gives it in pieces, and can be left or aborted`, async () => {
    const { pieces, usage, whole, aborts } = await page.evaluate(
      async ([useResponsesApi, question]) => {
        const chat = lc.chat({ useResponsesApi });
        const pieces = [];
        let sum;
        for await (const chunk of await chat.stream(question)) {
          if (chunk.text) pieces.push(chunk.text);
          sum = sum?.concat(chunk) ?? chunk;
        }
        const { text: whole } = await chat.invoke(question);

        const aborted = async () => (await engine.metrics()).request_success.abort;
        const gone = async (count) => {
          for (let i = 0; i < 300 && (await aborted()) < count; i++) {
            await new Promise((resolve) => setTimeout(resolve, 100));
          }
        };
        const before = await aborted();
        const endless = lc.chat({ useResponsesApi, maxTokens: 900, modelKwargs: { ignore_eos: true } });
        for await (const { text } of await endless.stream("Tell me a story.")) if (text) break;
        await gone(before + 1);
        const controller = new AbortController();
        const { signal } = controller;
        const read = async () => {
          for await (const { text } of await endless.stream("Tell me a story.", { signal })) {
            if (text) controller.abort();
          }
        };
        await read().catch(() => {});
        await gone(before + 2);
        return { pieces, usage: sum.usage_metadata, whole, aborts: (await aborted()) - before };
      },
      [useResponsesApi, FRANCE],
    );
    assert.ok(pieces.length > 1, `${pieces.length} pieces`);
    assert.equal(pieces.join(""), whole);
    assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0, JSON.stringify(usage));
    assert.equal(aborts, 2);
  });

  test(`${api}: bound tools are called with valid arguments, and their results answered`, async () => {
    const { call, streamed, called, answer } = await page.evaluate(async (useResponsesApi) => {
      const called = [];
      const weather = lc.weather(called);
      const chat = lc.chat({ useResponsesApi, maxTokens: 120 });
      const calling = chat.bindTools([weather], { tool_choice: "weather" });
      const messages = [new lc.HumanMessage("Is it warm in Paris?")];
      const asked = await calling.invoke(messages);
      let streamed;
      for await (const chunk of await calling.stream(messages)) streamed = streamed?.concat(chunk) ?? chunk;
      const [call] = asked.tool_calls;
      const result = await weather.invoke(call);
      const { text: answer } = await chat.bindTools([weather]).invoke([...messages, asked, result]);
      const plain = ({ name, args }) => ({ name, args });
      return { call: plain(call), streamed: streamed.tool_calls.map(plain), called, answer };
    }, useResponsesApi);
    assert.equal(call.name, "weather");
    assert.ok(["Paris", "Rome"].includes(call.args.city), JSON.stringify(call));
    assert.deepEqual(streamed, [call]);
    assert.deepEqual(called, [call.args.city]);
    assert.ok(answer.length > 0);
  });

  test(`${api}: an agent carries out its tools, and answers with what they gave`, async () => {
    const { cities, kinds, answer } = await page.evaluate(async (useResponsesApi) => {
      const cities = [];
      const weather = lc.weather(cities);
      // The built-in model calls no tool by itself.
      const call = { type: "function", function: { name: "weather" } };
      const first = lc.createMiddleware({
        name: "first",
        wrapModelCall: (request, ask) => ask(request.messages.length > 1 ? request : { ...request, toolChoice: call }),
      });
      const model = lc.chat({ useResponsesApi, maxTokens: 120 });
      const agent = lc.createAgent({ model, tools: [weather], systemPrompt: "Be brief.", middleware: [first] });
      const asked = [{ role: "user", content: "Is it warm in Paris?" }];
      const { messages } = await agent.invoke({ messages: asked });
      return { cities, kinds: messages.map(({ type }) => type), answer: messages.at(-1).text };
    }, useResponsesApi);
    assert.deepEqual(kinds, ["human", "ai", "tool", "ai"]);
    assert.ok(["Paris", "Rome"].includes(cities[0]) && cities.length === 1, `${cities}`);
    assert.ok(answer.length > 0);
  });

  test(`${api}: structured output keeps to the schema, whole and streamed`, async () => {
    const objects = await page.evaluate(async (useResponsesApi) => {
      const animal = lc.z.object({
        animal: lc.z.enum(["fox", "cat"]).describe("Which animal"),
        legs: lc.z.number().int().min(0).max(9),
      });
      const chat = lc.chat({ useResponsesApi, temperature: 1 });
      const question = "Tell me of an animal.";
      const objects = [];
      for (const method of ["jsonSchema", "functionCalling"]) {
        objects.push(await chat.withStructuredOutput(animal, { method, strict: true }).invoke(question));
      }
      const { parsed } = await chat.withStructuredOutput(animal, { name: "animal", includeRaw: true }).invoke(question);
      let last;
      for await (const object of await chat.withStructuredOutput(animal).stream(question)) last = object;
      return [...objects, parsed, last];
    }, useResponsesApi);
    assert.equal(objects.length, 4);
    for (const { animal, legs, ...rest } of objects) {
      assert.ok(["fox", "cat"].includes(animal), animal);
      assert.ok(Number.isInteger(legs) && legs >= 0 && legs <= 9, `${legs}`);
      assert.deepEqual(rest, {});
    }
  });
}

test("documents and queries are embedded", async () => {
  const { documents, query, expected } = await page.evaluate(async () => {
    const texts = ["A fox.", "A cat sits on a mat."];
    const documents = await lc.embeddings.embedDocuments(texts);
    const query = await lc.embeddings.embedQuery(texts[1]);
    const { data } = await engine.embeddings.create({ input: texts });
    return { documents, query, expected: data.map(({ embedding }) => [...embedding]) };
  });
  assert.equal(documents.length, 2);
  const close = (a, b) => a.length === b.length && a.every((value, i) => Math.abs(value - b[i]) < 1e-4);
  for (const [i, vector] of documents.entries()) assert.ok(close(vector, expected[i]), `${vector.slice(0, 4)}`);
  assert.ok(close(query, expected[1]));
});

test("errors say what was refused", async () => {
  const found = await page.evaluate(async () => {
    const error = await lc
      .chat({ temperature: 9 })
      .invoke("a")
      .catch((error) => error);
    return { status: error.status, param: error.param, message: error.message };
  });
  assert.deepEqual([found.status, found.param], [400, "temperature"]);
  assert.match(found.message, /temperature/);
});

test("nothing of this has left the page", () => {
  assert.deepEqual(
    requests.filter((address) => !address.startsWith(session.server.url)),
    [],
  );
});
