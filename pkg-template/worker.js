// The engine's side: a worker that loads the WebAssembly module and serves one or more message ports.
// It runs as a dedicated worker (the page sends a port) and as a SharedWorker (each tab connects one).

import { loadGrammar } from "./constraints.js";
import { requestSubgroups } from "./subgroups.js";
import init, { Host } from "./wasm/tabloom.js";

requestSubgroups();
const host = init().then(() => new Host(loadGrammar));

/** @param {MessagePort} port */
async function connect(port) {
  try {
    (await host).connect(port);
  } catch (error) {
    const message = `the WebAssembly module did not start: ${error}. Check that the package's folder is served whole and that the content security policy allows 'wasm-unsafe-eval'`;
    port.postMessage({ type: "failed", error: { code: "start_failed", message } });
  }
}

globalThis.onconnect = (/** @type {MessageEvent} */ event) => connect(event.ports[0]);
globalThis.onmessage = (/** @type {MessageEvent} */ event) => connect(event.ports[0]);
