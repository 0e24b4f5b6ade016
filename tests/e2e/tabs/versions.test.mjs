// Pages and hosts of different versions of the package: each finds its own kind, and where they
// meet all the same, the page is told.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { FRANCE, open, SHARING, STORY, text } from "./tabs.mjs";
import { BOTH, OTHER, THIS, WORKER } from "./versions.mjs";

let session;

before(async () => (session = await open(BOTH)));

after(() => session?.close());

for (const rung of SHARING) {
  describe(`${rung}:`, () => {
    let visitor;
    let tab;

    before(async () => {
      visitor = await session.visitor();
      [tab] = await visitor.tabs(1, { host: rung, workerFile: WORKER });
    });

    after(() => visitor?.close());

    test("a page that meets a worker of another version is refused", async () => {
      const old = await visitor.tab({ package: OTHER.package });
      const error = await old.refused({ host: rung });
      assert.ok(error.typed, JSON.stringify(error));
      assert.equal(error.code, "version_mismatch");
      assert.match(error.details.page, new RegExp(`^${OTHER.version}`));
      assert.match(error.details.host, new RegExp(`^${THIS.version}`));
      assert.match(error.message, /Reload/);
      await old.close();
      assert.equal(text(await tab.ask(FRANCE.params)), FRANCE.answer);
    });

    test("two versions have a host each, side by side", async () => {
      const options = { host: rung, workerFile: WORKER };
      const [one, two] = [0, 1].map(() => visitor.tab({ package: OTHER.package }));
      await (await one).load(options);
      await (await two).load(options);
      const tabs = [tab, await one, await two];
      assert.deepEqual(await Promise.all(tabs.map((tab) => tab.rung())), [rung, rung, rung]);
      const served = await Promise.all(tabs.map(async (tab) => (await tab.metrics()).host));
      assert.equal(served[1].name, served[2].name);
      assert.notEqual(served[0].name, served[1].name);
      assert.deepEqual(
        served.map(({ tabs }) => tabs.length),
        [1, 2, 2],
      );
      await Promise.all(tabs.map((tab) => tab.begin("answer", STORY.params)));
      for (const tab of tabs) assert.equal(text(await tab.answer("answer")), STORY.answer);
    });
  });
}
