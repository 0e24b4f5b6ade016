import { whenAborted } from "../../abort.js";
import { failure, startWorker } from "./dedicated.js";
import { greeted } from "./greeting.js";

/** @import { Order } from "../messages.js" */

/** A worker of this engine alone. */
export class Private {
  /** @readonly */
  name = "private";
  freezes = true;
  lingers = false;
  loads = true;
  #script;

  /** @param {string | undefined} script */
  constructor(script) {
    this.#script = script;
  }

  /** @param {AbortController} life */
  async open(life) {
    const worker = startWorker(this.#script);
    whenAborted(life.signal, () => worker.terminate());
    worker.onerror = (event) => life.abort(failure(event, this.name, this.#script));
    const { port1, port2 } = new MessageChannel();
    worker.postMessage(/** @satisfies {Order} */ ({ type: "connect" }), [port2]);
    return greeted(port1, life.signal);
  }

  close() {}
}
