// However many tabs load a model at once, its files are fetched once; progress is reported to each
// tab, and one that gives up keeps nobody else from loading.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { modelFile } from "../server.mjs";
import { FRANCE, open, SHARING, text, until } from "./tabs.mjs";

const weights = await modelFile("model.safetensors");

/** Downloads of the weights so far, and whether they stop halfway until they are told to go on. */
let downloads;
let halfway;

function send(response) {
  const download = { broken: false, goOn: () => response.end(weights.subarray(weights.length / 2)) };
  response.on("close", () => (download.broken = !response.writableFinished));
  response.writeHead(200, { "content-length": weights.length });
  response.write(weights.subarray(0, weights.length / 2));
  if (!halfway) download.goOn();
  downloads.push(download);
}

let session;
/** The files that one tab alone asks for. */
let files;

before(async () => {
  session = await open({ "models/slow/": { "model.safetensors": send } });
  const visitor = await session.visitor();
  await visitor.tabs(1, { host: "private" });
  files = asked("model/");
  await visitor.close();
});

after(() => session?.close());

/** The files below a folder that were asked for, sorted. */
function asked(folder) {
  const { requests } = session.server;
  const files = requests.filter((path) => path.startsWith(folder));
  return files.map((path) => path.slice(folder.length)).sort();
}

/** Begins to load the slow model; `loading()` waits for the end. */
async function begin(tab, options) {
  await tab.run(
    "begin",
    (options) => {
      globalThis.controller = new AbortController();
      globalThis.progress = [];
      const onProgress = (step) => progress.push(step);
      const { signal } = controller;
      globalThis.loading = failure(load("models/slow/", { ...options, onProgress, signal }));
    },
    options,
  );
}

/** What loading ended with, once it has ended. */
const loading = (tab) => tab.run("loading", () => loading);

const hears = (tab) => until(`progress in ${tab.name}`, () => tab.page.evaluate(() => progress.length > 0));

for (const rung of SHARING) {
  describe(`${rung}:`, () => {
    let visitor;

    beforeEach(async () => {
      downloads = [];
      halfway = true;
      session.server.requests.length = 0;
      visitor = await session.visitor();
    });

    afterEach(() => visitor?.close());

    /** Tabs that have begun to load, one after the other: the first one has the host, which downloads. */
    async function waiting(count, options = { host: rung }) {
      const tabs = [];
      while (tabs.length < count) {
        const tab = await visitor.tab();
        await begin(tab, options);
        await hears(tab);
        tabs.push(tab);
      }
      // A tab hears of earlier stages, too.
      await until("the beginning of the download", async () => downloads.length > 0);
      return tabs;
    }

    test("many tabs load, one download, progress for all; one that gives up harms nobody", async () => {
      // Where loading ends with pipelines that are compiled.
      const options = { host: rung, device: "gpu" };
      // The last ones come when half is there, and hear of it before the rest is sent.
      const tabs = await waiting(4, options);
      const [first, quitter, , late] = tabs;
      await quitter.run("abort", () => controller.abort());
      assert.equal((await loading(quitter)).name, "AbortError");
      const told = await late.run("progress", () => progress.length);
      downloads[0].goOn();
      for (const tab of tabs.filter((tab) => tab !== quitter)) {
        assert.equal(await loading(tab), "no failure");
        const steps = await tab.run("progress", () => progress);
        const download = steps.filter(({ stage }) => stage === "download");
        download.reduce((a, b) => {
          assert.ok(a.loaded <= b.loaded);
          return b;
        });
        assert.equal(download.at(-1).loaded, download.at(-1).total);
        assert.equal(steps.at(-1).stage, "compile");
      }
      assert.ok((await late.run("progress", () => progress.length)) > told);
      assert.deepEqual(asked("models/slow/"), files);
      assert.equal(text(await late.ask(FRANCE.params)), FRANCE.answer);
      assert.equal((await first.hosts()).length, 1);

      // The quitter may come back, to what is there.
      await begin(quitter, options);
      assert.equal(await loading(quitter), "no failure");
      assert.deepEqual(asked("models/slow/"), files);
    });

    test("the tab that began gives up, or goes, and the others still load", async () => {
      const [first, second, third] = await waiting(3);
      halfway = false;
      await first.run("abort", () => controller.abort());
      assert.equal((await loading(first)).name, "AbortError");
      await second.close();
      for (const download of downloads) download.goOn();
      assert.equal(await loading(third), "no failure");
      assert.equal(text(await third.ask(FRANCE.params)), FRANCE.answer);
    });

    test("a download that nobody waits for any more stops", async () => {
      const tabs = await waiting(2);
      for (const tab of tabs.reverse()) {
        assert.equal(downloads[0].broken, false);
        await tab.run("abort", () => controller.abort());
        assert.equal((await loading(tab)).name, "AbortError");
      }
      await until("the end of the download", async () => downloads[0].broken, 10);
      // What was given up can be begun anew.
      halfway = false;
      await begin(tabs[0], { host: rung });
      assert.equal(await loading(tabs[0]), "no failure");
      assert.equal(text(await tabs[0].ask(FRANCE.params)), FRANCE.answer);
    });
  });
}
