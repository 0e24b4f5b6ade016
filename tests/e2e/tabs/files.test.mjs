// Tabs that load the same files share one engine, and when it dies each can hand them over again.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open, SHARING, STORY, text } from "./tabs.mjs";

const NAMES = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];

let session;

before(async () => {
  session = await open();
});

after(() => session?.close());

/** Loads the model from bytes that the tab has. */
const load = (tab, host) =>
  tab.run(
    "loading",
    async ([names, host]) => {
      const files = {};
      for (const name of names) files[name] = await (await fetch(`model/${name}`)).blob();
      globalThis.progress = [];
      return load(files, { host, onProgress: (step) => progress.push(step) });
    },
    [NAMES, host],
  );

for (const rung of SHARING) {
  test(`${rung}: the host dies, and the files come from a tab that is left`, async () => {
    const visitor = await session.visitor();
    const first = await visitor.tab();
    const second = await visitor.tab();
    const { info } = await load(first, rung);
    assert.deepEqual((await load(second, rung)).info, info);
    assert.equal((await first.hosts()).length, 1);
    assert.deepEqual(await second.run("progress", () => progress.map(({ stage }) => stage)), ["start"]);
    await second.begin("story", STORY.params);
    await second.pieces("story", 8);
    await first.crash();
    assert.equal(text(await second.answer("story")), STORY.answer);
    await visitor.close();
  });
}
