// `Engine.probe`: what a page learns of the browser before it loads a model.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "./browser.mjs";
import { openPackage } from "./package.mjs";

let session;
let page;

before(async () => {
  session = await openPackage();
  page = session.page;
});

after(() => session?.close());

const GIB = 2 ** 30;

test("it tells of GPU, memory, workers and storage, and loads nothing for that", async () => {
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
  assert.deepEqual(memory, { deviceBytes: device.memory * GIB, budgetBytes: 4 * GIB });
  assert.deepEqual(workers, { shared: true, service: true, locks: true });
  assert.deepEqual([storage.cache, storage.opfs, storage.persisted], [true, true, false]);
  assert.ok(storage.quota > storage.usage && storage.usage >= 0, JSON.stringify(storage));
  assert.deepEqual(probe.models, []);
  const loaded = session.server.requests.filter((path) => /wasm|worker\.js|model\//.test(path));
  assert.deepEqual(loaded, []);
});

test("it tells which models fit, and which are kept", async () => {
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
