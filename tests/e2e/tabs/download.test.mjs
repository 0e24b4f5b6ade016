// However many tabs load a model at once, its files are fetched once; each tab is told how far it
// is, and one that gives up keeps nobody else from loading.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { modelFile } from "../server.mjs";
import { FRANCE, open, SHARING, text, until } from "./tabs.mjs";

const weights = await modelFile("model.safetensors");

/** Downloads of the weights under way, each of which stops halfway until it is told to go on. */
let downloads;

function half(response) {
  const download = { response, closed: false };
  response.on("close", () => (download.closed = !response.writableFinished));
  response.writeHead(200, { "content-length": weights.length });
  response.write(weights.subarray(0, weights.length / 2));
  download.goOn = () => response.end(weights.subarray(weights.length / 2));
  downloads.push(download);
}

let session;
/** The files that one tab alone asks for. */
let files;

before(async () => {
  session = await open({ "models/slow/": { "model.safetensors": half } });
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
async function begin(tab, rung) {
  await tab.run("begin", (rung) => {
    globalThis.controller = new AbortController();
    globalThis.progress = [];
    const onProgress = (step) => progress.push(step);
    const { signal } = controller;
    globalThis.loading = failure(load("models/slow/", { host: rung, onProgress, signal }));
  }, rung);
}

/** What loading ended with, once it has ended. */
const loading = (tab) => tab.run("loading", () => loading);

const hears = (tab) =>
  until(`progress in ${tab.name}`, () => tab.page.evaluate(() => progress.length > 0));

for (const rung of SHARING) {
  describe(`${rung}:`, () => {
    let visitor;

    before(async () => {
      downloads = [];
      session.server.requests.length = 0;
      visitor = await session.visitor();
    });

    after(() => visitor?.close());

    test("many tabs load, one download, progress for all; one that gives up harms nobody", async () => {
      const tabs = [await visitor.tab(), await visitor.tab(), await visitor.tab()];
      await Promise.all(tabs.map((tab) => begin(tab, rung)));
      await Promise.all(tabs.map(hears));
      await until("the download", async () => downloads.length > 0);
      // One that comes when half is there hears of it before the rest is sent.
      const late = await visitor.tab();
      await begin(late, rung);
      await hears(late);

      const [quitter, ...others] = [...tabs, late];
      await quitter.run("abort", () => controller.abort());
      assert.equal((await loading(quitter)).name, "AbortError");
      const told = await late.run("progress", () => progress.length);
      downloads[0].goOn();
      for (const tab of others) {
        assert.equal(await loading(tab), "no failure");
        const steps = await tab.run("progress", () => progress);
        const download = steps.filter(({ stage }) => stage === "download");
        download.reduce((a, b) => (assert.ok(a.loaded <= b.loaded), b));
        assert.equal(download.at(-1).loaded, download.at(-1).total);
        assert.equal(steps.at(-1).stage, "compile");
      }
      assert.ok((await late.run("progress", () => progress.length)) > told);
      assert.deepEqual(asked("models/slow/"), files);
      assert.equal(downloads.length, 1);
      assert.equal(text(await late.ask(FRANCE.params)), FRANCE.answer);
      assert.equal((await late.hosts()).filter(({ devices }) => devices > 0).length, 1);

      // The quitter may come back, to what is there.
      await begin(quitter, rung);
      assert.equal(await loading(quitter), "no failure");
      assert.deepEqual(asked("models/slow/"), files);
    });

    test("a download that nobody waits for any more stops", async () => {
      await visitor.close();
      visitor = await session.visitor();
      downloads = [];
      const tabs = [await visitor.tab(), await visitor.tab()];
      for (const tab of tabs) await begin(tab, rung);
      for (const tab of tabs) await hears(tab);
      await until("the download", async () => downloads.length > 0);
      for (const tab of tabs) {
        assert.equal(downloads[0].closed, false);
        await tab.run("abort", () => controller.abort());
        assert.equal((await loading(tab)).name, "AbortError");
      }
      await until("the end of the download", async () => downloads[0].closed, 10);
      // What was given up can be begun anew.
      await begin(tabs[1], rung);
      await until("another download", async () => downloads.length > 1);
      downloads[1].goOn();
      assert.equal(await loading(tabs[1]), "no failure");
      assert.equal(text(await tabs[1].ask(FRANCE.params)), FRANCE.answer);
    });
  });
}
