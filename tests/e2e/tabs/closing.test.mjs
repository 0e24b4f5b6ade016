// Tabs that are closed one after another, beginning with the one that has the host: who is left keeps its answer.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ENDLESS, FRANCE, SHARING, STORY, open, text, until } from "./tabs.mjs";

let session;

before(async () => (session = await open()));

after(() => session?.close());

for (const rung of SHARING) {
  test(`${rung}: two tabs have one host, and the first is closed amid the other's answer`, async () => {
    const visitor = await session.visitor();
    const [first, second] = await visitor.tabs(2, { host: rung });
    assert.equal(await second.rung(), rung);
    assert.equal((await second.metrics()).host.tabs.length, 2);
    await second.begin("kept", STORY.params);
    assert.equal(text(await first.ask(FRANCE.params)), FRANCE.answer);
    await second.pieces("kept", 8);
    await first.close();
    assert.equal(text(await second.answer("kept")), STORY.answer);
    await until("the first to be forgotten", async () => (await second.metrics()).host.tabs.length === 1);
    await visitor.close();
  });
}

// WebKit moves a SharedWorker each time that the tab is closed which made it.
test("eight tabs are closed while one waits for an answer", async () => {
  const visitor = await session.visitor();
  const tabs = await visitor.tabs(9, { host: "shared" });
  const last = tabs.pop();
  await last.run(
    "a question",
    (params) => {
      globalThis.controller = new AbortController();
      globalThis.waiting = failure(engine.chat.completions.create(params, controller));
    },
    // More than eight tabs take to close, on every machine.
    { ...ENDLESS, n: 4 },
  );
  for (const tab of tabs) {
    await tab.close();
    // A host has the last tab's calls again.
    await last.metrics();
  }
  const failed = await last.run("the end", () => {
    controller.abort();
    return waiting;
  });
  assert.equal(failed.name, "AbortError", failed.message);
  assert.equal(text(await last.ask(FRANCE.params)), FRANCE.answer);
  await visitor.close();
});

test("private: the other's answer goes on", async () => {
  const visitor = await session.visitor();
  const [first, second] = await visitor.tabs(2, { host: "private" });
  await second.begin("kept", STORY.params);
  await second.pieces("kept", 8);
  await first.close();
  assert.equal(text(await second.answer("kept")), STORY.answer);
  await visitor.close();
});
