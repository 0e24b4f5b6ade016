import { crashed, noHost } from "../error.js";
import { available } from "../locks.js";
import { VERSION } from "../version.js";
import { greeted } from "./greeting.js";

/** One SharedWorker for all tabs of the site. */
export class Shared {
  /** @readonly */
  name = "shared";
  /** The browser keeps it running while any of its tabs runs. */
  freezes = false;
  /** The browser knows it by its name until it is gone. */
  lingers = true;
  #workerUrl;

  /** @param {string | undefined} workerUrl */
  constructor(workerUrl) {
    this.#workerUrl = workerUrl;
  }

  /** @param {AbortController} life */
  async open(life) {
    if (!globalThis.SharedWorker) throw noHost(this.name, "the browser has no SharedWorker here");
    if (!(await available())) throw noHost(this.name, "the browser denies Web Locks here");
    const worker = start(this.#workerUrl);
    worker.onerror = (event) => {
      event.preventDefault();
      life.abort(crashed("its script could not be loaded"));
    };
    return greeted(worker.port, life);
  }

  close() {}
}

/**
 * Bundlers know a worker by `new SharedWorker(new URL(…))` in one piece, and a module by its last option.
 *
 * @param {string | undefined} url
 */
function start(url) {
  // With an extended lifetime the worker, and the model in it, outlives a reload of its only tab.
  const options = { name: `tabloom ${VERSION}`, extendedLifetime: true };
  return url
    ? new SharedWorker(url, { ...options, type: "module" })
    : new SharedWorker(new URL("../worker.js", import.meta.url), { ...options, type: "module" });
}
