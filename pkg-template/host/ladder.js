import { childOf } from "../abort.js";
import { Silence, TabloomError, noHost } from "../error.js";
import { within } from "./rungs/greeting.js";
import { Private } from "./rungs/private.js";
import { Shared } from "./rungs/shared.js";
import { workerScript } from "./worker-script.js";

/**
 * A connection to a host that has answered.
 *
 * @typedef {object} Link
 * @property {import("./messages.js").PagePort} port
 * @property {string | null} host the lock that the host holds as long as it lives; null where locks
 *   are denied
 * @property {boolean} freezes whether the browser may freeze the host
 * @property {boolean} lingers whether a new connection may still reach a host that has failed
 * @property {AbortController} life ends, with the reason, when the host is gone; ending it ends the link
 */

/**
 * A place where an engine can run.
 *
 * @typedef {object} Rung
 * @property {HostKind} name
 * @property {boolean} freezes whether the browser may freeze a host
 * @property {boolean} lingers whether a new connection may still reach a host that has failed
 * @property {boolean} loads whether the script of a worker of its own is being loaded
 * @property {(life: AbortController) => Promise<import("./rungs/greeting.js").Greeted>} open
 *   finds or starts a host; rejects where this rung does not work
 * @property {() => void} close leaves this rung until it is opened again
 */

/** @import { HostKind } from "../types.js" */

/**
 * The rung of a leader, loaded when it is first tried: most browsers stay on the one above.
 *
 * @implements {Rung}
 */
class Leader {
  /** @readonly */
  name = "leader";
  freezes = true;
  lingers = false;
  #script;
  /** @type {import("./rungs/leader.js").Leader | undefined} */
  #rung;

  /** @param {string | undefined} script */
  constructor(script) {
    this.#script = script;
  }

  get loads() {
    return this.#rung?.loads ?? true;
  }

  /** @param {AbortController} life */
  async open(life) {
    const { Leader } = await import("./rungs/leader.js");
    life.signal.throwIfAborted();
    this.#rung ??= new Leader(this.#script);
    return this.#rung.open(life);
  }

  close() {
    this.#rung?.close();
  }
}

/** How often a host that does not answer is looked for on a rung. */
const TRIES = 3;

const RUNGS = { shared: Shared, leader: Leader, private: Private };

/** The places where an engine can run, those that all tabs can share first. */
export class Ladder {
  /** @type {Rung[]} */
  #rungs;
  #at = 0;
  #needsGpu;

  /**
   * @param {object} options
   * @param {"auto" | HostKind} options.host
   * @param {boolean} options.needsGpu whether to skip SharedWorkers without WebGPU
   * @param {string} [options.workerUrl]
   */
  constructor({ host, needsGpu, workerUrl }) {
    const rungs = host === "auto" ? Object.values(RUNGS) : [RUNGS[host]];
    const script = workerScript(workerUrl);
    this.#rungs = rungs.map((Rung) => new Rung(script));
    this.#needsGpu = needsGpu;
  }

  /** The rung in use. */
  get host() {
    return this.#rungs[this.#at].name;
  }

  /**
   * Finds a host: on the rung that worked last, or on the next below that works.
   *
   * @param {AbortSignal} signal ends the link, too
   * @returns {Promise<Link>}
   */
  async climb(signal) {
    for (;;) {
      const rung = this.#rungs[this.#at];
      try {
        return await this.#open(rung, signal);
      } catch (/** @type {any} */ error) {
        rung.close();
        signal.throwIfAborted();
        this.#at = (this.#at + 1) % this.#rungs.length;
        if (this.#at > 0) continue;
        throw error instanceof TabloomError ? error : noHost(rung.name, error.message);
      }
    }
  }

  /**
   * Leaves a SharedWorker that was given no GPU: the page's own worker may be given one.
   *
   * @returns {boolean} whether it did
   */
  skip() {
    const skips = this.#needsGpu && this.#at === 0 && this.#rungs.length > 1;
    if (skips) {
      this.close();
      this.#at = 1;
    }
    return skips;
  }

  /** Leaves the rung in use, until the next climb. */
  close() {
    this.#rungs[this.#at].close();
  }

  /**
   * @param {Rung} rung
   * @param {AbortSignal} signal
   * @returns {Promise<Link>}
   */
  async #open(rung, signal) {
    for (let tries = 1; ; tries++) {
      signal.throwIfAborted();
      const life = childOf(signal);
      try {
        const { port, host, gpu } = await within(rung.open(life), life, rung);
        if (!gpu && rung.name === "shared" && this.#rungs.length > 1 && this.#needsGpu) {
          throw noHost(rung.name, "the browser has no WebGPU in a SharedWorker");
        }
        return { port, host, life, freezes: rung.freezes, lingers: rung.lingers };
      } catch (error) {
        life.abort(error);
        // The first try may have reached a worker that was about to end; one that lingers is left after the second. Of
        // leaders, the one that took a frozen one's place may have been frozen, too.
        if (!(error instanceof Silence) || tries === TRIES) throw error;
      }
    }
  }
}
