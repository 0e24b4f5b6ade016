// Speculative decoding as a page uses it: what is counted of draft tokens, and that answers are the same without.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { goldens, openPackage } from "./package.mjs";

const [FRANCE] = goldens;
/** The answer has been given before, so its tokens can be drafted. */
const messages = [...FRANCE.messages, { role: "assistant", content: FRANCE.answer }, ...FRANCE.messages];

let session;
let page;

before(async () => {
  session = await openPackage();
  page = session.page;
});

after(() => session?.close());

/** Runs in the page: streams an answer of an engine that was loaded with `options`. */
async function stream([options, params]) {
  globalThis.engines ??= {};
  const engine = (engines[JSON.stringify(options)] ??= await Engine.load("model/", options));
  const request = { temperature: 0, stream: true, stream_options: { include_usage: true }, ...params };
  const chunks = [];
  for await (const chunk of await engine.chat.completions.create(request)) chunks.push(chunk);
  const choices = chunks.flatMap((chunk) => chunk.choices);
  return {
    text: choices.map((choice) => choice.delta.content ?? "").join(""),
    drafted: choices.filter((choice) => choice.drafted),
    usage: chunks.at(-1).usage,
    metrics: await engine.metrics(),
  };
}

/** How many draft tokens an engine or a tab had, and their acceptance. */
function drafts(metrics) {
  const names = ["num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_accepted_tokens_per_pos"];
  return names.map((name) => metrics[`spec_decode_${name}`]);
}

const NONE = { accepted_prediction_tokens: 0, rejected_prediction_tokens: 0, reasoning_tokens: 0 };

test("a request without draft tokens gets none, and the same answer", async () => {
  const off = await page.evaluate(stream, [{}, { messages, speculative_decoding: false }]);
  assert.deepEqual(off.drafted, []);
  assert.deepEqual(off.usage.completion_tokens_details, NONE);
  assert.deepEqual(drafts(off.metrics), [0, 0, 0, Array(7).fill(0)]);

  // A new engine does not know what draft tokens cost, and tries them.
  const on = await page.evaluate(stream, [{}, { messages }]);
  assert.equal(on.text, off.text);
  assert.equal(on.usage.completion_tokens, off.usage.completion_tokens);
  const { accepted_prediction_tokens: accepted, rejected_prediction_tokens: rejected } =
    on.usage.completion_tokens_details;
  assert.ok(accepted > 0 && accepted < on.usage.completion_tokens, `${accepted} accepted`);
  assert.ok(on.drafted.length > 0 && on.drafted.length <= accepted, `${on.drafted.length} chunks`);
  assert.ok(on.drafted.every((choice) => choice.drafted === true && choice.delta.content));
  const [rounds, tokens, counted, places] = drafts(on.metrics);
  assert.ok(rounds > 0);
  assert.deepEqual([tokens, counted], [accepted + rejected, accepted]);
  assert.equal(
    places.reduce((a, b) => a + b),
    accepted,
  );
  const [own] = Object.values(on.metrics.tabs);
  assert.deepEqual(drafts(own), drafts(on.metrics));
  assert.ok(Number.isFinite(on.metrics.spec_decode_seconds_saved));
});

test("an engine drafts no further ahead than its page says", async () => {
  const expected = await page.evaluate(stream, [{}, { messages, speculative_decoding: false }]);
  for (const speculation of [false, { maxDrafts: 0 }]) {
    const { text, drafted, metrics } = await page.evaluate(stream, [{ speculation }, { messages }]);
    assert.equal(text, expected.text);
    assert.deepEqual(drafted, []);
    assert.equal(metrics.spec_decode_num_drafts, 0);
  }
  const few = await page.evaluate(stream, [{ speculation: { maxDrafts: 2 } }, { messages }]);
  assert.equal(few.text, expected.text);
  const [rounds, tokens, , places] = drafts(few.metrics);
  assert.ok(rounds > 0 && tokens <= 2 * rounds, `${tokens} draft tokens in ${rounds} rounds`);
  assert.deepEqual(places.slice(2), Array(5).fill(0));
});

test("a page says what drafts, and answers are the same", async () => {
  const load = async (draft) => {
    const options = { draft };
    const { text } = await page.evaluate(stream, [options, { messages }]);
    const info = await page.evaluate((options) => engines[JSON.stringify(options)].info, options);
    return { text, draft: info.draft };
  };
  const { text, draft } = await load(true);
  assert.ok(draft.weightBytes > 0);
  assert.deepEqual(await load("./model/draft"), { text, draft }, "the same head, at an address");
  assert.deepEqual(await load({ earlyExit: 2 }), { text, draft: { weightBytes: 0 } });
  assert.deepEqual(await load(false), { text, draft: null });
  for (const [wrong, expected] of /** @type {[string | object, RegExp][]} */ ([
    ["./nowhere/", /config\.json/],
    [{ earlyExit: 99 }, /found 99 layers/],
  ])) {
    const without = await load(wrong);
    assert.equal(without.text, text);
    assert.match(without.draft.error, expected);
  }
});
