// The engine's code traps: what is left of it is not used again, and nobody loses an answer.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { hurried } from "../browser.mjs";
import { modelFile } from "../server.mjs";
import { notice, settled, undisturbed } from "./survival.mjs";
import { ENDLESS, FRANCE, open, SHARING, STORY, text } from "./tabs.mjs";

/** A tokenizer with a pattern for which a text of forty letters is a matter of years. */
const tokenizer = JSON.parse(`${await modelFile("tokenizer.json")}`);
const split = { type: "Split", pattern: { Regex: "(a+)+$" }, behavior: "Isolated", invert: false };
tokenizer.pre_tokenizer.pretokenizers.unshift(split);

let session;
let expected;

before(async () => {
  const folders = { "models/spinning/": { "tokenizer.json": JSON.stringify(tokenizer) } };
  session = await open(folders, { device: "gpu" });
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
        await notice(tabs, () => tabs[0].command(where), expected);
        assert.equal((await tabs[0].hosts()).length, 1);
        await settled(tabs[0], tabs.length);
      });
    }
  });
}

for (const rung of [...SHARING, "private"]) {
  test(`${rung}: a text over which a tokenizer's pattern never ends fails alone`, async () => {
    const visitor = await session.visitor();
    // A SharedWorker is given eight times as long.
    await hurried(visitor.context, rung === "shared" ? 40 : 10);
    const options = { host: rung, device: "cpu" };
    const tab = await visitor.tab();
    await tab.load(options, "models/spinning/");
    const other = rung === "private" ? tab : await visitor.tab();
    if (other !== tab) await other.load(options, "models/spinning/");
    await other.begin("kept", STORY.params);
    await other.pieces("kept", 1);
    const failed = tab.run("a text", () => {
      const content = `${"a".repeat(40)}!`;
      return failure(engine.chat.completions.create({ messages: [{ role: "user", content }] }));
    });
    const whole = other.ask(FRANCE.params);
    const { typed, code } = await failed;
    assert.deepEqual([typed, code], [true, "engine_crashed"]);
    assert.equal(text(await other.answer("kept")), STORY.answer);
    assert.equal(text(await whole), FRANCE.answer);
    await visitor.close();
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
