// The host's side: a worker that holds the engine and serves message ports. It runs as a SharedWorker
// (each tab connects a port), as the leader tab's (pages name channels in a lobby) and as a private
// one (the page sends a port).

import { crashed } from "./error.js";
import { number, toJson } from "./json.js";
import { available, hold, whenFree } from "./locks.js";
import { Claim } from "./models/claim.js";
import { openStore } from "./models/store.js";
import { completeWebGpu } from "./worker/gpu.js";

/** @import { Answer, Failed, Greeting, HostPort, Leading, Lobby, Order } from "./host/messages.js" */

/**
 * The lock that is held as long as the worker lives; null where locks are denied.
 *
 * @type {Promise<string | null>}
 */
let lock = available().then((allowed) => (allowed ? takeLock() : null));

/** Takes a lock with a new name, and another if that is taken away: pages then believe that the worker is gone. */
async function takeLock() {
  const name = `tabloom host ${crypto.randomUUID()}`;
  await hold(name, undefined, () => (lock = takeLock()));
  return name;
}

/** Milliseconds for which a page may be silent once it has been greeted. */
const PATIENCE = 60_000;

/** So many pings that the host has not answered mean that it is stuck, in a step or for good. */
const STUCK = 10;

/** @type {Set<HostPort>} */
const ports = new Set();
/** @type {Promise<import("./wasm/tabloom.js").Host> | null} made when the first message comes */
let host = null;
/** @type {import("./worker/shared-weights.js").SharedWeights | null} where the browser has Cross-Origin Storage */
let shared = null;

/**
 * Loads the compiler of constraints, a module of its own: few pages need it, and a hostile schema that crashes it does
 * not touch the engine. The engine calls `vocabulary` with a model's tokens, and `reset` to start the module again.
 */
async function loadGrammar() {
  const { Grammars, __wbg_reset_state } = await module("grammar", () => import("./wasm/grammar.js"));
  return {
    /** @param {ConstructorParameters<typeof Grammars>} tokens */
    vocabulary: (...tokens) => new Grammars(...tokens),
    reset: __wbg_reset_state,
  };
}

/**
 * @param {string} kind
 * @param {string} url
 */
async function sweep(kind, url) {
  const { sweep } = await import("./models/leftovers.js");
  await sweep(kind, url);
}

/** Has the engine find weights that the browser has for all sites. */
async function share() {
  if (!("crossOriginStorage" in navigator)) return;
  const { SharedWeights } = await import("./worker/shared-weights.js");
  shared = new SharedWeights();
  // The module calls the global function.
  globalThis.fetch = shared.fetch;
}

/** This script's name where its address has the version, as that of a page without a bundler. */
const VERSIONED = /worker\.js(?=\?tabloom=[^/]+$)/;

/**
 * A WebAssembly module of the version that the page has asked for.
 *
 * @template {typeof import("./wasm/tabloom.js") | typeof import("./wasm/grammar.js")} M
 * @param {string} name
 * @param {() => Promise<M>} bundled where bundlers find it
 * @returns {Promise<M>}
 */
async function module(name, bundled) {
  const here = import.meta.url;
  if (!VERSIONED.test(here)) {
    const found = await bundled();
    await found.default();
    return found;
  }
  // Else a cache might give this script another version's module.
  const named = await import(/* webpackIgnore: true */ /* @vite-ignore */ here.replace(VERSIONED, `wasm/${name}.js`));
  await named.default({ module_or_path: here.replace(VERSIONED, `wasm/${name}_bg.wasm`) });
  return named;
}

/** Loads the WebAssembly module. `whenGone` resolves when the tab that holds a lock is gone. */
async function start() {
  completeWebGpu();
  // No load depends on it.
  await share().catch(() => {});
  const { Host } = await module("tabloom", () => import("./wasm/tabloom.js"));
  const claim = (/** @type {string} */ lock, /** @type {AbortSignal} */ signal) => new Claim(lock, signal);
  const open = shared?.openStore ?? openStore;
  const environment = { loadGrammar, whenGone: whenFree, toJson, openStore: open, sweep, claim };
  return new Host({ ...environment, name: await lock });
}

/**
 * Greets a page, and passes its messages to the host.
 *
 * @param {HostPort} port
 * @param {number} [epoch] where the port is a channel, on which another leader's worker may have greeted the page, too
 */
async function connect(port, epoch) {
  ports.add(port);
  /** @type {string | null} */
  let name = null;
  /** Whether the page has this host. */
  let chosen = epoch === undefined;
  /** @param {string} why the page has to find a host anew */
  const leave = (why) => {
    notify(port, crashed(why));
    line.close();
  };
  // The page is gone, or frozen.
  const silence = setTimeout(() => leave("the page was silent"), PATIENCE);
  if (!chosen) number(/** @type {BroadcastChannel} */ (port), "said", "asked", () => leave("a message was lost"));
  /** @type {MessageEvent[]} those that came before the host listens */
  const early = [];
  /** @type {(event: MessageEvent) => void} */
  let receive = (event) => {
    if (early.push(event) > 1) return;
    clearTimeout(silence);
    if (!left) introduce(line);
  };
  let left = false;
  /** Pings of the page since the host's last answer. */
  let unanswered = 0;
  port.onmessage = (event) => {
    const { type, id, host } = event.data ?? {};
    if (type === "join") {
      chosen = host === name;
      // Another has greeted the page earlier.
      if (!chosen) line.close();
      return;
    }
    if (!chosen && type !== "bye") return;
    if (type === "share") return shared?.share(event.data);
    if (type === "offer") return shared?.offer(event.data);
    left ||= type === "bye";
    // The host may be loading, or within a step.
    if (type === "ping" && Number.isInteger(id) && !left) {
      port.postMessage({ type: "alive", id });
      unanswered += 1;
    }
    receive(event);
    if (!left) return;
    // The host does not listen to pages that leave before they were introduced.
    line.close();
    // A page that is reloaded would find the same SharedWorker.
    if (epoch === undefined && ports.size === 0 && unanswered >= STUCK) close();
  };
  const line = {
    postMessage(/** @type {Answer & {id: number}} */ message) {
      unanswered = 0;
      if (ports.has(port)) port.postMessage(message);
    },
    close() {
      clearTimeout(silence);
      ports.delete(port);
      port.close();
    },
    set onmessage(/** @type {((event: MessageEvent) => void) | null} */ listener) {
      if (!listener) {
        port.onmessage = null;
        return;
      }
      receive = listener;
      for (const event of early.splice(0)) receive(event);
    },
  };
  const gpu = "gpu" in navigator && Boolean(navigator.gpu);
  name = await lock;
  if (ports.has(port)) port.postMessage({ type: "here", gpu, host: name, epoch });
}

/**
 * Connects a port to the host, which is made for the first one.
 *
 * @param {HostPort} port
 */
async function introduce(port) {
  try {
    host ??= start();
    (await host).connect(/** @type {MessagePort} */ (port));
  } catch (error) {
    const message = `the WebAssembly module did not start: ${error}. Check that the package's folder is served whole and that the content security policy allows 'wasm-unsafe-eval'`;
    fail({ code: "start_failed", message });
  }
}

/** @param {string} lock */
async function leads(lock) {
  const { held = [] } = await navigator.locks.query();
  return held.some(({ name }) => name === lock);
}

/** @param {string} channel */
const known = (channel) => [...ports].some((port) => /** @type {BroadcastChannel} */ (port).name === channel);

/** @param {Extract<Order, {type: "lead"}>} office */
async function lead({ lobby, since, epoch }) {
  const channel = new BroadcastChannel(lobby);
  channel.onmessage = async ({ data }) => {
    // Every script of the site can write to the lobby.
    if (!Number.isSafeInteger(data?.epoch)) return;
    // A later leader was elected while this one was frozen, if it has its lock.
    if (data.epoch > epoch && (await leads(since + data.epoch))) close();
    else if (data.type === "join" && typeof data.channel === "string" && !known(data.channel)) {
      connect(new BroadcastChannel(data.channel), epoch);
    }
  };
  channel.postMessage(/** @satisfies {Lobby} */ ({ type: "up", epoch }));
  postMessage(/** @satisfies {Leading} */ ({ host: await lock }));
}

/**
 * Ends the worker: after a failure its state may be anything.
 *
 * @param {Failed["error"]} error
 */
function fail(error) {
  for (const port of ports) notify(port, error);
  close();
}

/**
 * @param {HostPort} port
 * @param {Failed["error"]} error
 */
function notify(port, { code, message }) {
  port.postMessage({ type: "failed", error: { code, message } });
}

addEventListener("error", (event) => {
  // The `error` event would reach pages before the answers that are on their way.
  event.preventDefault();
  console.error(event.error ?? event.message);
  fail(crashed(event.message));
});
addEventListener("unhandledrejection", ({ reason }) => {
  // A trap, or no more stack or memory.
  const fatal = reason instanceof WebAssembly.RuntimeError || reason instanceof RangeError;
  if (fatal) fail(crashed(`${reason}`));
});

addEventListener("connect", (/** @type {any} */ event) => connect(event.ports[0]));
addEventListener("message", ({ data, ports }) => {
  if (data.type === "lead") lead(data);
  else connect(ports[0]);
});
