// Conversations for which the KV cache has no room: the worker keeps them, and they come back from there.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { open, STORY } from "./tabs.mjs";

/** Room for one conversation and a half, of 16 tokens in 16 KiB, and as much for the draft head. */
const kvBytes = 32 * 2 * 16 * 1024;

/** A conversation of some three hundred tokens about a topic of its own. */
const long = (topic) => ({
  messages: [{ role: "user", content: `${topic}. ${STORY.answer.repeat(4)} What did the fox learn?` }],
  temperature: 0,
  max_tokens: 8,
});

/** What the tab is answered, how many of the prompt's tokens were found in the cache, and when the answer began. */
const ask = (tab, topic) =>
  tab.run(
    "an answer",
    async (params) => {
      const [began, read] = [performance.now(), { answer: "", first: 0, prompt: 0, cached: 0 }];
      for await (const { choices, usage } of await engine.chat.completions.create(params)) {
        const piece = choices[0]?.delta.content ?? "";
        if (piece) read.first ||= Math.round(performance.now() - began);
        read.answer += piece;
        read.prompt = usage?.prompt_tokens ?? 0;
        read.cached = usage?.prompt_tokens_details.cached_tokens ?? 0;
      }
      return read;
    },
    { ...long(topic), stream: true, stream_options: { include_usage: true } },
  );

for (const device of /** @type {const} */ (["cpu", "gpu"])) {
  describe(`${device}:`, () => {
    test("what was evicted for another tab's conversation comes back from the worker's memory", async () => {
      const session = await open({}, { device });
      try {
        /** @type {[prefixCache: object | undefined, comesBack: boolean, command?: string][]} */
        const cases = [
          [undefined, true],
          [{ hostBytes: 0 }, false],
          [undefined, false, "no memory"],
        ];
        for (const [prefixCache, comesBack, command] of cases) {
          const visitor = await session.visitor();
          const [old, other] = await visitor.tabs(2, { host: "shared", kvBytes, ...(prefixCache && { prefixCache }) });
          if (command) await old.command(command);
          const first = await ask(old, "old");
          assert.ok(first.prompt > 250, `${first.prompt} tokens`);
          await old.show("hidden");
          const fresh = await ask(other, "new");
          await ask(other, "newer");
          await old.show("visible");
          const again = await ask(old, "old");
          const times = `${fresh.first} ms for the new one, ${again.first} ms for the one that comes back`;
          const memory = command ?? `${comesBack ? "with" : "without"} the worker's memory`;
          console.log(`${device}, ${memory}, first token: ${times}`);
          assert.equal(again.answer, first.answer);
          const { restored_tokens: restored, host_cache_usage_perc: usage } = await old.metrics();
          const told = JSON.stringify({ again, restored, usage });
          if (comesBack) assert.ok(again.cached > 500 && restored > 200 && usage > 0, told);
          else assert.ok(again.cached < 300 && restored === 0 && usage === 0, told);
          await visitor.close();
        }
      } finally {
        await session.close();
      }
    });
  });
}

test("a bad size is refused", async () => {
  const session = await open();
  try {
    const tab = await (await session.visitor()).tab();
    for (const prefixCache of [{ hostBytes: -1 }, { hostBytes: "1" }, { bytes: 1 }, 5]) {
      const { code, typed } = await tab.refused({ host: "private", prefixCache });
      assert.deepEqual([code, typed], ["invalid_request", true], JSON.stringify(prefixCache));
    }
  } finally {
    await session.close();
  }
});
