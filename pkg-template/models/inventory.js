// Lists and deletes the models that the site keeps; loaded when first needed.
import { chosen, plain } from "../calls/arguments.js";
import { TabloomError } from "../error.js";
import { available } from "../locks.js";
import { addressOf, nameOf } from "./address.js";
import { DECLINED, MARK, entries, modelOf, record, text } from "./entries.js";
import { isPlain } from "./source.js";
import { KINDS, answered, estimate, openStore } from "./store.js";

/** @import { StoreSize, StoredModel } from "../types.js" */
/** @import { Store } from "./types.js" */

/** Follows the mark in the key of the record of stored prefixes, and, with a number behind it, of their files. */
const PREFIXES = "-kv";

/** @returns {Promise<StoredModel[]>} */
export async function list() {
  const asked = KINDS.map((kind) => answered(listed(kind), []));
  const [prefixes, ...models] = await Promise.all([answered(prefixBytes(), new Map()), ...asked]);
  const list = models.flat();
  for (const model of list) model.prefixBytes = prefixes.get(model.model) ?? 0;
  for (const [model, prefixBytes] of prefixes) {
    if (list.some((other) => other.model === model)) continue;
    list.push({ ...nothing(model, "opfs"), prefixBytes, complete: false });
  }
  return list.sort((a, b) => Number(b.lastUsed) - Number(a.lastUsed));
}

/** @returns {Promise<StoreSize>} */
export async function size() {
  const [models, { usage, quota }] = await Promise.all([list(), answered(estimate(), {})]);
  const sum = (/** @type {number[]} */ bytes) => bytes.reduce((sum, bytes) => sum + bytes, 0);
  // A model may be in both stores; its prefixes are there once.
  const prefixes = new Map(models.map(({ model, prefixBytes }) => [model, prefixBytes]));
  return { bytes: sum(models.map(({ bytes }) => bytes)) + sum([...prefixes.values()]), usage, quota };
}

/**
 * @param {string | URL} model
 * @param {import("../types.js").NameOptions | null} [options]
 * @returns {Promise<boolean>}
 */
export function remove(model, options) {
  const removed = async (/** @type {import("../types.js").NameOptions} */ named) => {
    const found = await addresses(model, named);
    const deleted = await Promise.all(found.map((url) => answered(removeAddress(url), false)));
    return deleted.includes(true);
  };
  return chosen(options, "hub quantisation:String registry:Object", (given) => plain(given, removed));
}

/**
 * The addresses of kept models that an address or a name stands for.
 *
 * @param {string | URL} source
 * @param {import("../types.js").NameOptions} options
 * @param {string} [param] the name of the parameter, for errors
 * @returns {Promise<string[]>}
 */
export async function addresses(source, options, param) {
  const found = isPlain(source, options)
    ? [addressOf(source)]
    : await (await import("./hub.js")).kept(source, options, param);
  return found.map(nameOf);
}

export function removePrefixes() {
  return answered(deletePrefixes(), undefined);
}

async function deletePrefixes() {
  const store = await openStore("opfs");
  for (const { address, rest } of entries((await store?.keys()) ?? [])) {
    if (rest.startsWith(PREFIXES)) await store?.delete(address + MARK + rest);
  }
}

/** @param {string} url */
async function removeAddress(url) {
  // Where locks are denied, storage is too.
  if (!(await available())) return false;
  const removing = navigator.locks.request(loading(url), { ifAvailable: true }, async (lock) => {
    if (!lock) throw busy(url);
    // Others wait for the lock.
    const deleted = await Promise.all(KINDS.map((kind) => answered(removeEntries(kind, url), false)));
    return deleted.includes(true);
  });
  return removing.catch((error) => {
    // Another script of the site has taken the lock.
    throw error.name === "AbortError" ? busy(url) : error;
  });
}

/**
 * The lock that the worker which downloads a model holds.
 *
 * @param {string} url
 */
export function loading(url) {
  return `tabloom ${url}`;
}

/**
 * @param {typeof KINDS[number]} kind
 * @returns {Promise<StoredModel[]>}
 */
async function listed(kind) {
  const store = await openStore(kind);
  if (!store) return [];
  /** @type {Map<string, {model: StoredModel, files: Map<string, Set<number>>}>} chunks by address */
  const models = new Map();
  for (const { address, rest } of entries(await store.keys())) {
    const url = modelOf(address);
    const known = models.get(url) ?? { model: nothing(url, kind), files: new Map() };
    models.set(url, known);
    if (rest.startsWith("-at=") || rest.startsWith(PREFIXES) || rest === DECLINED) continue;
    if (rest === "-used") {
      const lastUsed = new Date(Number(await text(store, address + MARK + rest)));
      if (lastUsed.getTime() > 0) known.model.lastUsed = lastUsed;
    } else {
      const chunks = known.files.get(address) ?? new Set();
      if (rest) chunks.add(Number(rest.slice(1)));
      known.files.set(address, chunks);
    }
  }
  for (const { model, files } of models.values()) {
    for (const [address, kept] of files) await describe(model, kept, await record(store, address));
  }
  return Array.from(models.values(), ({ model }) => model).filter(({ files }) => files > 0);
}

/**
 * Bytes of the prefixes that are stored of each model, by its address.
 *
 * @returns {Promise<Map<string, number>>}
 */
async function prefixBytes() {
  const store = await openStore("opfs");
  const records = entries((await store?.keys()) ?? []).filter(({ rest }) => rest === PREFIXES);
  const sizes = records.map(async ({ address }) => {
    const { runs } = await record(/** @type {Store} */ (store), address, PREFIXES);
    const bytes = array(runs).reduce((sum, run) => sum + (Number(run?.bytes) || 0), 0);
    return /** @type {[string, number]} */ ([modelOf(address), bytes]);
  });
  return new Map(await Promise.all(sizes));
}

/**
 * A model of which nothing is kept.
 *
 * @param {string} model
 * @param {StoredModel["store"]} store
 * @returns {StoredModel}
 */
function nothing(model, store) {
  return { model, store, files: 0, bytes: 0, sharedBytes: 0, prefixBytes: 0, complete: true, lastUsed: null };
}

/**
 * Adds a file to the entry of its model.
 *
 * @param {StoredModel} model
 * @param {Set<number>} kept numbers of its chunks in the store
 * @param {any} record
 */
async function describe(model, kept, { chunk_bytes, chunks, bytes, sha256, is_sealed, is_absent }) {
  if (is_absent) return;
  let own = 0;
  for (const i of kept) own += Math.min(chunk_bytes, (bytes ?? Infinity) - i * chunk_bytes) || 0;
  const isWhole = kept.size === array(chunks).length;
  const isShared = Boolean(is_sealed && sha256) && !isWhole && (await hasShared(sha256));
  model.files += 1;
  model.complete &&= Boolean(is_sealed) && (isWhole || isShared);
  model.bytes += own;
  if (isShared) model.sharedBytes += bytes - own;
}

/**
 * @param {unknown} field of a record
 * @returns {any[]}
 */
function array(field) {
  return Array.isArray(field) ? field : [];
}

/**
 * Whether a file is in Cross-Origin Storage.
 *
 * @param {string} sha256
 */
async function hasShared(sha256) {
  return "crossOriginStorage" in navigator && (await import("./cross-origin.js")).has(sha256);
}

/**
 * Deletes all entries of a model; true if there were any.
 *
 * @param {typeof KINDS[number]} kind
 * @param {string} url
 */
async function removeEntries(kind, url) {
  const store = await openStore(kind);
  if (!store) return false;
  const own = entries(await store.keys()).filter(({ address }) => modelOf(address) === url);
  // The records last: by them the next load notices what was deleted in part, and downloads it again.
  own.sort((a, b) => b.rest.length - a.rest.length);
  for (const { address, rest } of own) await store.delete(address + MARK + rest);
  return own.length > 0;
}

/** @param {string} url */
function busy(url) {
  const message = `${url} is being loaded. Abort that, or delete it later`;
  return new TabloomError({ code: "model_busy", message, details: { model: url } });
}
