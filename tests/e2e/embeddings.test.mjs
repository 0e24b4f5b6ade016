// Embeddings as a page asks for them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { DEVICE, openPackage } from "./package.mjs";

/** What transformers makes of texts with the built-in model's weights. */
const { texts } = JSON.parse(readFileSync(new URL("../goldens/embeddings.json", import.meta.url), "utf8"));
const input = texts.map(({ text }) => text);

let session;
let page;

before(async () => {
  session = await openPackage();
  page = session.page;
  await page.evaluate(async (device) => {
    globalThis.engine = await Engine.load("model/", { device });
  }, DEVICE);
});

after(() => session?.close());

const create = (params) => page.evaluate((params) => engine.embeddings.create(params), params);

function assertClose(found, expected) {
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const error = sum(expected.map((v, i) => (v - found[i]) ** 2)) / sum(expected.map((v) => v ** 2));
  assert.equal(found.length, expected.length);
  assert.ok(error <= 1e-5, `NMSE ${error}`);
}

test("texts become the vectors of the reference, beside an answer", async () => {
  const responses = await page.evaluate(async (input) => {
    const messages = [{ role: "user", content: "Hello!" }];
    const answering = engine.chat.completions.create({ messages, max_tokens: 8 });
    const poolings = [{}, { pooling: "last" }, { pooling: "mean" }];
    const asked = poolings.map((pooling) => engine.embeddings.create({ input, ...pooling }));
    const responses = await Promise.all(asked);
    await answering;
    return responses;
  }, input);
  for (const [i, pooling] of ["last", "last", "mean"].entries()) {
    const { object, data, model, usage } = responses[i];
    const prompt_tokens = texts.reduce((sum, { tokens }) => sum + tokens, 0);
    assert.equal(object, "list");
    assert.match(model, /\/model\/$/);
    assert.deepEqual(usage, { prompt_tokens, total_tokens: prompt_tokens });
    assert.equal(data.length, texts.length);
    for (const [index, item] of data.entries()) {
      assert.deepEqual([item.object, item.index], ["embedding", index]);
      assertClose(item.embedding, texts[index][pooling]);
    }
  }
});

test("base64 holds the same floats", async () => {
  const { data } = await create({ input: input[0], encoding_format: "base64", pooling: "mean" });
  const bytes = Uint8Array.from(Buffer.from(data[0].embedding, "base64"));
  assertClose([...new Float32Array(bytes.buffer)], texts[0].mean);
});

test("what cannot be embedded is refused by name, and an abort ends the rest", async () => {
  const failures = await page.evaluate(async (input) => {
    const controller = new AbortController();
    const many = Array.from({ length: 200 }, () => input[0]);
    const aborted = engine.embeddings.create({ input: many }, controller);
    controller.abort(new Error("changed my mind"));
    const asked = [
      { input: ["a", ""] },
      { input: [[1], [2048]] },
      { input: Array.from({ length: 1024 }, () => 5) },
      { input: "a", dimensions: 8 },
      { input: { text: "a" } },
    ].map((params) => engine.embeddings.create(params));
    return Promise.all([aborted, ...asked].map(failure));
  }, input);
  assert.equal(failures.shift().message, "changed my mind");
  const params = ["input[1]", "input[1]", "input[0]", "dimensions", "input"];
  for (const [i, { typed, code, param, message }] of failures.entries()) {
    assert.ok(typed, message);
    assert.equal(code, "invalid_request");
    assert.equal(param, params[i], message);
  }
  const { num_requests_running, num_requests_waiting } = await page.evaluate(() => engine.metrics());
  assert.deepEqual([num_requests_running, num_requests_waiting], [0, 0]);
});
