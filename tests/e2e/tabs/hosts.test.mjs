// Hosts that share nothing but a store load one model: each byte of it is downloaded once.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { largeModel } from "../large.mjs";
import { modelFile } from "../server.mjs";
import { FRANCE, open, text, until } from "./tabs.mjs";
import { BOTH, OTHER, WORKER } from "./versions.mjs";

const FILE = "model.safetensors";
const SMALL = "models/small/";
const small = await modelFile(FILE);
/** Has more than one chunk. */
const LARGE = "models/large/";
const large = await largeModel(1152);
const CHUNK = 32 * 2 ** 20;
/** A place in the second chunk, and in the part that is downloaded after the one with the end of the first. */
const HALTED = 41 * 2 ** 20;
/** Bytes that are sent at a time. */
const PIECE = 2 ** 18;

/**
 * A worker that waits for a silent server for ever, and for a host that stands still so many milliseconds, or
 * for ever.
 */
const waiting = (standstill) => `
  const later = globalThis.setTimeout;
  const times = { 60000: Infinity, 90000: ${standstill} };
  globalThis.setTimeout = (call, time, ...more) =>
    times[time] === Infinity ? 0 : later(call, times[time] ?? time, ...more);
`;

/** That worker's script; what it imports first comes first. */
const script = (first) => `
  import "./${first}";
  import "./observed.js";
`;

/** What was asked for of the weights: first and last byte, and how many were sent. */
let asked;
/** Byte of the file up to which it is sent; the requests that it applies to. */
let gate;

/** Sends a file, as far as the gate is open when the connection comes to it. */
async function send(response, bytes) {
  const [, first = "0", last = `${bytes.length - 1}`] = response.req.headers.range?.match(/^bytes=(\d+)-(\d+)?$/) ?? [];
  const request = { first: Number(first), last: Number(last), sent: 0, open: true, gate };
  asked.push(request);
  response.on("close", () => (request.open = false));
  const headers = { "content-length": request.last + 1 - request.first };
  const range = { "content-range": `bytes ${first}-${last}/${bytes.length}` };
  response.writeHead(
    response.req.headers.range ? 206 : 200,
    response.req.headers.range ? { ...headers, ...range } : headers,
  );
  for (let at = request.first; at <= request.last && request.open; at += PIECE) {
    const piece = bytes.subarray(at, Math.min(at + PIECE, request.last + 1));
    while (at + piece.length > request.gate.end && request.open) await new Promise((go) => setTimeout(go, 10));
    if (!request.open) return;
    await new Promise((written) => response.write(piece, written));
    request.sent += piece.length;
  }
  response.end();
}

const sent = () => asked.reduce((sum, { sent }) => sum + sent, 0);

let session;
let visitor;
/** The files that a host alone asks for. */
let files;

before(async () => {
  session = await open({
    ...BOTH,
    "": {
      ...BOTH[""],
      "for-ever.js": waiting(Infinity),
      "patient.js": script("for-ever.js"),
      "for-a-second.js": waiting(1000),
      "impatient.js": script("for-a-second.js"),
    },
    [SMALL]: { [FILE]: (response) => send(response, small) },
    [LARGE]: { ...large, [FILE]: (response) => send(response, large[FILE]) },
  });
  const alone = await session.visitor();
  await alone.tabs(1, { host: "private" });
  files = filesOf("model/");
  await alone.close();
});

after(() => session?.close());

/** The files below a folder that were asked for, sorted. */
function filesOf(folder) {
  const requests = session.server.requests.filter((path) => path.startsWith(folder));
  return requests.map((path) => path.slice(folder.length)).sort();
}

beforeEach(async () => {
  [asked, gate] = [[], { end: Infinity }];
  session.server.requests.length = 0;
  visitor = await session.visitor();
});

afterEach(() => visitor?.close());

/** Begins to load a model in a host of the tab's own. */
function begin(tab, folder, options) {
  return tab.run(
    "begin",
    ([folder, options]) => {
      globalThis.controller = new AbortController();
      globalThis.progress = [];
      const onProgress = (step) => progress.push(step);
      const { signal } = controller;
      globalThis.loading = failure(
        load(folder, { host: "private", workerFile: "patient.js", ...options, onProgress, signal }),
      );
    },
    [folder, options],
  );
}

/** A tab that has begun to load. */
async function beginner(folder, options) {
  const tab = await visitor.tab();
  await begin(tab, folder, options);
  return tab;
}

/** What loading ended with, once it has ended. */
const loading = (tab) => tab.run("loading", () => loading);

/** Waits until a tab has heard of so many bytes. */
const hears = (tab, bytes = 1) =>
  until(`progress in ${tab.name}`, () =>
    tab.page.evaluate((bytes) => progress.some(({ stage, loaded }) => stage === "download" && loaded >= bytes), bytes),
  );

/** Keys of the entries in a store, below a folder. */
const keys = (tab, folder, store) =>
  tab.run(
    "keys",
    async ([folder, store]) => {
      const { openStore } = await import(new URL("tabloom/models/store.js", document.baseURI).href);
      const address = new URL(folder, document.baseURI).href;
      const keys = await (await openStore(store)).keys();
      return keys.filter((key) => key.startsWith(address)).map((key) => key.slice(address.length));
    },
    [folder, store],
  );

/** The model is stored as a whole, and only once. */
async function assertWhole(tab, folder, store) {
  const models = await tab.run("list", () => Engine.store.list());
  assert.deepEqual(
    models.map(({ model, store, complete }) => ({ model, store, complete })),
    [{ model: session.server.url + folder, store, complete: true }],
  );
  const count = Math.ceil((folder === LARGE ? large[FILE] : small).length / CHUNK);
  const chunks = (await keys(tab, folder, store)).filter((key) => key.startsWith(`${FILE}?tabloom=`));
  assert.deepEqual(
    chunks.sort(),
    Array.from({ length: count }, (_, chunk) => `${FILE}?tabloom=${chunk}`),
  );
}

/** What the large model answers, which means nothing. */
const babble = (tab) => tab.ask({ ...FRANCE.params, max_tokens: 8 }).then(text);

for (const store of /** @type {const} */ (["cache", "opfs"])) {
  describe(`${store}:`, () => {
    test("the second host waits for the first, tells of its download, and downloads nothing", async () => {
      gate.end = small.length / 2;
      const first = await beginner(SMALL, { store });
      await hears(first);
      const [second, quitter] = [await beginner(SMALL, { store }), await beginner(SMALL, { store })];
      // They begin while nothing is sent.
      await hears(second);
      await hears(quitter);
      await quitter.run("abort", () => controller.abort());
      assert.equal((await loading(quitter)).name, "AbortError");
      gate.end = Infinity;
      for (const tab of [first, second]) {
        assert.equal(await loading(tab), "no failure");
        assert.equal(text(await tab.ask(FRANCE.params)), FRANCE.answer);
        assert.equal(await tab.run("stored", () => engine.info.stored), true);
      }
      assert.equal(sent(), small.length);
      assert.deepEqual(filesOf(SMALL), files);
      await assertWhole(second, SMALL, store);
    });

    test("hosts on other rungs, and of another version, wait in the same way", async () => {
      gate.end = small.length / 2;
      const tabs = [await beginner(SMALL, { store, host: "shared" })];
      await hears(tabs[0]);
      tabs.push(await beginner(SMALL, { store, host: "leader" }), await visitor.tab({ package: OTHER.package }));
      await begin(tabs[2], SMALL, { store, workerFile: WORKER });
      await Promise.all(tabs.map((tab) => hears(tab)));
      gate.end = Infinity;
      for (const tab of tabs) {
        assert.equal(await loading(tab), "no failure");
        assert.equal(text(await tab.ask(FRANCE.params)), FRANCE.answer);
      }
      assert.deepEqual(await Promise.all(tabs.map((tab) => tab.rung())), ["shared", "leader", "private"]);
      assert.equal(sent(), small.length);
      await assertWhole(tabs[2], SMALL, store);
    });

    test("the second goes on where the first was killed", async () => {
      gate.end = HALTED;
      const first = await beginner(LARGE, { store });
      await hears(first);
      const second = await beginner(LARGE, { store });
      await until("the first chunk", async () => (await keys(second, LARGE, store)).includes(`${FILE}?tabloom`));
      const before = asked.length;
      await first.close();
      gate.end = Infinity;
      assert.equal(await loading(second), "no failure");
      const [whole, ...more] = asked.slice(before);
      assert.deepEqual([whole.first, whole.sent, more], [CHUNK, large[FILE].length - CHUNK, []]);
      await assertWhole(second, LARGE, store);

      const alone = await visitor.tab();
      await alone.load({ host: "private", store: "none" }, LARGE);
      assert.equal(await babble(second), await babble(alone));
    });

    test("the second takes over from a host that stands still, which then reads what is stored", async () => {
      gate.end = HALTED;
      const first = await beginner(LARGE, { store });
      await until("the first chunk", async () => (await keys(first, LARGE, store)).includes(`${FILE}?tabloom`));
      const before = asked.length;
      const still = gate;
      gate = { end: Infinity };
      const second = await beginner(LARGE, { store, workerFile: "impatient.js" });
      assert.equal(await loading(second), "no failure");
      const taken = asked.slice(before);
      assert.deepEqual(
        taken.map(({ first, sent }) => [first, sent]),
        [[CHUNK, large[FILE].length - CHUNK]],
      );
      still.end = Infinity;
      assert.equal(await loading(first), "no failure");
      assert.deepEqual(asked.slice(before), taken, "the first asks for nothing more");
      assert.equal(await babble(first), await babble(second));
      assert.equal(await first.run("stored", () => engine.info.stored), true);
      await assertWhole(second, LARGE, store);
    });

    test("what crashed writes have left is deleted, and nothing that is being written", async () => {
      const tab = await visitor.tab();
      await tab.load({ host: "private", store }, SMALL);
      const before = await keys(tab, SMALL, store);
      await tab.run(
        "leftovers",
        async ([folder, store, file]) => {
          const { openStore } = await import(new URL("tabloom/models/store.js", document.baseURI).href);
          const address = new URL(folder, document.baseURI).href;
          const kept = await openStore(store);
          const bytes = [new Uint8Array(9)];
          for (const rest of [`${file}?tabloom=1`, "other.safetensors?tabloom=0", "cut.json?tabloom"]) {
            if (!(await kept.put(address + rest, bytes))) throw new Error(rest);
          }
          engine.close();
        },
        [SMALL, store, FILE],
      );
      assert.equal((await keys(tab, SMALL, store)).length, before.length + 3);
      if (store === "opfs") {
        await tab.run("a write", async () => {
          const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("tabloom");
          globalThis.writing = await (await folder.getFileHandle("file", { create: true })).createWritable();
          await writing.write("whole");
          await folder.getFileHandle("crashed.crswap", { create: true });
        });
      }
      await tab.load({ host: "private", store }, SMALL);
      assert.deepEqual((await keys(tab, SMALL, store)).sort(), before.sort());
      await assertWhole(tab, SMALL, store);
      if (store === "opfs") {
        const written = await tab.run("the end of the write", async () => {
          await writing.close();
          const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("tabloom");
          const left = [];
          for await (const name of folder.keys()) if (name.endsWith(".crswap")) left.push(name);
          return { text: await (await (await folder.getFileHandle("file")).getFile()).text(), left };
        });
        assert.deepEqual(written, { text: "whole", left: [] });
      }
    });
  });
}
