import { noHost } from "../../error.js";
import { available } from "../../locks.js";
import { VERSION } from "../../version.js";
import { failure } from "./dedicated.js";
import { greeted } from "./greeting.js";

/** One SharedWorker for all tabs of the site. */
export class Shared {
  /** @readonly */
  name = "shared";
  /** The browser keeps it running while any of its tabs runs. */
  freezes = false;
  /** The browser finds it by its name until it is gone. */
  lingers = true;
  #script;

  /** @param {string | undefined} script */
  constructor(script) {
    this.#script = script;
  }

  /** @param {AbortController} life */
  async open(life) {
    if (!globalThis.SharedWorker) throw noHost(this.name, "the browser has no SharedWorker here");
    if (!(await available())) throw noHost(this.name, "the browser denies Web Locks here");
    if (/^data:/.test(this.#script ?? "")) throw noHost(this.name, "its script is of another origin");
    const worker = start(this.#script);
    worker.onerror = (event) => life.abort(failure(event, this.name, this.#script));
    return greeted(worker.port, life);
  }

  close() {}
}

/**
 * Bundlers recognise a worker by `new SharedWorker(new URL(…))` in one expression, and a module by its last
 * option.
 *
 * @param {string | undefined} script
 */
function start(script) {
  // With an extended lifetime the worker, and the model in it, outlives a reload of its only tab.
  const options = { name: `tabloom ${VERSION}`, extendedLifetime: true };
  return script
    ? new SharedWorker(script, { ...options, type: "module" })
    : new SharedWorker(new URL("../../worker.js", import.meta.url), { ...options, type: "module" });
}
