import { whenAborted } from "../../abort.js";
import { Departure, noHost } from "../../error.js";
import { hold, whenFree } from "../../locks.js";
import { failure, startWorker } from "./dedicated.js";

/** @import { Leading, Lobby, Order } from "../messages.js" */

/** Leaders hold a lock with this in its name, between the office's and their epoch. */
const SINCE = " since ";

/**
 * An engine that would lead: it queues for a Web Lock, the office; who gets that runs the worker.
 */
export class Candidate {
  /** When the latest known leader took office; later leaders have larger epochs. */
  epoch = 0;
  #office;
  #lobby;
  #script;
  #onFailure;
  /** @type {AbortController | null} queueing and leading end with it */
  #candidacy = null;

  /**
   * @param {object} options
   * @param {string} options.office the lock's name
   * @param {string} options.lobby the channel where the worker is to be found
   * @param {string | undefined} options.script
   * @param {(error: Error) => void} options.onFailure told why this candidate can run no worker
   */
  constructor({ office, lobby, script, onFailure }) {
    this.#office = office;
    this.#lobby = lobby;
    this.#script = script;
    this.#onFailure = onFailure;
  }

  /** Queues, unless it does already. */
  stand() {
    if (this.#candidacy?.signal.aborted ?? true) this.#run();
  }

  /** Finds out who leads, by epoch; rejects where locks are denied. */
  async inquire() {
    const { held = [] } = await navigator.locks.query();
    for (const { name = "" } of held) {
      const [office, epoch] = name.split(SINCE);
      if (office === this.#office && Number(epoch) > this.epoch) this.epoch = Number(epoch);
    }
  }

  /** Takes the office from the latest known leader, unless another candidate does. */
  async seize() {
    const succession = `${this.#office} after ${this.epoch}`;
    await navigator.locks.request(succession, { ifAvailable: true }, async (lock) => {
      if (!lock) return;
      const former = this.#candidacy;
      const run = this.#run({ steal: true });
      // Now, and not before: this candidate may be the leader, whose office another would get.
      former?.abort();
      await run;
    });
  }

  /** Leaves the queue or the office. */
  resign() {
    this.#candidacy?.abort(new Departure("the leader has left"));
  }

  /**
   * Queues and leads, again and again until it resigns or can run no worker.
   *
   * @param {LockOptions} [how]
   */
  async #run(how) {
    const candidacy = new AbortController();
    const { signal } = candidacy;
    this.#candidacy = candidacy;
    let again = true;
    try {
      await navigator.locks.request(this.#office, how ?? { signal }, () => this.#lead(signal));
    } catch (/** @type {any} */ error) {
      // With an AbortError another has taken the office away.
      again = error.name === "AbortError";
      if (!again && !signal.aborted) this.#onFailure(error);
    }
    if (signal.aborted) return;
    candidacy.abort();
    if (again) this.#run();
  }

  /**
   * Runs the worker until it ends or `signal` is aborted.
   *
   * @param {AbortSignal} signal
   */
  async #lead(signal) {
    const epoch = (this.epoch = Math.max(Date.now(), this.epoch + 1));
    await hold(this.#office + SINCE + epoch, signal);
    /** @type {Promise<void>} */
    const over = new Promise((ended, failed) => {
      const worker = startWorker(this.#script);
      const lobby = new BroadcastChannel(this.#lobby);
      whenAborted(signal, () => {
        // Tabs that lose their host without its fault do not hold that against their requests.
        if (signal.reason instanceof Departure) lobby.postMessage(/** @satisfies {Lobby} */ ({ type: "down", epoch }));
        lobby.close();
        worker.terminate();
        ended();
      });
      worker.onerror = (event) => failed(failure(event));
      // It names the lock that it holds as long as it lives.
      worker.onmessage = (/** @type {MessageEvent<Leading>} */ { data }) => {
        if (!data.host) return failed(noHost("leader", "its worker, a script of another origin, is denied Web Locks"));
        whenFree(data.host, { mode: "shared", signal }).then(ended, ended);
      };
      worker.postMessage(/** @satisfies {Order} */ ({ type: "lead", lobby: this.#lobby, epoch }));
    });
    return over;
  }
}
