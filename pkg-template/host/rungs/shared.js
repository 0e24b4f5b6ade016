import { whenAborted } from "../../abort.js";
import { Departure, Gone, Silence, noHost } from "../../error.js";
import { available, hold } from "../../locks.js";
import { VERSION } from "../../version.js";
import { failure } from "./dedicated.js";
import { greeted, leave } from "./greeting.js";

/** Follows a worker's name in the lock by which a page says, as long as it lives, that it gave the worker up. */
const LEFT = " left";

/** One SharedWorker for all tabs of the site. */
export class Shared {
  /** @readonly */
  name = "shared";
  /** The browser keeps it running while any of its tabs runs. */
  freezes = false;
  /** The browser finds it by its name until it is gone. */
  lingers = true;
  loads = false;
  #script;
  /** The name of a worker that has not greeted. */
  #doubtful = "";

  /** @param {string | undefined} script */
  constructor(script) {
    this.#script = script;
  }

  /** @param {AbortController} life */
  async open(life) {
    if (!globalThis.SharedWorker) throw noHost(this.name, "the browser has no SharedWorker here");
    if (!(await available())) throw noHost(this.name, "the browser denies Web Locks");
    if (/^data:/.test(this.#script ?? "")) throw noHost(this.name, "its script is of another origin");
    // One that fell silent is left to itself; the next has another name.
    const { held = [] } = await navigator.locks.query();
    let name = `tabloom ${VERSION}`;
    while (held.some((lock) => lock.name === name + LEFT)) name += " again";
    const worker = start(this.#script, name);
    worker.onerror = (event) => life.abort(failure(event, this.name, this.#script));
    let greets = false;
    whenAborted(life.signal, () => {
      if (!(life.signal.reason instanceof Silence)) return;
      // One that has not greeted may have been about to end, but not twice.
      if (greets || this.#doubtful === name) hold(name + LEFT);
      this.#doubtful = name;
    });
    const greeting = await greeted(worker.port, life.signal, true);
    greets = true;
    // WebKit ends a SharedWorker with the tab that made it, and runs it again elsewhere with the same ports.
    worker.port.addEventListener("message", ({ data }) => {
      if (data.type !== "here" || data.host === greeting.host) return;
      life.abort(new Departure("the browser has moved the worker"));
      if (life.signal.reason instanceof Gone) life.signal.reason.moved = true;
      leave(worker.port);
    });
    return greeting;
  }

  close() {}
}

/**
 * Bundlers recognise a worker by `new SharedWorker(new URL(…))` in one expression, with options that are written out,
 * and a module by the last of them.
 *
 * @param {string | undefined} script
 * @param {string} name
 */
function start(script, name) {
  // With an extended lifetime the worker, and the model in it, outlives a reload of its only tab.
  if (script) {
    return new SharedWorker(script, /** @type {WorkerOptions} */ ({ name, extendedLifetime: true, type: "module" }));
  }
  return new SharedWorker(
    new URL("../../worker.js", import.meta.url),
    /** @type {WorkerOptions} */ ({ name, extendedLifetime: true, type: "module" }),
  );
}
