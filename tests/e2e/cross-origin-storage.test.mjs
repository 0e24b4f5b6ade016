// Where the browser has Cross-Origin Storage, weights that one site has downloaded are there for all. No load depends
// on it.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { isPublic } from "../../pkg-template/host/sharing.js";
import { testBeyondWebkit } from "./browser.mjs";
import { ggufModel } from "./gguf.mjs";
import { goldens, HTML, openPackage } from "./package.mjs";
import { largeModel } from "./large.mjs";
import { modelFile, sendPart, serve, sha256 } from "./server.mjs";
import { API, SharedStorage } from "./shared-storage.mjs";

const FILE = "model.safetensors";
const SMALL = ["config.json", "tokenizer.json", "tokenizer_config.json"];
const FOLDER = "models/kept/";
const LARGE = "models/large/";
const GGUF = "models/gg%20uf/";
const COMMIT = "1".repeat(40);
const REPOSITORY = `hf/org/name/resolve/${COMMIT}/`;
const API_FOLDER = "hf/api/models/org/name/";
const [FRANCE] = goldens;

const weights = await modelFile(FILE);
const digest = sha256(weights);
const large = await largeModel(1024);
const gguf = ggufModel(64);
const files = Object.fromEntries(await Promise.all(SMALL.map(async (file) => [file, await modelFile(file)])));
const others = SMALL.reduce((sum, file) => sum + files[file].length, 0);
const integrity = { files: { [FILE]: { sha256: digest, bytes: weights.length } } };
for (const file of SMALL) integrity.files[file] = { sha256: sha256(files[file]), bytes: files[file].length };

const LIST = JSON.stringify([
  { type: "file", path: "config.json", size: files["config.json"].length },
  { type: "file", path: FILE, size: weights.length, lfs: { oid: digest, size: weights.length } },
]);
const BRANCH = JSON.stringify({ sha: COMMIT, siblings: [...SMALL, FILE].map((rfilename) => ({ rfilename })) });

/** The site stands in for Hugging Face. */
const HUB = `
  const network = fetch;
  const local = (url) => (typeof url === "string" ? url.replace("https://huggingface.co/", location.origin + "/hf/") : url);
  globalThis.fetch = (url, options) => network(local(url), options);`;

/** Requests of weights, of any site. */
let downloads;
let storage;

/** The files of a site: a page and workers with the API, and two with one that is broken. */
function site() {
  const sender = (bytes) => (response) => {
    downloads.push(response.req.url);
    sendPart(response, bytes);
  };
  const send = sender(weights);
  const worker = (name) => [`${name}-worker.js`, `import "./${name}.js"; import "./tabloom/worker.js";`];
  const scripts = {
    "cos.js": API + HUB,
    "throws.js": `Object.defineProperty(navigator, "crossOriginStorage", { get() { throw new Error("broken"); } });`,
    "none.js": "",
    ...Object.fromEntries(["cos", "throws", "none"].map(worker)),
  };
  const html = (name) => HTML.replace("<script", `<script src="${name}.js"></script>\n<script`);
  const pages = Object.fromEntries(["cos", "throws"].map((name) => [`${name}.html`, html(name)]));
  return {
    "": { ...scripts, ...pages },
    "cos/": { storage: (response) => storage.folder.storage(response) },
    [FOLDER]: { [FILE]: send },
    [LARGE]: { ...large, [FILE]: sender(large[FILE]) },
    [GGUF]: { "m%2B.gguf": sender(gguf) },
    [REPOSITORY]: { ...files, [FILE]: send },
    [`${API_FOLDER}revision/`]: { main: BRANCH },
    [`${API_FOLDER}tree/`]: { [COMMIT]: LIST },
  };
}

/** A page of one site, and one of another in the same browser. */
let session;
let elsewhere;
let [here, there] = /** @type {any[]} */ ([]);

before(async () => {
  session = await openPackage(site());
  elsewhere = await serve(site());
  here = { page: session.page, url: session.server.url };
  there = { page: await session.browser.newPage(), url: elsewhere.url };
});

beforeEach(async () => {
  [downloads, storage] = [[], new SharedStorage()];
  for (const site of [here, there]) {
    await open(site);
    await site.page.evaluate(() => caches.delete("tabloom"));
  }
});

after(async () => {
  await session?.close();
  await elsewhere?.close();
});

/** Visits a site anew. */
async function open({ page, url }, name = "cos") {
  await page.goto(`${url}${name}.html`);
  await page.waitForFunction(() => globalThis.Engine);
}

/** Loads the model at a site, and checks that it is the right one. Its worker stays, as it may have more to do. */
async function load({ page }, options = {}, model = FOLDER) {
  const all = { host: "private", device: "cpu", workerUrl: "cos-worker.js", integrity, ...options };
  const { answer, stored } = await page.evaluate(
    async ([model, options, messages]) => {
      globalThis.engine = await Engine.load(model, options);
      return { answer: await answer(engine, messages), stored: engine.info.stored };
    },
    [model, all, FRANCE.messages],
  );
  assert.equal(answer, FRANCE.answer);
  return stored;
}

/** Visits a site and loads another model there. */
async function visit(site, model, integrity) {
  const options = { ...ALL, host: "private", device: "cpu", workerUrl: "cos-worker.js", integrity };
  await open(site);
  const load = async ([model, options]) => (await Engine.load(model, options)).info.stored;
  assert.equal(await site.page.evaluate(load, [model, options]), true);
}

/** What a site keeps of the model. */
async function kept({ page }) {
  const [model] = await page.evaluate(() => Engine.store.list());
  if (!model) return null;
  const { bytes, sharedBytes, complete } = model;
  return { bytes, sharedBytes, complete };
}

async function until(what, is) {
  for (const end = Date.now() + 60_000; !(await is()); ) {
    if (Date.now() > end) throw new Error(`${what}: not within a minute. Asked for: ${storage.asked}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Waits until a site has given the weights away, and no load holds its model. */
const moved = (site) =>
  until("the weights are given away", async () => {
    const held = await site.page.evaluate(async () => (await navigator.locks.query()).held.map(({ name }) => name));
    return (await kept(site))?.sharedBytes > 0 && !held.some((name) => /^tabloom (offer )?http/.test(name));
  });

/** Waits until a task has been asked for. */
const asked = (task) => until(task, async () => storage.asked.includes(task));

const OWN = { bytes: others + weights.length, sharedBytes: 0, complete: true };
const SHARED = { bytes: others, sharedBytes: weights.length, complete: true };
const ALL = { crossOriginStorage: "all" };

/** Has one site give the weights to all. */
async function give() {
  await load(here, ALL);
  await moved(here);
  downloads.length = 0;
}

test("what one site has downloaded, another asks no server for, and there is one copy", async () => {
  assert.equal(await load(here, ALL), true);
  await moved(here);
  assert.deepEqual(await kept(here), SHARED);
  assert.deepEqual([downloads.length, storage.files.get(digest).bytes.equals(weights)], [1, true]);

  assert.equal(await load(there), true);
  assert.deepEqual(await kept(there), SHARED);
  for (const site of [here, there]) {
    await open(site);
    assert.equal(await load(site), true);
  }
  assert.equal(downloads.length, 1);
  assert.deepEqual([...storage.files.keys()], [digest], "weights alone are shared");
});

test("a worker of all tabs shares, too", async () => {
  await load(here, { ...ALL, host: "shared" });
  await moved(here);
  await load(there, { ...ALL, host: "shared" });
  assert.equal(downloads.length, 1);
});

testBeyondWebkit("disk")("the site's copy goes from the file system, too", async () => {
  await load(here, { ...ALL, store: "opfs" });
  await moved(here);
  assert.deepEqual(await kept(here), SHARED);
  await open(here);
  await load(here, { ...ALL, store: "opfs" });
  assert.equal(downloads.length, 1);
  assert.equal(await here.page.evaluate((folder) => Engine.store.delete(folder), FOLDER), true);
});

test("a large file is the same in all its chunks and parts", async () => {
  const expected = structuredClone(integrity);
  for (const [file, bytes] of Object.entries(large))
    expected.files[file] = { sha256: sha256(bytes), bytes: bytes.length };
  await visit(here, LARGE, expected);
  await moved(here);
  downloads.length = 0;
  await visit(there, LARGE, expected);
  await visit(there, LARGE, expected);
  assert.deepEqual(downloads, []);
  assert.equal((await kept(there)).sharedBytes, large[FILE].length);
});

test("a GGUF file is shared, however its address is written, but not where that is signed", async () => {
  const expected = { files: { "m+.gguf": { sha256: sha256(gguf) } } };
  await visit(here, `${GGUF}m%2B.gguf?sig=one`, expected);
  await visit(here, `${GGUF}m%2B.gguf?sig=two`, expected);
  assert.deepEqual([storage.asked, downloads.length], [[], 1]);
  await visit(here, `${GGUF}m%2B.gguf`, expected);
  await moved(here);
  await visit(there, `${GGUF}m%2B.gguf`, expected);
  assert.equal(downloads.length, 1);
  assert.deepEqual(await kept(there), { bytes: 0, sharedBytes: gguf.length, complete: true });
});

for (const [what, name, options] of /** @type {const} */ ([
  ["Hugging Face's list says what weights are, and anybody may have them", `org/name@${COMMIT}`, {}],
  ["a mirror's list says it, too", "org/name", { ...ALL, hub: "hf" }],
])) {
  test(what, async () => {
    await load(here, { ...options, integrity: undefined }, name);
    await moved(here);
    assert.equal(downloads.length, 1);
    await load(there, { ...options, integrity: undefined }, name);
    assert.deepEqual(await kept(there), SHARED);
    assert.equal(downloads.length, 1);
  });
}

test("only what is public is given away unasked", async () => {
  await load(here);
  await open(here);
  await load(here);
  assert.deepEqual(await kept(here), OWN);
  assert.equal(storage.files.size, 0);
  assert.ok(isPublic(`https://huggingface.co/org/name/resolve/${COMMIT}/`));
  for (const url of [
    "https://models.example/huggingface.co/",
    "https://huggingface.co.example/org/name/resolve/main/",
    "http://huggingface.co/org/name/resolve/main/",
    "https://huggingface.co/org/name/resolve/main/?token=1",
  ]) {
    assert.ok(!isPublic(url), url);
  }
});

test("a page can switch it off, and says so in one of three words", async () => {
  await give();
  storage.asked.length = 0;
  await load(there, { crossOriginStorage: "none" });
  assert.deepEqual([downloads.length, storage.asked], [1, []]);
  const refused = await there.page.evaluate(() =>
    failure(Engine.load("model/", /** @type {any} */ ({ crossOriginStorage: true }))),
  );
  assert.deepEqual([refused.typed, refused.code, refused.param], [true, "invalid_request", "crossOriginStorage"]);
  assert.match(refused.message, /found true, expected one of public, all, none/);
});

test("a load that keeps nothing gives nothing away", async () => {
  await give();
  assert.equal(await load(there, { ...ALL, store: "none" }), false);
  assert.equal(downloads.length, 0);
  storage.files.clear();
  assert.equal(await load(there, { ...ALL, store: "none" }), false);
  assert.deepEqual([downloads.length, storage.files.size], [1, 0]);
});

test("deleting a model leaves what all sites have", async () => {
  await give();
  assert.equal(await here.page.evaluate((folder) => Engine.store.delete(folder), FOLDER), true);
  assert.equal(await kept(here), null);
  assert.equal(storage.files.size, 1);
  await open(here);
  await load(here);
  assert.equal(downloads.length, 0);
});

test("what the browser has dropped is downloaded again", async () => {
  await give();
  storage.files.clear();
  await open(here);
  assert.deepEqual(await kept(here), { ...SHARED, sharedBytes: 0, complete: false });
  await load(here, ALL);
  assert.equal(downloads.length, 1);
  await moved(here);
  assert.deepEqual(await kept(here), SHARED);
});

test("a browser that allows nothing is as one without", async () => {
  await give();
  storage.acts = { find: 403, create: 403 };
  assert.equal(await load(there, ALL), true);
  await asked("create");
  assert.equal(downloads.length, 1);
  assert.deepEqual(await kept(there), OWN);
});

test("bytes of another digest, or of another length, are refused, and the server is asked", async () => {
  await give();
  for (const wrong of [
    (bytes) => Buffer.from(bytes.map((byte, index) => (index === bytes.length - 5 ? byte ^ 4 : byte))),
    (bytes) => bytes.subarray(1),
  ]) {
    downloads.length = 0;
    storage.acts = { read: wrong };
    assert.equal(await load(there), true);
    assert.equal(downloads.length, 1);
    assert.deepEqual(await kept(there), OWN);
    await there.page.evaluate(() => caches.delete("tabloom"));
    await open(there);
  }
  // The site that has given its copy away knows each chunk's digest.
  storage.acts = { read: (bytes) => Buffer.from(bytes.map((byte, index) => (index === 9000 ? byte ^ 1 : byte))) };
  downloads.length = 0;
  await open(here);
  assert.equal(await load(here), true);
  assert.equal(downloads.length, 1);
});

test("a write that is refused or broken off leaves the site's copy, and is not tried at each visit", async () => {
  for (const acts of [{ write: 507 }, { "close*": 422 }, { "close*": 507 }]) {
    storage = new SharedStorage();
    storage.acts = acts;
    await load(here, ALL);
    await asked("abort");
    assert.deepEqual(await kept(here), OWN);
    storage.acts = {};
    await open(here);
    storage.asked.length = 0;
    await load(here, ALL);
    assert.ok(!storage.asked.includes("create"));
    await here.page.evaluate(() => caches.delete("tabloom"));
    await open(here);
  }
  assert.ok([...storage.files.values()].every(({ bytes }) => bytes === null));
});

test("a visit that ends while it writes leaves its copy, and the next one gives it away", async () => {
  storage.acts = { write: "never" };
  await load(here, ALL);
  await asked("write");
  await open(here);
  assert.deepEqual(await kept(here), OWN);
  storage.acts = {};
  await load(here, ALL);
  await moved(here);
  assert.equal(downloads.length, 1);
});

for (const [what, acts] of /** @type {const} */ ([
  ["never answers", { find: "never", create: "never" }],
  ["finds files that never come", { read: "never" }],
  ["gives files of which no byte comes", { read: "stalls" }],
])) {
  test(`a browser that ${what} holds up no load`, async () => {
    await give();
    storage.acts = acts;
    assert.equal(await load(there, ALL), true);
    assert.equal(downloads.length, 1);
  });
}

test("an API that throws, and one that workers have not got, hold up no load", async () => {
  await open(there, "throws");
  assert.equal(await load(there, { ...ALL, workerUrl: "throws-worker.js" }), true);
  assert.deepEqual(await kept(there), OWN);
  await open(here);
  assert.equal(await load(here, { ...ALL, workerUrl: "none-worker.js" }), true);
  assert.deepEqual(await kept(here), OWN);
  assert.equal(downloads.length, 2);
});
