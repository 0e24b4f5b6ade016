// The host's side: a worker that holds the engine and serves message ports. It runs as a SharedWorker
// (each tab connects a port), as the leader tab's (pages name channels in a lobby) and as a private
// one (the page sends a port).

import { loadGrammar } from "./constraints.js";
import { crashed } from "./error.js";
import { available, hold, whenFree } from "./locks.js";
import { requestSubgroups } from "./subgroups.js";

/** The lock that is held as long as the worker lives; null where locks are denied. */
const lock = available().then(async (allowed) => {
  if (!allowed) return null;
  const name = `tabloom host ${crypto.randomUUID()}`;
  await hold(name);
  return name;
});

const ports = new Set();
/** @type {Promise<import("./wasm/tabloom.js").Host> | null} */
let host = null;

/** Loads the WebAssembly module. */
async function start() {
  requestSubgroups();
  const { default: init, Host } = await import("./wasm/tabloom.js");
  await init();
  return new Host({ loadGrammar, whenGone: (name) => whenFree(name), name: await lock });
}

/**
 * Greets a page and gives its messages to the host.
 *
 * @param {import("./ladder.js").Port} port
 * @param {number} [epoch]
 */
async function connect(port, epoch) {
  ports.add(port);
  const { close } = port;
  port.close = () => {
    ports.delete(port);
    close.call(port);
  };
  const early = [];
  port.onmessage = async (event) => {
    // A page asks whether the worker is alive, not whether it is ready.
    const { type, id } = event.data;
    if (type === "ping") return port.postMessage({ type: "value", id, value: null });
    if (early.push(event) > 1) return;
    try {
      host ??= start();
      (await host).connect(port);
      for (const event of early) port.onmessage(event);
    } catch (error) {
      const message = `the WebAssembly module did not start: ${error}. Check that the package's folder is served whole and that the content security policy allows 'wasm-unsafe-eval'`;
      fail({ code: "start_failed", message });
    }
  };
  port.postMessage({ type: "here", gpu: Boolean(navigator.gpu), host: await lock, epoch });
}

/**
 * Serves as the leader's worker.
 *
 * @param {{lobby: string, epoch: number}} office
 */
async function lead({ lobby, epoch }) {
  const channel = new BroadcastChannel(lobby);
  channel.onmessage = ({ data }) => {
    // A later leader was elected while this one was frozen.
    if (data.epoch > epoch) close();
    else if (data.type === "join") connect(new BroadcastChannel(data.channel), epoch);
  };
  channel.postMessage({ type: "up", epoch });
  postMessage({ host: await lock });
}

/**
 * Ends the worker: what has failed may be in any state and is not used again.
 *
 * @param {{code: string, message: string}} error
 */
function fail({ code, message }) {
  for (const port of ports) port.postMessage({ type: "failed", error: { code, message } });
  close();
}

addEventListener("error", ({ message }) => fail(crashed(message)));
addEventListener("unhandledrejection", ({ reason }) => {
  // A trap, or a stack or a memory that is full.
  const fatal = reason instanceof WebAssembly.RuntimeError || reason instanceof RangeError;
  if (fatal) fail(crashed(`${reason}`));
});

globalThis.onconnect = ({ ports: [port] }) => connect(port);
globalThis.onmessage = ({ data, ports: [port] }) => (data.type === "lead" ? lead(data) : connect(port));
