// `Engine.probe`: what a page learns of the browser before it loads a model.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "./browser.mjs";
import { openPackage } from "./package.mjs";
import { modelFile, sendPart } from "./server.mjs";

let session;
let page;
/** Which parts of the weights were asked for. */
const ranges = [];

/** @param {import("node:http").ServerResponse} response */
const absent = (response) => response.writeHead(404).end();

/** Models that are looked at, all but the first with something wrong. */
const LOOKED_AT = {
  "models/good/": {
    "model.safetensors": async (response) => {
      ranges.push(response.req.headers.range);
      sendPart(response, await modelFile("model.safetensors"));
    },
  },
  "models/mamba/": { "config.json": JSON.stringify({ architectures: ["MambaForCausalLM"] }) },
  "models/mute/": { "tokenizer.json": absent, "tokenizer.model": "" },
  "models/onnx/": { "model.safetensors": absent, "model.safetensors.index.json": absent },
  "models/onnx/onnx/": { "model_quantized.onnx": "" },
  "models/adapter/": { "config.json": absent, "adapter_config.json": '{"base_model_name_or_path": "org/base"}' },
  "models/short/": {},
  "models/gated/": { "config.json": (response) => response.writeHead(401).end() },
};

before(async () => {
  const config = JSON.parse(`${await modelFile("config.json")}`);
  LOOKED_AT["models/short/"]["config.json"] = JSON.stringify({ ...config, num_hidden_layers: 99 });
  session = await openPackage(LOOKED_AT);
  page = session.page;
});

after(() => session?.close());

const GIB = 2 ** 30;

test("it reports GPU, memory, workers and storage, and loads nothing for that", async () => {
  const probe = await page.evaluate(() => Engine.probe());
  const { gpu, memory, workers, storage } = probe;
  assert.equal(probe.secure, true);
  assert.deepEqual([gpu.available, gpu.reason, gpu.software], [true, null, true]);
  assert.match(gpu.name, /swiftshader/i);
  const device = await page.evaluate(async () => {
    const adapter = await navigator.gpu.requestAdapter();
    const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
    const [f16, subgroups, timestamps] = ["shader-f16", "subgroups", "timestamp-query"].map((name) =>
      adapter.features.has(name),
    );
    return {
      f16,
      subgroups,
      timestamps,
      maxBufferSize,
      maxStorageBufferBindingSize,
      memory: /** @type {any} */ (navigator).deviceMemory,
    };
  });
  assert.deepEqual([gpu.f16, gpu.subgroups, gpu.timestamps], [device.f16, device.subgroups, device.timestamps]);
  assert.equal(gpu.limits.maxBufferSize, device.maxBufferSize);
  assert.equal(gpu.limits.maxStorageBufferBindingSize, device.maxStorageBufferBindingSize);
  for (const [name, limit] of Object.entries(gpu.limits)) assert.ok(limit > 0, name);
  const budgetBytes = Math.min(4, device.memory / 2) * GIB;
  assert.deepEqual(memory, { deviceBytes: device.memory * GIB, budgetBytes, budgetReason: "desktop" });
  assert.deepEqual(workers, { shared: true, service: true, locks: true });
  assert.deepEqual([storage.cache, storage.opfs, storage.persisted], [true, true, false]);
  assert.ok(storage.quota > storage.usage && storage.usage >= 0, JSON.stringify(storage));
  assert.deepEqual(probe.models, []);
  const loaded = session.server.requests.filter((path) => /wasm|worker\.js|model\//.test(path));
  assert.deepEqual(loaded, []);
});

test("it reports which models fit, and which are kept", async () => {
  const probe = (options) => page.evaluate((options) => Engine.probe(options), options);
  const { memory, storage, models } = await probe({
    models: [
      { id: "small", bytes: 2 ** 20 },
      { model: "model/", bytes: 2 ** 20 },
      { id: "large", bytes: 4 * GIB },
      { id: "enormous", bytes: 2 ** 60 },
    ],
  });
  const [small, unloaded, large, enormous] = models;
  const reason = memory.deviceBytes >= GIB ? null : small.reason;
  assert.deepEqual(small, {
    id: "small",
    bytes: 2 ** 20,
    neededBytes: 2 ** 20 + 2 ** 28,
    problem: null,
    fits: memory.deviceBytes >= GIB ? "yes" : "perhaps",
    reason,
    stored: false,
    storable: true,
  });
  assert.deepEqual([unloaded.id, unloaded.stored], ["model/", false]);
  assert.deepEqual([large.fits, large.storable], ["no", large.bytes <= storage.quota - storage.usage]);
  assert.match(large.reason, /budgetBytes/);
  assert.deepEqual([enormous.fits, enormous.storable], ["no", false]);

  const models2 = [{ id: "large", bytes: memory.deviceBytes * 0.8 }];
  const roomy = await probe({ models: models2, kvBytes: 0, budgetBytes: 2 ** 50 });
  assert.equal(roomy.models[0].fits, "perhaps");
  assert.match(roomy.models[0].reason, /memory/);

  await page.evaluate(async () => (await Engine.load("model/", { device: "cpu" })).close());
  const kept = await probe({ models: [{ model: "model/", bytes: 2 ** 20 }] });
  assert.deepEqual([kept.models[0].stored, kept.models[0].storable], [true, true]);
});

test("a model without its size is looked at, and its weights are not read", async () => {
  ranges.length = 0;
  const { models } = await page.evaluate(() =>
    Engine.probe({ models: [{ model: "models/good/" }, { id: "four bits", model: "models/good/", quantize: "w4" }] }),
  );
  const [good, small] = models;
  const info = await page.evaluate(async () => {
    const engine = await Engine.load("models/good/", { host: "private", store: "none" });
    engine.close();
    return engine.info;
  });
  assert.deepEqual([good.bytes, good.problem, good.stored], [info.weightBytes, null, false]);
  assert.ok(good.neededBytes > good.bytes, JSON.stringify(good));
  assert.equal(small.id, "four bits");
  assert.ok(small.bytes < good.bytes && small.problem === null, JSON.stringify(small));
  // The headers of the model, for each look; then the load.
  assert.deepEqual(ranges.slice(0, 2), ["bytes=0-65535", "bytes=0-65535"]);
  assert.deepEqual(ranges[2], undefined);
  await gone();
});

/** Waits until no worker is left. */
async function gone() {
  for (let tries = 0; page.workers().length > 0; tries++) {
    assert.ok(tries < 100, "the worker stays");
    await page.waitForTimeout(50);
  }
}

test("what is wrong with a model is said as a load says it, and costs no other model its answer", async () => {
  const bad = Object.keys(LOOKED_AT).filter((folder) => !/good|onnx\/onnx/.test(folder));
  const models = [...bad, "nowhere/", "http://127.0.0.1:1/"].map((model) => ({ model }));
  const probe = await page.evaluate((models) => Engine.probe({ models }), [...models, { model: "models/good/" }]);
  const told = {};
  for (const { id, bytes, neededBytes, fits, reason, problem } of probe.models.slice(0, -1)) {
    const load = (/** @type {string} */ model) => failure(Engine.load(model, { host: "private", store: "none" }));
    const { code, message, param } = await page.evaluate(load, id);
    assert.deepEqual(problem, { code, message, param });
    assert.deepEqual([bytes, neededBytes, fits, reason], [null, null, "no", message]);
    told[id.replace("models/", "")] = [code, message];
  }
  for (const [folder, code, words] of /** @type {[string, string, RegExp][]} */ ([
    ["mamba/", "unsupported_architecture", /Mamba.*keep a state.*Llama/],
    ["mute/", "missing_part", /\/mute\/ has no tokenizer\.json.*convert.*tokenizer\.model/],
    ["onnx/", "missing_part", /\/onnx\/ has no model\.safetensors.*ONNX.*GGUF.*model_quantized\.onnx/],
    ["adapter/", "missing_part", /\/adapter\/ has no config\.json.*adapter.*merge.*org\/base/],
    ["short/", "missing_tensor", /model\.layers\./],
    ["gated/", "fetch", /401.*private or gated/],
    ["nowhere/", "fetch", /config\.json: there is no such file/],
    ["http://127.0.0.1:1/", "fetch", /127\.0\.0\.1:1.*CORS/],
  ])) {
    assert.equal(told[folder]?.[0], code, folder);
    assert.match(told[folder][1], words);
  }
  assert.equal(probe.models.at(-1).problem, null);
  await gone();
});

test("a look ends with its signal", async () => {
  const [early, late] = await page.evaluate(async () => {
    const models = [{ model: "models/good/" }];
    const early = await failure(Engine.probe({ models, signal: AbortSignal.abort(new Error("early")) }));
    const life = new AbortController();
    const probe = failure(Engine.probe({ models, signal: life.signal }));
    setTimeout(() => life.abort(new Error("late")), 5);
    return [early, await probe];
  });
  assert.deepEqual([early.message, late.message], ["early", "late"]);
  await gone();
});

test("a model that is kept is looked at in the store", async () => {
  await page.evaluate(async () => (await Engine.load("models/good/", { host: "private" })).close());
  session.server.requests.length = 0;
  const { models } = await page.evaluate(() => Engine.probe({ models: [{ model: "models/good/" }] }));
  assert.deepEqual([models[0].problem, models[0].stored, models[0].storable], [null, true, true]);
  assert.ok(models[0].bytes > 0);
  const asked = session.server.requests.filter((path) => path.startsWith("models/"));
  assert.deepEqual(asked, []);
});

test("a model without its size or with no name, or one that names nothing, is refused", async () => {
  const failures = await page.evaluate(() =>
    Promise.all(
      [{ id: "a" }, { bytes: 5 }, { model: "nothing", bytes: 5 }].map((model) =>
        failure(Engine.probe({ models: [/** @type {any} */ (model)] })),
      ),
    ),
  );
  assert.deepEqual(
    failures.map(({ typed, code, param }) => [typed, code, param]),
    [
      [true, "invalid_request", "models[0].bytes"],
      [true, "invalid_request", "models[0].id"],
      [true, "invalid_request", "models[0].model"],
    ],
  );
});

test("without WebGPU, or without storage, it says so", async () => {
  const browser = await launch({ webgpu: false });
  try {
    const bare = await browser.newPage();
    await bare.goto(`${session.server.url}bare.html`);
    await bare.waitForFunction(() => globalThis.Engine);
    await bare.evaluate(() => {
      for (const [object, name] of /** @type {[object, string][]} */ ([
        [globalThis, "caches"],
        [navigator, "storage"],
        [navigator, "deviceMemory"],
      ])) {
        Object.defineProperty(object, name, { value: undefined });
      }
    });
    const { gpu, memory, storage, models } = await bare.evaluate(() =>
      Engine.probe({ models: [{ id: "small", bytes: 1 }] }),
    );
    assert.equal(gpu.available, false);
    assert.match(gpu.reason, /WebGPU|adapter/);
    assert.deepEqual([gpu.adapter, gpu.limits, gpu.name], [null, null, null]);
    assert.equal(memory.deviceBytes, null);
    assert.deepEqual(storage, { cache: false, opfs: false, usage: undefined, quota: undefined, persisted: null });
    assert.deepEqual([models[0].fits, models[0].storable], ["no", null]);
    assert.match(models[0].reason, /no GPU/);
  } finally {
    await browser.close();
  }
});

test("a browser that cannot estimate its storage leaves that open", async () => {
  const { probe, size } = await page.evaluate(async () => {
    const { estimate } = StorageManager.prototype;
    delete StorageManager.prototype.estimate;
    try {
      return { probe: await Engine.probe(), size: await Engine.store.size() };
    } finally {
      StorageManager.prototype.estimate = estimate;
    }
  });
  for (const { usage, quota } of [probe.storage, size]) assert.deepEqual([usage, quota], [undefined, undefined]);
  assert.equal(probe.storage.cache, true);
});

test("a browser whose storage and locks never answer is one that has none", async () => {
  const bare = await page.context().browser().newPage();
  await bare.goto(`${session.server.url}bare.html`);
  await bare.waitForFunction(() => globalThis.Engine);
  const { storage, workers, models } = await bare.evaluate(() => {
    const { timeout } = AbortSignal;
    AbortSignal.timeout = (milliseconds) => timeout.call(AbortSignal, milliseconds / 100);
    const never = () => new Promise(() => {});
    Object.assign(LockManager.prototype, { query: never, request: never });
    Object.assign(CacheStorage.prototype, { open: never, match: never, keys: never });
    Object.assign(StorageManager.prototype, { getDirectory: never, estimate: never, persisted: never });
    return Engine.probe({ models: [{ id: "small", bytes: 1 }] });
  });
  assert.deepEqual([storage.cache, storage.opfs, workers.locks], [false, false, false]);
  assert.equal(models[0].id, "small");
  await bare.close();
});
