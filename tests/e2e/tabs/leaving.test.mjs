// A tab that goes, however it goes, takes its requests with it and harms nobody else's; one that
// only sleeps finds its answer when it wakes.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ENDLESS, open, SHARING, STORY, text } from "./tabs.mjs";

/** Steps of the engine within which the host frees what a tab held, from when the tab is known to be gone. */
const FREED = 8;

/** An answer that goes on for long enough to watch a tab leave. */
const LONG = { ...STORY.params, ignore_eos: true, max_tokens: 200 };

const WAYS = {
  "is closed": (tab) => tab.close(),
  crashes: (tab) => tab.crash(),
  "goes elsewhere": (tab) => tab.navigate(),
};

let session;

before(async () => (session = await open()));

after(() => session?.close());

/** Polls the metrics in `tab`, and notes when `gone` is gone as the browser reports to everybody. */
function watch(tab, gone) {
  return tab.page.evaluateHandle(async (name) => {
    const watch = { stop: poll(), gone: null };
    navigator.locks.request(`page ${name}`, () => (watch.gone = now()));
    // What was asked before is answered before: the first sample is there.
    await engine.metrics();
    return watch;
  }, gone.name);
}

for (const rung of SHARING) {
  describe(`${rung}: a tab that`, () => {
    let visitor;
    let keeper;

    before(async () => {
      visitor = await session.visitor();
      // The first tab has the host, and stays.
      [keeper] = await visitor.tabs(1, { host: rung });
    });

    after(() => visitor?.close());

    for (const [way, leave] of Object.entries(WAYS)) {
      test(`${way} is forgotten at once`, async () => {
        const [leaver, witness] = await visitor.tabs(2, { host: rung });
        await keeper.begin("kept", LONG);
        await witness.begin("kept", STORY.params);
        await leaver.begin("lost", { ...ENDLESS, n: 2 });
        await leaver.begin("also lost", ENDLESS);
        await leaver.pieces("lost", 4);
        const { id } = (await leaver.metrics()).host.tabs.find(({ you }) => you);

        const watching = await watch(keeper, leaver);
        await leave(leaver);
        assert.ok(text(await keeper.answer("kept")).startsWith(STORY.answer));
        assert.equal(text(await witness.answer("kept")), STORY.answer);
        const { gone, samples } = await watching.evaluate(async (watch) => {
          const samples = await watch.stop();
          return { gone: watch.gone, samples };
        });

        assert.notEqual(gone, null, "the browser never said that the tab is gone");
        const holds = ({ metrics: { host, tabs } }) =>
          host.tabs.some((tab) => tab.id === id) || (tabs[id]?.kv_blocks ?? 0) > 0;
        assert.ok(holds(samples[0]), "the watch began too late");
        // What was asked later than the limit must have been answered without the tab. What was
        // asked before may have been answered either way.
        const known = samples.find(({ sent }) => sent > gone);
        const since = ({ metrics }) => metrics.steps - known.metrics.steps;
        const late = samples.filter((sample) => known && since(sample) > FREED);
        assert.ok(late.length > 0, "the watch ended too early");
        const held = late.filter(holds).map(since);
        assert.deepEqual(held, [], "steps after which the host still held what was the tab's");
        for (const { metrics } of late) assert.ok(metrics.num_requests_running <= 2);

        await witness.close();
        await keeper.idle();
      });
    }

    test("is frozen finds the whole answer when it wakes", async () => {
      const [sleeper, witness] = await visitor.tabs(2, { host: rung });
      await sleeper.begin("slept", STORY.params);
      await sleeper.pieces("slept", 4);
      await sleeper.freeze();
      await witness.begin("kept", STORY.params);
      assert.equal(text(await witness.answer("kept")), STORY.answer);
      await sleeper.thaw();
      assert.equal(text(await sleeper.answer("slept")), STORY.answer);
      await sleeper.close();
      await witness.close();
    });

    test("loads and is closed leaves the model to the others", async () => {
      const newcomer = await visitor.tab();
      newcomer.load({ host: rung }).catch(() => {});
      await newcomer.close();
      await keeper.begin("kept", STORY.params);
      assert.equal(text(await keeper.answer("kept")), STORY.answer);
      assert.equal((await keeper.metrics()).host.tabs.length, 1);
    });

    test("is gone leaves no block behind", async () => {
      const { tabs } = await keeper.idle();
      assert.equal(Object.keys(tabs).length, 1);
    });
  });
}

describe("private: a tab that", () => {
  let visitor;
  let witness;

  before(async () => {
    visitor = await session.visitor();
    [witness] = await visitor.tabs(1, { host: "private" });
  });

  after(() => visitor?.close());

  for (const [way, leave] of Object.entries(WAYS)) {
    test(`${way} takes its own worker along, and no other`, async () => {
      const [leaver] = await visitor.tabs(1, { host: "private" });
      assert.equal((await witness.hosts()).length, 2);
      await leaver.begin("lost", ENDLESS);
      await witness.begin("kept", STORY.params);
      await leaver.pieces("lost", 4);
      await leave(leaver);
      assert.equal(text(await witness.answer("kept")), STORY.answer);
      assert.equal((await witness.hosts()).length, 1);
    });
  }
});

test("the only tab is reloaded, and the model is still there", async () => {
  const visitor = await session.visitor();
  const [tab] = await visitor.tabs(1, { host: "shared" });
  await tab.begin("lost", ENDLESS);
  await tab.pieces("lost", 4);
  const [host] = await tab.hosts();
  const { requests } = session.server;
  requests.length = 0;
  await tab.reload();
  await tab.load({ host: "shared" });
  assert.equal(text(await tab.ask(STORY.params)), STORY.answer);
  assert.deepEqual(
    requests.filter((path) => path.startsWith("model/")),
    [],
  );
  assert.deepEqual(await tab.hosts(), [host]);
  assert.equal((await tab.idle()).host.tabs.length, 1);
  await visitor.close();
});
