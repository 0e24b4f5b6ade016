// Texts that are gone on with, tokens, and templates as a page asks for them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { goldens, openPackage } from "./package.mjs";

const [{ messages, answer, prompt_ids, answer_ids }] = goldens;

let session;
let page;

before(async () => {
  session = await openPackage();
  page = session.page;
  await page.evaluate(async () => {
    globalThis.engine = await Engine.load("model/", { device: "cpu" });
  });
});

after(() => session?.close());

test("a conversation that the page writes is answered as the chat is, whole and in a stream", async () => {
  const [text, whole, chunks] = await page.evaluate(async (messages) => {
    const prompt = await engine.applyChatTemplate(messages);
    const request = { prompt, temperature: 0, max_tokens: 60 };
    const whole = await engine.completions.create(request);
    const chunks = [];
    const stream = await engine.completions.create({ ...request, stream: true });
    for await (const chunk of stream) chunks.push(chunk);
    return [prompt, whole, chunks];
  }, messages);
  assert.match(text, /<\|im_start\|>user\n.+<\|im_end\|>\n<\|im_start\|>assistant\n$/s);
  assert.equal(whole.object, "text_completion");
  assert.equal(whole.choices[0].text, answer);
  assert.equal(whole.choices[0].finish_reason, "stop");
  assert.equal(whole.usage.completion_tokens, answer_ids.length);
  assert.ok(chunks.length > 3, `${chunks.length} chunks`);
  assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(""), answer);
});

test("several prompts are gone on with, and echoed with log-probabilities", async () => {
  const { choices } = await page.evaluate(async () => {
    const prompt = [await engine.tokenize("The fox"), [70, 71]];
    return engine.completions.create({ prompt, echo: true, logprobs: 1, max_tokens: 2 });
  });
  assert.deepEqual(
    choices.map((choice) => choice.index),
    [0, 1],
  );
  assert.ok(choices[0].text.startsWith("The fox"));
  assert.ok(choices[1].text.startsWith("de"));
  for (const { logprobs } of choices) {
    assert.equal(logprobs.token_logprobs[0], null);
    assert.ok(logprobs.token_logprobs.slice(1).every((value) => value <= 0));
    assert.ok(logprobs.tokens[1] in logprobs.top_logprobs[1]);
  }
});

test("texts and conversations become tokens, and tokens texts", async () => {
  const found = await page.evaluate(async (messages) => {
    const text = "A café 🙂";
    const tokens = await engine.tokenize(text);
    return {
      back: await engine.detokenize(tokens),
      counted: (await engine.countTokens(text)) === tokens.length,
      chat: await engine.tokenize(messages),
      open: await engine.tokenize(messages, { addGenerationPrompt: false }),
      written: await engine.tokenize(await engine.applyChatTemplate(messages)),
    };
  }, messages);
  assert.equal(found.back, "A café 🙂");
  assert.equal(found.counted, true);
  assert.deepEqual(found.chat, prompt_ids);
  assert.deepEqual(found.written, prompt_ids);
  assert.deepEqual(found.open, prompt_ids.slice(0, found.open.length));
  assert.ok(found.open.length < prompt_ids.length);
});

test("the model is listed, and what is wrong is named", async () => {
  const list = await page.evaluate(() => engine.models.list());
  assert.equal(list.object, "list");
  assert.match(list.data[0].id, /\/model\/$/);
  assert.equal(list.data[0].object, "model");
  const params = await page.evaluate(async () => {
    const failed = (asked) =>
      asked.then(
        () => null,
        (error) => [error.code, error.param],
      );
    return [
      await failed(engine.completions.create({ prompt: "" })),
      await failed(engine.completions.create({ prompt: "a", stream: true, logprobs: 9 })),
      await failed(engine.completions.create({ prompt: "word ".repeat(5000) })),
      await failed(engine.tokenize([{ role: "robot", content: "" }])),
      await failed(engine.detokenize([1, 999_999])),
    ];
  });
  assert.deepEqual(params, [
    ["invalid_request", "prompt"],
    ["invalid_request", "logprobs"],
    ["context_length_exceeded", "prompt"],
    ["invalid_request", "messages[0].role"],
    ["invalid_request", "tokens[1]"],
  ]);
});
