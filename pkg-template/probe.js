// What this browser on this device can do, and which models would run on it.
import { childOf, unlessAborted } from "./abort.js";
import { chosen, plain } from "./calls/arguments.js";
import { TabloomError } from "./error.js";
import { noValue } from "./found.js";
import { inspector } from "./host/inspector.js";
import { available } from "./locks.js";
import { budget } from "./memory.js";
import { addresses, list } from "./models/inventory.js";
import { identify } from "./models/source.js";
import { KINDS, answered, estimate, openStore } from "./models/store.js";

/** @import { GpuReport, Probe, ProbeOptions, ProbedModel, StoredModel } from "./types.js" */

const GIB = 2 ** 30;
/** What the engine takes of a budget for keys and values by default, as in `load::capacity`. */
const shareOf = (/** @type {number} */ budgetBytes) => Math.min(budgetBytes / 16, GIB);
/** The most that browsers report; a device may have more. */
const MEMORY_REPORTED = 8 * GIB;
/** Milliseconds for an adapter to be found. */
const PATIENCE = 10_000;
/** As in `gpu::device`. */
const SOFTWARE = /swiftshader|llvmpipe|lavapipe|basic render/i;
const LIMITS = /** @type {const} */ ([
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupsPerDimension",
]);

/** The options. */
const NAMES = "models:Array kvBytes:Number budgetBytes:Number signal workerUrl hub registry:Object";

/** What there is of a browser: on a server nothing. */
const browser = /** @type {Navigator & {deviceMemory?: number}} */ (globalThis.navigator ?? {});
const secure = globalThis.isSecureContext;

/**
 * @param {ProbeOptions | null} [options]
 * @returns {Promise<Probe>}
 */
export function probe(options) {
  return chosen(options, NAMES, ({ signal, workerUrl, ...others }) =>
    plain(others, (copy) => report({ ...copy, signal, workerUrl })),
  );
}

/**
 * @param {ProbeOptions} options
 * @returns {Promise<Probe>}
 */
async function report(options) {
  const { models = [], hub, registry, signal, workerUrl } = options;
  signal?.throwIfAborted();
  for (const name of /** @type {const} */ (["kvBytes", "budgetBytes"])) {
    if (!((options[name] ?? 0) >= 0)) throw noValue(name, options[name], "bytes");
  }
  models.forEach(check);
  const places = await Promise.all(models.map((model, index) => placesOf(model, { hub, registry }, index)));
  const [gpu, storage, locks, [cache, opfs]] = await Promise.all([
    gpuReport(),
    answered(storageReport(), { usage: undefined, quota: undefined, persisted: null }),
    answered(available(), false),
    Promise.all(KINDS.map(async (kind) => (await answered(openStore(kind), null)) !== null)),
  ]);
  const memory = {
    deviceBytes: browser.deviceMemory ? browser.deviceMemory * GIB : null,
    ...budget(options.budgetBytes),
  };
  const { budgetBytes } = memory;
  const kvBytes = options.kvBytes ?? shareOf(budgetBytes);
  const complete = (await list()).filter((entry) => entry.complete);
  const workers = {
    shared: "SharedWorker" in globalThis,
    service: "serviceWorker" in browser,
    locks,
  };
  const life = signal ? childOf(signal) : new AbortController();
  // A TrustedScriptURL stays one.
  const inspect = inspector(/** @type {string | undefined} */ (workerUrl), life.signal);
  try {
    const probed = models.map(async (model, index) => {
      const kept = complete.find((entry) => places[index].includes(entry.model));
      const { fileBytes, ...needs } =
        model.bytes == null
          ? await look(model, index, { ...options, budgetBytes, kept, inspect })
          : { bytes: model.bytes, fileBytes: model.bytes, neededBytes: model.bytes + kvBytes, problem: null };
      return {
        id: model.id ?? `${model.model}`,
        ...needs,
        ...fit(needs, gpu, memory),
        stored: kept !== undefined,
        storable: kept !== undefined || hasRoom(fileBytes, storage),
      };
    });
    return {
      secure: Boolean(secure),
      gpu,
      memory,
      workers,
      storage: { cache, opfs, ...storage },
      models: await Promise.all(probed),
    };
  } finally {
    life.abort();
  }
}

/** @typedef {Pick<ProbedModel, "bytes" | "neededBytes" | "problem"> & {fileBytes: number | null}} Needs */

/**
 * What a model needs, as the first part of loading it finds.
 *
 * @param {Asked} model
 * @param {number} index
 * @param {ProbeOptions & {kept: StoredModel | undefined, inspect: ReturnType<typeof inspector>}} options
 * @returns {Promise<Needs>}
 */
async function look({ model = "", quantisation, quantize }, index, options) {
  const { kept, inspect, hub, registry, kvBytes, budgetBytes, signal } = options;
  try {
    const named = { hub, registry, quantisation, signal };
    const url = kept?.model ?? (await identify(model, named, `models[${index}].model`)).url;
    const found = await inspect(url, { quantize, kvBytes, budgetBytes, store: kept?.store ?? "none" });
    const { weightBytes: bytes, fileBytes } = found;
    return { bytes, fileBytes, neededBytes: bytes + found.kvBytes, problem: null };
  } catch (error) {
    signal?.throwIfAborted();
    if (!(error instanceof TabloomError)) throw error;
    const { code, message, param } = error;
    return { bytes: null, fileBytes: null, neededBytes: null, problem: { code, message, param } };
  }
}

/** @returns {Promise<GpuReport>} */
async function gpuReport() {
  const none = { available: false, name: null, software: false, f16: false, subgroups: false, timestamps: false };
  const missing = (/** @type {string} */ reason) => ({ ...none, reason, adapter: null, limits: null });
  if (secure === undefined) return missing("there is no browser");
  if (!secure) return missing("the page is not served over https");
  if (!browser.gpu) return missing("the browser has no WebGPU");
  let adapter;
  try {
    const asked = browser.gpu.requestAdapter({ powerPreference: "high-performance" });
    adapter = await unlessAborted(asked, AbortSignal.timeout(PATIENCE));
  } catch (/** @type {any} */ error) {
    return missing(`the browser gave no adapter: ${error.message}`);
  }
  if (!adapter) return missing("the browser found no adapter that it lets pages use");
  const { features, limits } = adapter;
  // Some browsers have none.
  const info = adapter.info ?? {};
  const { vendor = "", architecture = "", device = "", description = "" } = info;
  const name = [vendor, architecture, device, description].filter(Boolean).join(" ");
  return {
    available: true,
    reason: null,
    name,
    adapter: { vendor, architecture, device, description },
    software: Boolean(info.isFallbackAdapter) || SOFTWARE.test(name),
    f16: features.has("shader-f16"),
    subgroups: features.has("subgroups"),
    timestamps: features.has("timestamp-query"),
    limits: /** @type {NonNullable<GpuReport["limits"]>} */ (
      Object.fromEntries(LIMITS.map((limit) => [limit, limits[limit]]))
    ),
  };
}

/** What the browser grants; nothing is known where the page is denied storage. */
async function storageReport() {
  const { usage, quota } = await estimate();
  const persisted = await browser.storage?.persisted?.().catch(() => null);
  return { usage, quota, persisted: persisted ?? null };
}

/**
 * @param {number | null} bytes
 * @param {{usage?: number, quota?: number}} storage
 */
function hasRoom(bytes, { usage = 0, quota }) {
  return quota === undefined || bytes === null ? null : bytes <= quota - usage;
}

/** @typedef {NonNullable<ProbeOptions["models"]>[number]} Asked */

/**
 * @param {any} asked
 * @param {number} index
 */
function check(asked, index) {
  const { id, model, bytes, quantisation } = asked ?? {};
  const wrong = (/** @type {string} */ name, /** @type {unknown} */ found, /** @type {string} */ expected) =>
    noValue(`models[${index}].${name}`, found, expected);
  if (id == null && model == null) throw wrong("id", id, "one, or a model");
  for (const [name, text] of Object.entries({ id, model, quantisation })) {
    if (text != null && typeof text !== "string") throw wrong(name, text, "a text");
  }
  if (bytes == null ? model == null : !(typeof bytes === "number" && bytes >= 0)) {
    throw wrong("bytes", bytes, "the bytes of the model's weights, or a model to look at");
  }
}

/**
 * Where a model would be kept.
 *
 * @param {Asked} model
 * @param {import("./types.js").NameOptions} options
 * @param {number} index
 */
async function placesOf({ model, quantisation }, options, index) {
  if (model == null) return [];
  return addresses(model, { ...options, quantisation }, `models[${index}].model`);
}

/**
 * Whether a model fits, by the device's memory: browsers do not report how much a GPU has.
 *
 * @param {Pick<ProbedModel, "neededBytes" | "problem">} needs
 * @param {GpuReport} gpu
 * @param {{deviceBytes: number | null, budgetBytes: number}} memory
 * @returns {Pick<ProbedModel, "fits" | "reason">}
 */
function fit({ neededBytes, problem }, gpu, { deviceBytes, budgetBytes }) {
  if (problem) return { fits: "no", reason: problem.message };
  const needed = neededBytes ?? 0;
  if (!gpu.available) return { fits: "no", reason: `there is no GPU: ${gpu.reason}` };
  if (needed > budgetBytes) {
    return { fits: "no", reason: `${needed} bytes are more than budgetBytes, ${budgetBytes}` };
  }
  if (deviceBytes === null) return { fits: "perhaps", reason: "the browser does not report the device's memory" };
  if (needed > deviceBytes && deviceBytes < MEMORY_REPORTED) {
    return { fits: "no", reason: `${needed} bytes are more than the device's memory, ${deviceBytes}` };
  }
  if (needed > deviceBytes / 2) {
    return { fits: "perhaps", reason: `${needed} bytes are much of the device's memory, ${deviceBytes} or more` };
  }
  return { fits: "yes", reason: null };
}
