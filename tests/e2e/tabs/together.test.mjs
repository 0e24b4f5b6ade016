// Tabs that chat at once share one host, one copy of the weights and one batch, and get the answers
// they would get alone.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ENDLESS, FRANCE, open, SHARING, STORY, text } from "./tabs.mjs";

/**
 * Answers of about the same length, of which tabs take one each: greedy and by seed. Nothing is
 * drafted, so that a step with several rows is one of several tabs.
 */
const REQUESTS = [
  STORY.params,
  ...[1, 2, 3, 4, 5, 6, 7].map((seed) => ({
    ...STORY.params,
    temperature: 1.2,
    seed,
    ignore_eos: true,
    max_tokens: 80,
  })),
].map((request) => ({ ...request, speculative_decoding: false }));

let session;
/** What each request gets alone, and what the GPU holds then. */
let expected;
let memory;

before(async () => {
  session = await open({}, { device: "gpu" });
  const visitor = await session.visitor();
  const [tab] = await visitor.tabs(1, { host: "private" });
  expected = [];
  for (const request of REQUESTS) expected.push(await tab.ask(request));
  assert.equal(text(expected[0]), STORY.answer);
  [memory] = await tab.hosts();
  assert.ok(memory.bytes > 16 << 20, `${memory.bytes} bytes are less than keys and values take`);
  await visitor.close();
});

after(() => session?.close());

for (const rung of SHARING) {
  describe(`${rung}:`, () => {
    let visitor;
    let tabs;

    before(async () => {
      visitor = await session.visitor();
      tabs = await visitor.tabs(1, { host: rung });
    });

    after(() => visitor?.close());

    for (const count of [2, 8]) {
      test(`${count} tabs chat at once`, async () => {
        tabs.push(...(await visitor.tabs(count - tabs.length, { host: rung })));
        for (const tab of tabs) assert.equal(await tab.rung(), rung);
        const [watcher] = tabs;
        let [steps, tokens] = [0, 0];
        // Where other work keeps the processors busy, one tab may have its answer before another asks.
        for (let round = 0; round < 5 && steps < 10; round++) {
          const polling = await watcher.page.evaluateHandle(() => ({ stop: poll() }));
          await Promise.all(tabs.map((tab, i) => tab.begin("answer", REQUESTS[i])));
          const answers = await Promise.all(tabs.map((tab) => tab.answer("answer")));
          const samples = await polling.evaluate(({ stop }) => stop());
          assert.deepEqual(answers, expected.slice(0, count));

          // While all run, a step has a row of each.
          const all = samples.filter(({ metrics }) => metrics.num_requests_running === count);
          if (all.length === 0) continue;
          const [first, last] = [all[0].metrics, all.at(-1).metrics];
          steps = last.steps - first.steps;
          tokens = last.generation_tokens - first.generation_tokens;
        }
        assert.ok(steps >= 10, `all ran at once in ${steps} steps`);
        // The last to begin may have been let in within the first step.
        assert.ok(tokens >= (steps - 1) * count, `${tokens} tokens in ${steps} steps`);

        const metrics = await watcher.metrics();
        assert.equal(metrics.host.tabs.length, count);
        assert.equal(metrics.host.tabs.filter(({ you }) => you).length, 1);
        const [model, ...others] = metrics.host.models;
        assert.deepEqual(others, []);
        assert.equal(model.url, `${visitor.url}model/`);
        assert.equal(model.tabs, count);
        assert.ok(metrics.host.used_bytes <= metrics.host.budget_bytes);
      });

      test(`${count} tabs have one host with one copy of the weights`, async () => {
        const hosts = await tabs[0].hosts();
        assert.equal(hosts.length, 1);
        const { devices, buffers, bytes } = hosts[0];
        const alone = { devices: memory.devices, buffers: memory.buffers, bytes: memory.bytes };
        assert.deepEqual({ devices, buffers, bytes }, alone);
      });
    }

    test("an engine that is closed leaves the others alone", async () => {
      const closed = tabs.pop();
      await closed.begin("answer", ENDLESS);
      await tabs[0].begin("answer", STORY.params);
      await closed.pieces("answer", 1);
      await closed.run("close", () => engine.close());
      const { error } = await closed.stream("answer");
      assert.equal(error.code, "closed");
      assert.equal(text(await tabs[0].answer("answer")), STORY.answer);
      assert.equal((await tabs[0].metrics()).host.tabs.length, tabs.length);
      const failed = await closed.run(
        "call",
        (params) => failure(engine.chat.completions.create(params)),
        FRANCE.params,
      );
      assert.equal(failed.code, "closed");
    });
  });
}
