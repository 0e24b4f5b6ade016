// Several models in one host: each is loaded once, kept while there is room, and given up for
// another when nobody uses it.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ENDLESS, FRANCE, open, SHARING, STORY, text } from "./tabs.mjs";

/** Addresses of the same weights, which make them so many models. */
const MODELS = ["a", "b", "c", "d"].map((name) => `models/${name}/`);

let session;

before(async () => (session = await open({}, { device: "gpu" })));

after(() => session?.close());

const urls = (visitor, names) => names.map((name) => `${visitor.url}models/${name}/`);

for (const rung of SHARING) {
  describe(`${rung}:`, () => {
    let visitor;
    let tabs;
    /** What one model takes of the budget. */
    let size;
    /** Keys and values take as much whatever the budget is. */
    const options = { host: rung, kvBytes: 1 << 25 };

    before(async () => {
      visitor = await session.visitor();
      // The first one loads first, and stays.
      tabs = [await visitor.tab(), await visitor.tab(), await visitor.tab()];
    });

    after(() => visitor?.close());

    const gpuBytes = async () => {
      const hosts = await tabs[0].hosts();
      assert.equal(hosts.length, 1);
      return hosts[0].bytes;
    };

    const listed = async (tab) => {
      const { host } = await tab.metrics();
      const { models, used_bytes } = host;
      assert.equal(
        used_bytes,
        models.reduce((sum, { bytes }) => sum + bytes, 0),
      );
      assert.ok(used_bytes <= host.budget_bytes, `${used_bytes} of ${host.budget_bytes}`);
      return models
        .map(({ url, tabs, requests }) => ({ url, tabs, requests }))
        .sort((a, b) => (a.url < b.url ? -1 : 1));
    };

    test("two models answer side by side in one host", async () => {
      await tabs[0].load(options, MODELS[0]);
      const one = await gpuBytes();
      size = (await tabs[0].metrics()).host.used_bytes;
      const { info } = await tabs[1].load(options, MODELS[1]);
      const two = await gpuBytes();
      assert.ok(size >= info.weightBytes + (16 << 20), `${size} bytes are less than weights and KV`);
      assert.ok(two - one >= size && two <= 2 * one, `the GPU held ${one} bytes, then ${two}`);
      const [a, b] = urls(visitor, ["a", "b"]);
      const idle = { tabs: 1, requests: 0 };
      assert.deepEqual(await listed(tabs[0]), [
        { url: a, ...idle },
        { url: b, ...idle },
      ]);
      const { host } = await tabs[0].metrics();
      assert.deepEqual(
        host.tabs
          .map(({ model }) => model)
          .filter(Boolean)
          .sort(),
        [a, b],
      );

      const ask = (params) => {
        globalThis.controller = new AbortController();
        return begin("endless", params, controller);
      };
      for (const tab of [tabs[0], tabs[1]]) assert.equal(await tab.run("a question", ask, ENDLESS), null);
      assert.deepEqual(
        (await listed(tabs[0])).map(({ requests }) => requests),
        [1, 1],
      );
      const stories = await Promise.all([tabs[0], tabs[1]].map((tab) => tab.ask(STORY.params)));
      assert.deepEqual(stories.map(text), [STORY.answer, STORY.answer]);
      for (const tab of [tabs[0], tabs[1]]) {
        await tab.run("cancel", () => controller.abort());
        await tab.idle();
      }
    });

    test("a model in use is not given up", async () => {
      const before = await gpuBytes();
      const budgetBytes = Math.floor(2.5 * size);
      const refused = await tabs[2].refused({ ...options, budgetBytes }, MODELS[2]);
      assert.ok(refused.typed);
      assert.equal(refused.code, "over_budget");
      const { needed, budget, used } = refused.details;
      assert.equal(budget, budgetBytes);
      assert.equal(used, 2 * size);
      assert.ok(needed >= size, `${needed} of ${size} bytes needed`);
      assert.equal(await gpuBytes(), before);
      for (const tab of [tabs[0], tabs[1]]) assert.equal(text(await tab.ask(FRANCE.params)), FRANCE.answer);
    });

    test("the one that was idle longest makes room, and its memory is freed", async () => {
      const [keeper, one, other] = tabs;
      const budgetBytes = Math.floor(3.5 * size);
      await other.load({ ...options, budgetBytes }, MODELS[2]);
      const three = await gpuBytes();
      const [a, , c, d] = urls(visitor, ["a", "b", "c", "d"]);
      await one.run("close", () => engine.close());
      await other.run("close", () => engine.close());
      const { requests } = session.server;
      await one.load({ ...options, budgetBytes }, MODELS[3]);
      assert.deepEqual(await listed(keeper), [
        { url: a, tabs: 1, requests: 0 },
        { url: c, tabs: 0, requests: 0 },
        { url: d, tabs: 1, requests: 0 },
      ]);
      assert.equal(await gpuBytes(), three, "bytes of the GPU with three models, then three others");
      assert.equal(text(await one.ask(STORY.params)), STORY.answer);

      requests.length = 0;
      await other.load(options, MODELS[2]);
      assert.deepEqual(
        requests.filter((path) => path.startsWith("models/")),
        [],
        "it was still there",
      );
      assert.equal(text(await other.ask(FRANCE.params)), FRANCE.answer);
    });

    test("a smaller budget lets go what nobody uses", async () => {
      const [keeper, one, other] = tabs;
      const three = await gpuBytes();
      await one.run("close", () => engine.close());
      await one.load({ ...options, budgetBytes: Math.floor(2.5 * size) }, MODELS[0]);
      const [a, c] = urls(visitor, ["a", "c"]);
      assert.deepEqual(await listed(keeper), [
        { url: a, tabs: 2, requests: 0 },
        { url: c, tabs: 1, requests: 0 },
      ]);
      const two = await gpuBytes();
      assert.ok(two <= three - size, `the GPU held ${three} bytes, then ${two}`);
      for (const tab of [keeper, one, other]) assert.equal(text(await tab.ask(FRANCE.params)), FRANCE.answer);
    });

    test("a model larger than the budget is refused", async () => {
      const late = await visitor.tab();
      const refused = await late.refused({ ...options, budgetBytes: 1 << 20 }, MODELS[3]);
      assert.equal(refused.code, "over_budget");
      for (const tab of tabs) assert.equal(text(await tab.ask(FRANCE.params)), FRANCE.answer);
    });
  });
}
