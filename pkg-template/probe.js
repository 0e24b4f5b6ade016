// What this browser on this device can do. It needs no engine and downloads nothing.
import { unlessAborted } from "./abort.js";
import { TabloomError } from "./error.js";
import { available } from "./locks.js";
import { Models } from "./models/kept.js";
import { addresses } from "./models/source.js";
import { KINDS, estimate, openStore } from "./models/store.js";

/** @import { GpuReport, Probe, ProbeOptions, ProbedModel } from "./types.js" */

const GIB = 2 ** 30;
/** The engine's defaults of `kvBytes` and `budgetBytes`. */
const KV_BYTES = 2 ** 28;
const BUDGET = 4 * GIB;
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

/**
 * @param {ProbeOptions} [options]
 * @returns {Promise<Probe>}
 */
export async function probe({ models = [], kvBytes = KV_BYTES, budgetBytes = BUDGET, hub, registry } = {}) {
  models.forEach(check);
  const places = await Promise.all(models.map((model, index) => placesOf(model, { hub, registry }, index)));
  const [gpu, storage, locks, [cache, opfs]] = await Promise.all([
    gpuReport(),
    storageReport(),
    available(),
    Promise.all(KINDS.map(async (kind) => (await openStore(kind)) !== null)),
  ]);
  const { deviceMemory } = /** @type {{deviceMemory?: number}} */ (navigator);
  const memory = { deviceBytes: deviceMemory ? deviceMemory * GIB : null, budgetBytes };
  const kept = new Map((await new Models().list()).map((entry) => [entry.model, entry.complete]));
  const workers = {
    shared: "SharedWorker" in globalThis,
    service: "serviceWorker" in navigator,
    locks,
  };
  const probed = models.map(({ id, model, bytes }, index) => {
    const stored = places[index].some((place) => kept.get(place) === true);
    const neededBytes = bytes + kvBytes;
    return {
      id: id ?? `${model}`,
      bytes,
      neededBytes,
      ...fit(neededBytes, gpu, memory),
      stored,
      storable: stored || hasRoom(bytes, storage),
    };
  });
  return { secure: isSecureContext, gpu, memory, workers, storage: { cache, opfs, ...storage }, models: probed };
}

/** @returns {Promise<GpuReport>} */
async function gpuReport() {
  const none = { available: false, name: null, software: false, f16: false, subgroups: false, timestamps: false };
  const missing = (/** @type {string} */ reason) => ({ ...none, reason, adapter: null, limits: null });
  if (!isSecureContext) return missing("the page is not served over https");
  if (!navigator.gpu) return missing("the browser has no WebGPU");
  let adapter;
  try {
    const asked = navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    adapter = await unlessAborted(asked, AbortSignal.timeout(PATIENCE));
  } catch (/** @type {any} */ error) {
    return missing(`the browser gave no adapter: ${error.message}`);
  }
  if (!adapter) return missing("the browser found no adapter that it lets pages use");
  const { info, features, limits } = adapter;
  const { vendor, architecture, device, description } = info;
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
  const persisted = await navigator.storage?.persisted?.().catch(() => null);
  return { usage, quota, persisted: persisted ?? null };
}

/**
 * @param {number} bytes
 * @param {{usage?: number, quota?: number}} storage
 */
function hasRoom(bytes, { usage = 0, quota }) {
  return quota === undefined ? null : bytes <= quota - usage;
}

/** @typedef {NonNullable<ProbeOptions["models"]>[number]} Asked */

/**
 * @param {Asked} model
 * @param {number} index
 */
function check({ id, model, bytes }, index) {
  if (!(bytes >= 0)) throw wrong(index, "bytes", `found ${bytes}, expected the bytes of the model's weights`);
  if (id === undefined && model === undefined) throw wrong(index, "id", "found no id and no model, expected one");
}

/**
 * Where a model would be kept.
 *
 * @param {Asked} model
 * @param {import("./types.js").NameOptions} options
 * @param {number} index
 */
async function placesOf({ model, quantisation }, options, index) {
  if (model === undefined) return [];
  return addresses(model, { ...options, quantisation }, `models[${index}].model`);
}

/**
 * @param {number} index
 * @param {string} field
 * @param {string} message
 */
function wrong(index, field, message) {
  return new TabloomError({ code: "invalid_request", message, param: `models[${index}].${field}` });
}

/**
 * Whether a model fits, by the device's memory: browsers do not report how much a GPU has.
 *
 * @param {number} needed
 * @param {GpuReport} gpu
 * @param {{deviceBytes: number | null, budgetBytes: number}} memory
 * @returns {Pick<ProbedModel, "fits" | "reason">}
 */
function fit(needed, gpu, { deviceBytes, budgetBytes }) {
  if (!gpu.available) return { fits: "no", reason: `there is no GPU: ${gpu.reason}` };
  if (needed > budgetBytes) {
    return { fits: "no", reason: `${needed} bytes are more than budgetBytes, ${budgetBytes}` };
  }
  if (deviceBytes === null) return { fits: "perhaps", reason: "the browser does not tell the device's memory" };
  if (needed > deviceBytes && deviceBytes < MEMORY_REPORTED) {
    return { fits: "no", reason: `${needed} bytes are more than the device's memory, ${deviceBytes}` };
  }
  if (needed > deviceBytes / 2) {
    return { fits: "perhaps", reason: `${needed} bytes are much of the device's memory, ${deviceBytes} or more` };
  }
  return { fits: "yes", reason: null };
}
