// Measures how the package loads made-up models in headless Chromium with a profile on disk, and
// prints figures as JSON; `cargo xtask bench load` runs it.
//
// Stages are separated by what a load leaves out. The tensors of `unused` go no further than the
// digests and the store: without these two, reading them is the network alone. What comes before the
// weights, a worker's start and a model's small files among it, is given apart from the rates. Loads that
// are compared with the store alone take turns with it, and nobody looks at their heaps meanwhile.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launchOnDisk, url } from "./browser.mjs";

/** Bytes of a MB, in which rates are given, and of a MiB, in which memory is. */
const [MB, MIB] = [1e6, 2 ** 20];
/** Bytes that are read from the store before any of them are handed out. */
const CHUNK = 32 * MIB;
/** Milliseconds between two looks at the heaps. */
const PAUSE = 50;
/** Milliseconds that a load may take. */
const PATIENCE = 900_000;
/** Times that the store alone takes turns with a load from it. */
const ROUNDS = 4;

const BLANK = `${url}blank`;
const profile = await mkdtemp(join(tmpdir(), "tabloom-bench-"));
const context = await launchOnDisk(profile);
const [port] = (await readFile(join(profile, "DevToolsActivePort"), "utf8")).split("\n");
await context.route(BLANK, (route) => route.fulfill({ contentType: "text/html", body: "" }));
try {
  console.log(JSON.stringify(await measure(), null, 2));
} finally {
  await context.close();
  await rm(profile, { recursive: true, force: true });
}

async function measure() {
  const manifest = async (folder) => (await fetch(`${url}${folder}manifest.json`)).json();
  const [unused, model] = ["generated/unused/", "generated/model/"];
  const full = await manifest(unused);
  const [[name, { sha256, bytes, chunks }]] = Object.entries(full.files);
  const idle = await load("an engine with the built-in model", "model/", { store: "none" }, { watches: true });

  const only = (what, more) => load(what, unused, { store: "none", ...more });
  const network = await only("network");
  // What a manifest does not list does not exist.
  const listed = async (entry) => ({ files: { ...(await small(unused)), [name]: entry } });
  const sha = await only("network, SHA-256", { integrity: await listed({ sha256, bytes }) });
  const both = await only("network, SHA-256, BLAKE3", { integrity: await listed({ sha256, bytes, chunks }) });
  const kept = await load("network, BLAKE3, store", unused, { store: "cache" });
  const [raw, read] = await turns(() => load("store, BLAKE3", unused, { store: "cache" }));
  await forget(unused);

  const to = (quantize) => ({ store: "cache", quantize });
  const cold = await load("cold, to int4", model, to("w4"));
  const w4 = await load("warm, w4", model, to("w4"));
  const w8 = await load("warm, w8", model, to("w8"));
  const [rawKeep, keep] = await turns(() => load("warm, keep", model, to("keep")));

  const watched = await load("warm, heaps watched", model, to("keep"), { watches: true });
  // What is held, without what waits to be collected; the collecting takes its time.
  const collected = { watches: true, collects: true };
  const held = await load("warm, garbage collected", model, to("keep"), collected);
  await forget(model);
  const watchedCold = await load("cold, heaps watched", model, to("w4"), { watches: true });
  await forget(model);
  const heldCold = await load("cold, garbage collected", model, to("keep"), collected);

  /** The rate of what one load does and the other does not; null if that is lost in the noise. */
  const stage = (with_, without) => {
    const seconds = with_.seconds - without.seconds * (with_.counted / without.counted);
    return seconds > 0.05 * with_.seconds ? with_.counted / MB / seconds : null;
  };
  const loads = [watched, watchedCold];
  const most = (loads, heap) => Math.max(...loads.map((load) => load[heap]));
  const blake3 = stage(both, sha);
  const digesting = blake3 === null ? 0 : network.counted / MB / blake3;
  const digested = { ...network, seconds: network.seconds + digesting };
  return {
    adapter: `Chromium ${context.browser()?.version() ?? ""}, ${cold.adapter}`,
    bytes: cold.bytes,
    seconds_before_first_byte: { cold: cold.before, warm: w4.before },
    cold_mb_s: rate(cold),
    warm_mb_s: rate(w4),
    stages: {
      network_mb_s: rate(network),
      sha256_mb_s: stage(sha, network),
      blake3_mb_s: blake3,
      store_write_mb_s: stage(kept, digested),
      store_read_mb_s: rate(raw),
      store_read_and_blake3_mb_s: rate(read),
      upload_mb_s: stage(keep, read),
      repack_w8_mb_s: stage(w8, keep),
      repack_w4_mb_s: stage(w4, keep),
    },
    warm: {
      no_gpu_mb_s: rate(read),
      no_gpu_share_of_store: rate(read) / rate(raw),
      keep_mb_s: rate(keep),
      keep_share_of_store: rate(keep) / rate(rawKeep),
      w8_mb_s: rate(w8),
      w4_mb_s: rate(w4),
    },
    wasm_heap_above_idle_mib: (most(loads, "wasm") - idle.wasm) / MIB,
    js_heap_above_idle_mib: (most(loads, "js") - idle.rest) / MIB,
    js_heap_held_above_idle_mib: (most([held, heldCold], "js") - idle.rest) / MIB,
    hash_mb_s: { sha256: stage(sha, network), blake3 },
  };
}

/** MB a second. */
function rate({ counted, seconds }) {
  return counted && counted / MB / seconds;
}

/** The store alone and a load from it, each added up over the rounds in which they take turns. */
async function turns(load) {
  const sums = [readStore, load].map((run) => ({ run, counted: 0, seconds: 0 }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const sum of sums) {
      const { counted, seconds } = await sum.run();
      sum.counted += counted;
      sum.seconds += seconds;
    }
  }
  return sums;
}

/** What a manifest says of the small files of a folder. */
async function small(folder) {
  const entries = {};
  for (const file of ["config.json", "tokenizer.json", "tokenizer_config.json"]) {
    const bytes = await (await fetch(`${url}${folder}${file}`)).arrayBuffer();
    const digest = Buffer.from(await crypto.subtle.digest("SHA-256", bytes)).toString("hex");
    entries[file] = { sha256: digest, bytes: bytes.byteLength };
  }
  return entries;
}

/**
 * Loads a folder in a tab and a worker of their own; `watches` for the most that their heaps hold,
 * `collects` keeps them without garbage.
 */
async function load(what, folder, options, { watches = false, collects = false } = {}) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.goto(BLANK);
  const heaps = watches ? watch(collects) : undefined;
  const loaded = await page.evaluate(begin, { folder: `/${folder}`, options, chunk: CHUNK });
  const held = await heaps?.stop();
  await page.close();
  const seconds = [loaded.before, loaded.seconds].map((seconds) => seconds.toFixed(1)).join(" + ");
  const mib = held && [held.js, loaded.wasm].map((bytes) => (bytes / MIB).toFixed(1));
  const heap = mib ? `, heaps ${mib} MiB` : "";
  console.error(`${what}: ${seconds} s, ${rate(loaded).toFixed(1)} MB/s${heap}`);
  return { ...loaded, ...held };
}

/**
 * Runs in the page: loads a folder; the seconds before its weights come, and those until they are where
 * they belong. These count from the end of the first chunk, which comes whole, and so do the bytes.
 */
async function begin({ folder, options, chunk }) {
  const { Engine } = await import("/tabloom/index.js");
  let [bytes, first, from, start, end] = [0, 0, 0, 0, 0];
  const begun = performance.now();
  const onProgress = ({ stage, loaded, total }) => {
    if (stage !== "download") return;
    end = performance.now();
    first ||= end;
    if (loaded <= chunk) [from, start] = [loaded, end];
    bytes = total;
  };
  globalThis.engine = await Engine.load(folder, { host: "private", context: 64, onProgress, ...options });
  const { adapter } = await engine.info;
  const { wasm_heap_bytes: wasm } = await engine.metrics();
  return {
    bytes,
    before: (first - begun) / 1000,
    counted: bytes - from,
    seconds: (end - start) / 1000,
    wasm,
    adapter,
  };
}

/** Reads what is in the store, in a worker that does nothing else. */
async function readStore() {
  const read = async () => {
    const cache = await caches.open("tabloom");
    const start = performance.now();
    let counted = 0;
    for (const request of await cache.keys()) {
      const { body } = await cache.match(request);
      for await (const piece of body) counted += piece.length;
    }
    postMessage({ counted, seconds: (performance.now() - start) / 1000 });
  };
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.goto(BLANK);
  const found = await page.evaluate((script) => {
    const worker = new Worker(URL.createObjectURL(new Blob([script])));
    return new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = reject;
    });
  }, `(${read})()`);
  await page.close();
  console.error(`store alone: ${found.seconds.toFixed(1)} s, ${rate(found).toFixed(1)} MB/s`);
  return found;
}

/** Deletes a folder from the store. */
async function forget(folder) {
  const page = await context.newPage();
  await page.goto(BLANK);
  await page.evaluate(async (folder) => {
    const { Engine } = await import("/tabloom/index.js");
    await Engine.store.delete(folder);
  }, `/${folder}`);
  await page.close();
}

/**
 * Adds up the JavaScript heaps of all pages and workers again and again; `stop` gives the most, and
 * what is left when garbage has been collected.
 */
function watch(collects) {
  const sockets = new Map();
  let [most, over] = [0, false];
  const connect = (address) =>
    new Promise((resolve) => {
      const socket = new WebSocket(address);
      socket.onopen = () => resolve(socket);
      socket.onerror = () => resolve(undefined);
    });
  /** What a target answers; nothing if it does not. */
  const ask = (socket, method) =>
    new Promise((resolve) => {
      if (socket?.readyState !== WebSocket.OPEN) return resolve({});
      const timer = setTimeout(resolve, 2000, {});
      socket.onmessage = ({ data }) => {
        clearTimeout(timer);
        resolve(JSON.parse(data).result ?? {});
      };
      socket.send(JSON.stringify({ id: 1, method }));
    });
  const all = (method) => Promise.all([...sockets.values()].map((socket) => ask(socket, method)));
  /** Bytes of all heaps, with what their buffers hold. */
  const usage = async () => {
    const heaps = await all("Runtime.getHeapUsage");
    return heaps.reduce(
      (sum, { usedSize = 0, embedderHeapUsedSize = 0, backingStorageSize = 0 }) =>
        sum + usedSize + embedderHeapUsedSize + backingStorageSize,
      0,
    );
  };
  const look = async () => {
    while (!over) {
      const targets = await (await fetch(`http://127.0.0.1:${port}/json/list`)).json();
      for (const { id, webSocketDebuggerUrl } of targets) {
        if (!sockets.has(id)) sockets.set(id, await connect(webSocketDebuggerUrl));
      }
      if (collects) await all("HeapProfiler.collectGarbage");
      most = Math.max(most, await usage());
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  };
  const looking = look();
  return {
    async stop() {
      over = true;
      await looking;
      await all("HeapProfiler.collectGarbage");
      const rest = await usage();
      for (const socket of sockets.values()) socket?.close();
      return { js: most, rest };
    },
  };
}
