// The engine's code traps: what is left of it is not used again, and nobody loses an answer.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { noticed, settled, survive, undisturbed } from "./survival.mjs";
import { ENDLESS, open, SHARING } from "./tabs.mjs";

let session;
let expected;

before(async () => {
  session = await open({}, { device: "gpu" });
  expected = await undisturbed(session);
});

after(() => session?.close());

for (const rung of [...SHARING, "private"]) {
  describe(`${rung}: the engine's code traps`, () => {
    let visitor;
    let tabs;

    before(async () => {
      visitor = await session.visitor();
      tabs = await visitor.tabs(rung === "private" ? 1 : 2, { host: rung });
    });

    after(() => visitor?.close());

    for (const where of ["trap in a step", "trap"]) {
      test(where, async () => {
        noticed(await survive(tabs, () => tabs[0].command(where), expected));
        assert.equal((await tabs[0].hosts()).length, 1);
        await settled(tabs[0], tabs.length);
      });
    }
  });
}

test("an engine whose hosts die again and again says so", async () => {
  const visitor = await session.visitor();
  const [tab] = await visitor.tabs(1, { host: "private" });
  await tab.begin("answer", ENDLESS);
  await tab.run(
    "doom",
    () =>
      /** @type {Promise<void>} */ (
        new Promise((held) => {
          navigator.locks.request("doom", () => {
            held();
            return new Promise(() => {});
          });
        })
      ),
  );
  await tab.command("close");
  const { error } = await tab.stream("answer");
  assert.equal(error.code, "engine_crashed");
  await visitor.close();
});
