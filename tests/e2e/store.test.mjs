// What is downloaded once is kept in the browser and checked each time; what breaks off goes on.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { testBeyondWebkit, waitUntil } from "./browser.mjs";
import { ggufModel } from "./gguf.mjs";
import { largeModel } from "./large.mjs";
import { goldens, openPackage } from "./package.mjs";
import { modelFile, sendPart, sha256 } from "./server.mjs";

const FILE = "model.safetensors";
const FOLDER = "models/kept/";
const weights = await modelFile(FILE);
const LARGE = "models/large/";
const large = await largeModel(1024);
const GGUF = "models/gg%20uf/";
const gguf = ggufModel(1024);

/** The ranges asked for of the weights, and what to do with the requests before it serves. */
let asked;
let acts;

function send(response) {
  asked.push(response.req.headers.range ?? "all");
  const act = acts.shift();
  if (act) return act(response);
  sendPart(response, weights);
}

function sendLarge(response) {
  asked.push(response.req.headers.range ?? "all");
  sendPart(response, large[FILE]);
}

function sendSigned(response) {
  asked.push(response.req.headers.range ?? "all");
  if (/\?se=2026&sig=\w+$/.test(response.req.url)) return sendPart(response, gguf);
  response.writeHead(403);
  response.end();
}

/**
 * Announces all of the file and hangs up after so many bytes, once they have been read: a browser
 * drops what waits in a stream that breaks.
 */
const hangUp = (bytes) => (response) => {
  response.writeHead(200, { "content-length": weights.length });
  response.write(weights.subarray(0, bytes), () => setTimeout(() => response.destroy(), 1000));
};

/** Sends all of the file, with one bit changed. */
const flip = (response) => {
  const damaged = Buffer.from(weights);
  damaged[damaged.length - 5] ^= 4;
  response.writeHead(200, { "content-length": damaged.length });
  response.end(damaged);
};

/** What the files of the built-in model are. */
async function manifest() {
  const files = {};
  for (const file of ["config.json", "tokenizer.json", "tokenizer_config.json", FILE]) {
    files[file] = { sha256: sha256(await modelFile(file)) };
  }
  return { files };
}

/** Workers whose store opens late, in a way: never, or to answer nothing. Their long waits are short. */
const hurried = `
  const { setTimeout } = globalThis;
  globalThis.setTimeout = (then, delay) => setTimeout(then, delay >= 30_000 ? delay / 100 : delay);
  const never = () => new Promise(() => {});`;
const SILENT = {
  "shut.js": `${hurried} caches.open = never;`,
  "deaf.js": `${hurried} caches.open = async () => ({ match: never, put: never, delete: never, keys: never });`,
  "shut-worker.js": `import "./shut.js"; import "./tabloom/worker.js";`,
  "deaf-worker.js": `import "./deaf.js"; import "./tabloom/worker.js";`,
};

let session;
let page;

before(async () => {
  session = await openPackage({
    [FOLDER]: { [FILE]: send },
    [LARGE]: { ...large, [FILE]: sendLarge },
    [GGUF]: { "m%2B.gguf": sendSigned },
    "": SILENT,
  });
  page = session.page;
});

beforeEach(async () => {
  [asked, acts] = [[], []];
  await page.evaluate(() => caches.delete("tabloom"));
});

afterEach(() => page.evaluate(() => globalThis.engine?.close()));

after(() => session?.close());

/** Loads the model in a worker of its own, as a new visit does, and checks that it is the right one. */
async function load(options = {}) {
  const { messages, answer: expected } = goldens[0];
  const load = async ([folder, options, messages]) => {
    globalThis.engine?.close();
    globalThis.engine = await Engine.load(folder, { host: "private", device: "cpu", ...options });
    return { answer: await answer(engine, messages), stored: engine.info.stored };
  };
  const { answer, stored } = await page.evaluate(load, [FOLDER, options, messages]);
  assert.equal(answer, expected);
  return stored;
}

const failToLoad = (options = {}) =>
  page.evaluate(
    ([folder, options]) => failure(Engine.load(folder, { host: "private", device: "cpu", ...options })),
    [FOLDER, options],
  );

/** Does something to the only chunk of the weights. */
const spoil = (how) =>
  page.evaluate(
    async ([folder, file, how]) => {
      const cache = await caches.open("tabloom");
      const key = (await cache.keys()).find(({ url }) => url.endsWith(`${folder}${file}?tabloom=0`));
      const bytes = new Uint8Array(await (await cache.match(key)).arrayBuffer());
      bytes[bytes.length >> 1] ^= 1;
      if (how === "flip") await cache.put(key, new Response(bytes));
      else await cache.delete(key);
    },
    [FOLDER, FILE, how],
  );

test("the first visit asks for the files that the guide names, the second for nothing", async () => {
  const { requests } = session.server;
  const files = () => requests.filter((path) => path.startsWith(FOLDER)).map((path) => path.slice(FOLDER.length));
  requests.length = 0;
  assert.equal(await load(), true);
  assert.deepEqual([...new Set(files())].sort(), [
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "draft/config.json",
    `draft/${FILE}`,
    "generation_config.json",
    FILE,
    "tokenizer.json",
    "tokenizer_config.json",
  ]);
  requests.length = 0;
  assert.equal(await load(), true);
  assert.deepEqual(files(), []);
  assert.deepEqual(asked, ["all"]);
});

test("what was evicted or changed in the store is fetched again", async () => {
  await load();
  for (const how of ["evict", "flip"]) {
    asked.length = 0;
    await spoil(how);
    await load();
    assert.deepEqual(asked, ["all"], how);
    await load();
    assert.deepEqual(asked, ["all"], how);
  }
});

test("a download that breaks off goes on where it was", async () => {
  acts.push(hangUp(weights.length >> 1));
  await load();
  assert.equal(asked.length, 2);
  const start = Number(asked[1].match(/^bytes=(\d+)-$/)[1]);
  assert.ok(start > 0 && start <= weights.length >> 1, asked[1]);
});

test("a server without ranges has its first bytes skipped", async () => {
  const whole = (response) => {
    response.writeHead(200, { "content-length": weights.length });
    response.end(weights);
  };
  acts.push(hangUp(weights.length >> 1), whole);
  await load();
  assert.equal(asked.length, 2);
});

test("a manifest decides what runs", async () => {
  const integrity = await manifest();
  assert.equal(await load({ integrity }), true);
  await page.evaluate(() => caches.delete("tabloom"));
  acts.push(flip);
  const damaged = await failToLoad({ integrity });
  assert.equal(damaged.code, "integrity", damaged.message);
  assert.match(damaged.details.what, /model\.safetensors$/);
  assert.match(damaged.details.expected, new RegExp(integrity.files[FILE].sha256));
  assert.equal(await load({ integrity }), true, "nothing of it was kept");

  const wrong = structuredClone(integrity);
  wrong.files["config.json"].sha256 = sha256("something else");
  assert.equal((await failToLoad({ integrity: wrong })).code, "integrity");
  const malformed = await failToLoad({ integrity: { files: { [FILE]: { sha256: "12" } } } });
  assert.equal(malformed.param, `integrity.files.${FILE}.sha256`, malformed.message);
});

test("nothing is kept where nothing should be", async () => {
  assert.equal(await load({ store: "none" }), false);
  const keys = () => page.evaluate(async () => (await (await caches.open("tabloom")).keys()).length);
  assert.equal(await keys(), 0);
  await load({ store: "none" });
  assert.deepEqual(asked, ["all", "all"]);
});

test("two workers load a model at once, and it is downloaded once", async () => {
  await page.evaluate(async (folder) => {
    const engines = [0, 1].map(() => Engine.load(folder, { host: "private", device: "cpu" }));
    for (const engine of await Promise.all(engines)) engine.close();
  }, FOLDER);
  assert.deepEqual(asked, ["all"]);
});

testBeyondWebkit("pieces")(
  "a large file comes in parts over several connections, every byte in its place",
  async () => {
    const integrity = { files: {} };
    for (const file of ["config.json", "tokenizer.json", "tokenizer_config.json", FILE]) {
      integrity.files[file] = { sha256: sha256(large[file] ?? (await modelFile(file))) };
    }
    const stored = await page.evaluate(
      async ([folder, integrity]) => {
        globalThis.engine = await Engine.load(folder, { host: "private", device: "cpu", integrity });
        return engine.info.stored;
      },
      [LARGE, integrity],
    );
    assert.equal(stored, true);
    const [whole, ...parts] = asked;
    assert.equal(whole, "all");
    const part = 8 * 2 ** 20;
    let next = Number(parts[0].match(/^bytes=(\d+)-/)[1]);
    assert.ok(next > part && next < 2 * part, `${next}`);
    const { length } = large[FILE];
    for (const range of parts) {
      assert.equal(range, `bytes=${next}-${Math.min(next + part, length) - 1}`);
      next += part;
    }
    assert.ok(parts.length > 2 && next >= length);
  },
);

test("a GGUF file is held to its digest and kept to its last byte, under each signature", async () => {
  const address = `${GGUF}m%2B.gguf`;
  const loadSigned = (signature, digest) =>
    page.evaluate(
      async ([address, sha256]) => {
        const integrity = { files: { "m+.gguf": { sha256 } } };
        const options = { host: "private", device: "cpu", integrity };
        const loaded = Engine.load(address, /** @type {any} */ (options)).then((engine) => {
          globalThis.engine = engine;
          return engine.info;
        });
        return loaded.catch(({ code, message, details }) => ({ code, message, details }));
      },
      [`${address}?se=2026&sig=${signature}`, digest],
    );
  const refused = await loadSigned("one", sha256("another file"));
  assert.equal(refused.code, "integrity", refused.message);
  assert.equal(refused.details.found, sha256(gguf));
  assert.match(refused.message, /models\/gg uf\/m\+\.gguf is damaged/);
  assert.doesNotMatch(refused.message, /sig/);
  assert.deepEqual(await kept(), []);

  const { model, stored } = await loadSigned("one", sha256(gguf));
  assert.deepEqual([model, stored], [session.server.url + address, true]);
  const [{ age, ...entry }] = await kept();
  const kind = { store: "cache", sharedBytes: 0, prefixBytes: 0, complete: true };
  assert.deepEqual(entry, { model, files: 1, bytes: gguf.length, ...kind });
  await page.evaluate(() => engine.close());
  asked.length = 0;
  assert.equal((await loadSigned("two", sha256(gguf))).stored, true);
  assert.deepEqual(asked, []);
  const remove = (address) => page.evaluate((address) => Engine.store.delete(address), address);
  assert.equal(await remove(`${address}?se=2026&sig=three`), true);
  assert.deepEqual(await kept(), []);
});

/** What is kept of the model, as pages are told. */
const kept = () =>
  page.evaluate(async () => {
    const models = await Engine.store.list();
    return models.map(({ lastUsed, ...rest }) => ({ ...rest, age: lastUsed && Date.now() - Number(lastUsed) }));
  });

/** What the page's store gives for the model. */
const forget = () => page.evaluate((folder) => Engine.store.delete(folder), FOLDER);

test("pages list what is kept, and delete it", async () => {
  assert.deepEqual(await kept(), []);
  assert.equal(await forget(), false);
  const began = Date.now();
  await load();
  const [{ age, ...model }, ...others] = await kept();
  assert.deepEqual(others, []);
  assert.ok(age >= 0 && age <= Date.now() - began, `${age}`);
  const files = ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", FILE];
  files.push("draft/config.json", `draft/${FILE}`);
  const sizes = await Promise.all(files.map(async (file) => (await modelFile(file)).length));
  const bytes = sizes.reduce((a, b) => a + b);
  const url = `${session.server.url}${FOLDER}`;
  const kind = { store: "cache", sharedBytes: 0, prefixBytes: 0, complete: true };
  assert.deepEqual(model, { model: url, files: files.length, bytes, ...kind });
  const size = await page.evaluate(() => engine.store.size());
  assert.equal(size.bytes, bytes);
  assert.ok(size.usage > 0 && size.quota > size.usage, JSON.stringify(size));

  await spoil("evict");
  assert.equal((await kept())[0].complete, false);
  assert.equal(await forget(), true);
  assert.deepEqual(await kept(), []);
  assert.equal(await page.evaluate(async () => (await (await caches.open("tabloom")).keys()).length), 0);
  await load();
  assert.deepEqual(asked, ["all", "all"]);
});

test("a model that is being loaded is not deleted", async () => {
  acts.push((response) => {
    response.writeHead(200, { "content-length": weights.length });
    response.write(weights.subarray(0, weights.length >> 1));
  });
  const busy = await page.evaluate(async (folder) => {
    const controller = new AbortController();
    const { signal } = controller;
    await new Promise((onProgress) => {
      globalThis.loading = failure(Engine.load(folder, { host: "private", device: "cpu", onProgress, signal }));
    });
    while ((await Engine.store.list()).length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    const busy = await failure(Engine.store.delete(folder));
    controller.abort();
    await loading;
    return busy;
  }, FOLDER);
  assert.equal(busy.code, "model_busy");
  assert.equal(busy.details.model, `${session.server.url}${FOLDER}`);
  const [model] = await kept();
  assert.deepEqual([model.complete, model.age], [false, null]);
  // The worker that loaded it gives its lock back as it ends.
  await waitUntil(page, (folder) => Engine.store.delete(folder).catch(() => false), FOLDER);
  assert.deepEqual(await kept(), []);
});

testBeyondWebkit("disk")("the file system keeps models as well", async () => {
  const opfs = { store: "opfs" };
  assert.equal(await load({ ...opfs, host: "shared" }), true);
  assert.deepEqual(
    (await kept()).map(({ store, complete }) => [store, complete]),
    [["opfs", true]],
  );
  // A SharedWorker has written what a worker with synchronous access reads.
  assert.equal(await load(opfs), true);
  assert.deepEqual(asked, ["all"]);
  await page.evaluate(async (file) => {
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("tabloom");
    for await (const [name, handle] of folder.entries()) {
      if (!name.endsWith(encodeURIComponent(`${file}?tabloom=0`))) continue;
      const damage = await /** @type {FileSystemFileHandle} */ (handle).createWritable({ keepExistingData: true });
      await damage.write({ type: "write", position: 1000, data: new Uint8Array(9) });
      await damage.close();
    }
  }, FILE);
  assert.equal(await load(opfs), true);
  assert.equal(await load(opfs), true);
  assert.deepEqual(asked, ["all", "all"], "damage is mended once");
  assert.equal(await forget(), true);
  assert.deepEqual(await kept(), []);
});

/**
 * What another version may note of `ggufModel(64)`: version 0.1.0 has `version`, `sha256` and `is_absent` as well, and
 * does not know the last field.
 */
const RECORD = {
  chunk_bytes: 33554432,
  chunks: ["f5796eb86ce6448f8e1ab77df33fc8fe1f1eef0457386c5848409f2885233095"],
  bytes: 168032,
  length: 168032,
  is_sealed: true,
  from_elsewhere: { bytes: 1 },
};

/** In the page: writes what another version may have kept of a model, into either store. */
async function keepOld([store, address, record, bytes]) {
  const entries = Object.entries({
    [`${address}?tabloom`]: JSON.stringify(record),
    [`${address}?tabloom=0`]: new Uint8Array(bytes),
    [`${address}?tabloom-used`]: "1795804682190",
  });
  const cache = store === "cache" && (await caches.open("tabloom"));
  const root = store === "opfs" && (await navigator.storage.getDirectory());
  const folder = root && (await root.getDirectoryHandle("tabloom", { create: true }));
  for (const [key, content] of entries) {
    if (cache) await cache.put(key, new Response(content));
    if (!folder) continue;
    const file = await (await folder.getFileHandle(encodeURIComponent(key), { create: true })).createWritable();
    await file.write(content);
    await file.close();
  }
}

for (const [store, testHere] of /** @type {const} */ ([
  ["cache", test],
  ["opfs", testBeyondWebkit("disk")],
])) {
  testHere(`what another version has kept loads without network (${store})`, async () => {
    const address = new URL(`models/nowhere/old-${store}.gguf`, session.server.url).href;
    await page.evaluate(keepOld, [store, address, RECORD, [...ggufModel(64)]]);
    const { before, info, after } = await page.evaluate(
      async ([store, address]) => {
        const before = await Engine.store.list();
        globalThis.engine = await Engine.load(address, { device: "cpu", store });
        return { before, info: engine.info, after: await Engine.store.list() };
      },
      [store, address],
    );
    const [{ files, bytes, complete, lastUsed, ...kept }] = before;
    assert.deepEqual(
      [kept.store, files, bytes, complete, new Date(lastUsed).getTime()],
      [store, 1, 168032, true, 1795804682190],
    );
    assert.deepEqual([info.stored, info.architecture], [true, "llama"]);
    assert.equal(after[0].complete, true);
    assert.ok(!session.server.requests.includes(`models/nowhere/old-${store}.gguf`), "it was asked for");
  });
}

for (const store of ["shut", "deaf"]) {
  test(`a store that is ${store} keeps nobody waiting`, async () => {
    assert.equal(await load({ workerUrl: `${store}-worker.js` }), false);
    assert.deepEqual(asked, ["all"]);
  });
}
