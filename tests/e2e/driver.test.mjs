// Drivers of phones that fail in what WebGPU promises: the engine makes do, or says what is wrong.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { goldens, openPackage } from "./package.mjs";

const [FRANCE] = goldens;

/** Has the software adapter pass for a phone's GPU. */
const PHONE = `
  const names = { vendor: "qualcomm", architecture: "adreno-6xx", device: "", description: "", isFallbackAdapter: false };
  for (const [name, value] of Object.entries(names)) Object.defineProperty(GPUAdapterInfo.prototype, name, { value });`;

/** The driver fails to compile shaders for which `fails` holds, as one does: with an internal error. */
const compiler = (fails) => `${PHONE}
  const { createShaderModule, pushErrorScope, popErrorScope } = GPUDevice.prototype;
  const { createComputePipeline, createComputePipelineAsync } = GPUDevice.prototype;
  const failing = new WeakSet();
  const scopes = [];
  Object.assign(GPUDevice.prototype, {
    createShaderModule(descriptor) {
      const module = createShaderModule.call(this, descriptor);
      const { label, code } = descriptor;
      if (${fails}) failing.add(module);
      return module;
    },
    createComputePipeline(descriptor) {
      if (!failing.has(descriptor.compute.module)) return createComputePipeline.call(this, descriptor);
      const error = new GPUInternalError("VK_ERROR_UNKNOWN");
      const scope = scopes.findLast(({ filter }) => filter === "internal");
      if (scope) scope.error = error;
      else setTimeout(() => this.dispatchEvent(new GPUUncapturedErrorEvent("uncapturederror", { error })));
      return Object.create(GPUComputePipeline.prototype);
    },
    createComputePipelineAsync(descriptor) {
      if (!failing.has(descriptor.compute.module)) return createComputePipelineAsync.call(this, descriptor);
      return Promise.reject(new GPUPipelineError("VK_ERROR_UNKNOWN", { reason: "internal" }));
    },
    pushErrorScope(filter) {
      scopes.push({ filter });
      pushErrorScope.call(this, filter);
    },
    async popErrorScope() {
      const { error } = scopes.pop();
      return (await popErrorScope.call(this)) ?? error ?? null;
    },
  });`;

/** Shaders that have a simpler variant of another name. */
const MATRICES = "/^mat(?:vec|mul)$/.test(label)";

/**
 * Whatever the adapter has, it seems to have subgroups; a shader with them breaks the driver's compiler for good. It
 * fails to compile the matrices, too, which take long on the software adapter.
 */
const SUBGROUPS = `
  let broken = false;
  ${compiler(`(broken ||= code.includes("enable subgroup")) || ${MATRICES}`)}
  const { has } = GPUSupportedFeatures.prototype;
  GPUSupportedFeatures.prototype.has = function (name) {
    return name === "subgroups" || has.call(this, name);
  };
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = function ({ requiredFeatures, ...others }) {
    const had = requiredFeatures.filter((name) => has.call(this.features, name));
    return requestDevice.call(this, { ...others, requiredFeatures: had });
  };`;

/** Tells pages which shaders the driver is to compile. */
const TELLING = `
  const { createShaderModule: compile } = GPUDevice.prototype;
  const shaders = new BroadcastChannel("shaders");
  GPUDevice.prototype.createShaderModule = function (descriptor) {
    shaders.postMessage(descriptor.code);
    return compile.call(this, descriptor);
  };`;

/** Tells pages how many pipelines are compiled ahead, the most of them at once, and how many wgpu asks for. */
const COUNTING = `
  const { createComputePipeline, createComputePipelineAsync } = GPUDevice.prototype;
  const counts = new BroadcastChannel("counts");
  let [compiling, most, ahead, asked] = [0, 0, 0, 0];
  GPUDevice.prototype.createComputePipelineAsync = async function (descriptor) {
    most = Math.max(most, ++compiling);
    const pipeline = await createComputePipelineAsync.call(this, descriptor);
    [compiling, ahead] = [compiling - 1, ahead + 1];
    return pipeline;
  };
  GPUDevice.prototype.createComputePipeline = function (descriptor) {
    asked += 1;
    counts.postMessage({ compiling, most, ahead, asked });
    return createComputePipeline.call(this, descriptor);
  };`;

/** An error of a command, outside of all scopes, when a page wants it. */
const REFUSING = `
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (descriptor) {
    const device = await requestDevice.call(this, descriptor);
    new BroadcastChannel("refuse").onmessage = () => {
      const error = new GPUInternalError("VK_ERROR_UNKNOWN");
      device.dispatchEvent(new GPUUncapturedErrorEvent("uncapturederror", { error }));
    };
    return device;
  };`;

const NAMELESS = `
  delete GPUAdapter.prototype.info;
  delete GPUDevice.prototype.adapterInfo;`;

let session;
let page;

before(async () => {
  const scripts = {
    barriers: compiler(MATRICES),
    all: compiler("true"),
    subgroups: SUBGROUPS,
    counting: COUNTING,
    telling: compiler(MATRICES) + TELLING,
    refusing: REFUSING,
    // It does not pass for one that is emulated, so it is not to compile what takes long where it is.
    nameless: compiler(MATRICES) + NAMELESS,
  };
  const files = Object.entries(scripts).flatMap(([name, script]) => [
    [`${name}-patch.js`, script],
    [`${name}.js`, `import "./${name}-patch.js"; import "./tabloom/worker.js";`],
  ]);
  session = await openPackage({ "": Object.fromEntries(files) });
  page = session.page;
});

after(() => session?.close());

/** The answer about France of a private engine with this worker, and what it says of itself. */
const load = (workerUrl, options = {}) =>
  page.evaluate(
    async ({ workerUrl, options, messages }) => {
      const engine = await Engine.load("model/", { host: "private", workerUrl, ...options });
      const text = await answer(engine, messages);
      engine.close();
      return { text, info: engine.info };
    },
    { workerUrl, options, messages: FRANCE.messages },
  );

test("shaders that the driver cannot compile give way to simpler ones", async () => {
  const { text, info } = await load("barriers.js");
  assert.equal(text, FRANCE.answer);
  assert.deepEqual([info.software, info.adapter], [false, "qualcomm adreno-6xx, WebGPU"]);
});

test("a driver that compiles nothing is an error that names the shader, after one load", async () => {
  const before = session.server.requests.filter((path) => path === "all.js").length;
  const failed = await page.evaluate(() => failure(Engine.load("model/", { host: "private", workerUrl: "all.js" })));
  assert.deepEqual([failed.typed, failed.code], [true, "pipeline"]);
  assert.match(failed.message, /cannot compile \w+: VK_ERROR_UNKNOWN.*device "cpu"/);
  assert.equal(session.server.requests.filter((path) => path === "all.js").length, before + 1);
});

test("a command that the driver refuses fails the request; the next is answered on another device", async () => {
  const { failed, text } = await page.evaluate(async (messages) => {
    const engine = await Engine.load("model/", { host: "private", workerUrl: "refusing.js" });
    const story = [{ role: /** @type {const} */ ("user"), content: "Tell me a story about a fox." }];
    const read = async () => {
      const chunks = await engine.chat.completions.create({ messages: story, stream: true });
      for await (const _ of chunks) new BroadcastChannel("refuse").postMessage("");
    };
    const failed = await failure(read());
    const text = await answer(engine, messages);
    engine.close();
    return { failed, text };
  }, FRANCE.messages);
  assert.deepEqual([failed.typed, failed.code], [true, "gpu"]);
  assert.match(failed.message, /VK_ERROR_UNKNOWN/);
  assert.equal(text, FRANCE.answer);
});

test("an adapter without information about itself is used, and probed", async () => {
  const { text, info } = await load("nameless.js");
  assert.deepEqual([text, info.adapter], [FRANCE.answer, "an adapter without a name, WebGPU"]);
  const gpu = await page.evaluate(async () => {
    const info = /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(GPUAdapter.prototype, "info"));
    Reflect.deleteProperty(GPUAdapter.prototype, "info");
    const { gpu } = await Engine.probe();
    Object.defineProperty(GPUAdapter.prototype, "info", info);
    return gpu;
  });
  assert.deepEqual([gpu.available, gpu.name, gpu.adapter.vendor], [true, "", ""]);
});

test("a feature of the GPU that breaks the driver is turned off by its name", async () => {
  const used = await page.evaluate(() =>
    failure(Engine.load("model/", { host: "private", workerUrl: "subgroups.js" })),
  );
  assert.equal(used.code, "pipeline");
  const { text } = await load("subgroups.js", { gpu: { subgroups: false } });
  assert.equal(text, FRANCE.answer);
});

test("shaders ask for the smallest subgroups, then for those of any size, then for none", async () => {
  const { smallest } = await page.evaluate(async () => {
    globalThis.sources = [];
    new BroadcastChannel("shaders").onmessage = ({ data }) => globalThis.sources.push(data);
    return { smallest: (await navigator.gpu.requestAdapter()).info.subgroupMinSize };
  });
  assert.equal((await load("telling.js")).text, FRANCE.answer);
  const sources = await page.evaluate(() => globalThis.sources);
  const asked = sources.map((code) => /^enable \w+;/m.exec(code)?.[0] ?? "");
  const [sized, any] = ["enable subgroup_size_control;", "enable subgroups;"];
  assert.deepEqual([...new Set(asked)].filter(Boolean), [sized, any]);
  assert.ok(asked.lastIndexOf(sized) < asked.indexOf(any) && asked.lastIndexOf(any) < asked.lastIndexOf(""));
  for (const code of sources.filter((_, i) => asked[i] === sized)) {
    assert.ok(code.includes(`@compute @workgroup_size(64) @subgroup_size(${smallest})`), code);
  }
});

test("pipelines are compiled side by side before wgpu asks for each", async () => {
  await page.evaluate(() => {
    new BroadcastChannel("counts").onmessage = ({ data }) => (globalThis.counts = data);
  });
  assert.equal((await load("counting.js")).text, FRANCE.answer);
  const { compiling, most, ahead, asked } = await page.evaluate(() => globalThis.counts);
  assert.deepEqual([compiling, ahead], [0, asked]);
  assert.ok(most > 20, `${most} at once`);
});

test("an unknown feature of the GPU, or one that is neither on nor off, is refused", async () => {
  const refused = (gpu) => page.evaluate((gpu) => failure(Engine.load("model/", { host: "private", gpu })), gpu);
  for (const [gpu, param] of [
    [{ subgroup: false }, "gpu.subgroup"],
    [{ subgroups: "no" }, "gpu.subgroups"],
    [7, "gpu"],
  ]) {
    const failed = await refused(gpu);
    assert.deepEqual([failed.code, failed.param], ["invalid_request", param]);
  }
});
