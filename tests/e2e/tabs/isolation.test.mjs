// Who shares what: cached prefixes stay within a partition, and no tab learns or disturbs what
// another does.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { open, SHARING, STORY, text, until } from "./tabs.mjs";

let session;

before(async () => (session = await open()));

after(() => session?.close());

/** A prompt of several blocks, a different one for each `topic`. */
const prompt = (topic) => ({
  messages: [{ role: "user", content: `${topic}. ${STORY.answer} What did the fox learn?` }],
  temperature: 0,
  max_tokens: 4,
});

/** Tokens of the prompt that were found in the cache. */
const cached = (tab, topic) =>
  tab.run(
    "cached tokens",
    async (params) => {
      const { usage } = await engine.chat.completions.create(params);
      return usage.prompt_tokens_details.cached_tokens;
    },
    prompt(topic),
  );

for (const rung of SHARING) {
  describe(`${rung}:`, () => {
    let visitor;

    before(async () => (visitor = await session.visitor()));

    after(() => visitor?.close());

    const tabWith = async (isolation) => {
      const [tab] = await visitor.tabs(1, { host: rung, isolation });
      return tab;
    };

    test("tabs share prefixes unless told otherwise", async () => {
      const [one, other, explicit] = [await tabWith(undefined), await tabWith(undefined), await tabWith("shared")];
      assert.equal(await cached(one, "common"), 0);
      for (const tab of [one, other, explicit]) assert.ok((await cached(tab, "common")) >= 64);
    });

    test("a tab of its own shares with itself alone", async () => {
      const [shared, one, other] = [await tabWith("shared"), await tabWith("tab"), await tabWith("tab")];
      for (const tab of [shared, one, other]) assert.equal(await cached(tab, "own"), 0, tab.name);
      for (const tab of [shared, one, other]) assert.ok((await cached(tab, "own")) >= 64, tab.name);
    });

    test("a session shares with its own tabs alone", async () => {
      const [ann, bob, again, shared] = [
        await tabWith({ session: "ann" }),
        await tabWith({ session: "bob" }),
        await tabWith({ session: "ann" }),
        await tabWith("shared"),
      ];
      for (const tab of [ann, bob, shared]) assert.equal(await cached(tab, "session"), 0, tab.name);
      assert.ok((await cached(again, "session")) >= 64);
      assert.ok((await cached(ann, "session")) >= 64);
      assert.ok((await cached(bob, "session")) >= 64);
    });

    test("metrics show a tab nothing of others but how busy and how full the engine is", async () => {
      const [watcher, watched] = [await tabWith("tab"), await tabWith("tab")];
      await cached(watcher, "own");
      const load = ["kv_cache_usage_perc", "kv_block_utilisation", "host_cache_usage_perc"];
      const view = async () => {
        const all = await watcher.metrics();
        for (const name of load) delete all[name];
        return all;
      };
      const before = await view();
      assert.deepEqual(Object.keys(before.tabs), [`${before.host.tabs.find(({ you }) => you).id}`]);
      for (const text of ["watched", "watched"]) await cached(watched, text);
      assert.deepEqual(await view(), before);
    });

    test("bad partitions are refused", async () => {
      const tab = await visitor.tab();
      for (const isolation of ["none", { session: 5 }, {}, 7]) {
        const { code, typed } = await tab.refused({ host: rung, isolation });
        assert.ok(typed, JSON.stringify(isolation));
        assert.equal(code, "invalid_request", JSON.stringify(isolation));
      }
    });
  });
}

describe("turns:", () => {
  for (const rung of SHARING) {
    test(`${rung}: a hidden tab waits for a visible one`, async () => {
      const visitor = await session.visitor();
      const [busy, hidden, visible] = await visitor.tabs(3, { host: rung });
      await hidden.show("hidden");
      /** Waits until the host has been told of so many visible tabs. */
      const told = (count) =>
        until(`${count} visible tabs`, async () => {
          const { tabs } = (await busy.metrics()).host;
          return tabs.filter(({ visible }) => visible).length === count;
        });
      await told(2);
      // As many as can run at once; the first to end makes room for one.
      const long = { ...STORY.params, temperature: 1, seed: 1, ignore_eos: true, max_tokens: 200 };
      await busy.begin("long", { ...long, n: 15 });
      await busy.begin("short", { ...long, max_tokens: 80, speculative_decoding: false });
      await busy.pieces("short", 1);
      const short = { ...STORY.params, max_tokens: 8 };
      await hidden.begin("late", short);
      assert.ok((await busy.metrics()).num_requests_waiting > 0, "there was room for the hidden tab");
      await visible.begin("early", short);
      for (const [tab, name] of [
        [visible, "early"],
        [hidden, "late"],
      ]) {
        assert.ok(STORY.answer.startsWith(text(await tab.answer(name))));
      }
      const [early, late] = [await visible.stream("early"), await hidden.stream("late")];
      assert.ok(early.times.at(-1) < late.times.at(1), "the hidden tab came first");
      await hidden.show("visible");
      await told(3);
      await visitor.close();
    });
  }
});
