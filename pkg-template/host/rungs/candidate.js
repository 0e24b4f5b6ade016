import { whenAborted } from "../../abort.js";
import { Departure, noHost } from "../../error.js";
import { hold, whenFree } from "../../locks.js";
import { failure, startWorker } from "./dedicated.js";

/** @import { Leading, Lobby, Order } from "../messages.js" */

/** A leader holds a lock with this in its name, between the name of the leader's lock and its epoch. */
const SINCE = " since ";

/** Milliseconds that an epoch may lie in the future: clocks are set back. One that is later is no leader's. */
const LATEST = 86_400_000;

/**
 * An engine that can become the leader: it queues for the leader's Web Lock, and runs the worker while it
 * holds that lock.
 */
export class Candidate {
  /** When the latest known leader got the lock; later leaders have larger epochs. */
  epoch = 0;
  /** Whether it leads, and the script of its worker is being loaded. */
  loads = false;
  #office;
  #lobby;
  #script;
  #onFailure;
  /** @type {AbortController | null} queueing and leading end with it */
  #candidacy = null;
  /** How often a successor of this leader was silent, too. */
  #silent = { epoch: 0, successors: 0 };

  /**
   * @param {object} options
   * @param {string} options.office name of the leader's lock
   * @param {string} options.lobby name of the channel where the worker is found
   * @param {string | undefined} options.script
   * @param {(error: Error) => void} options.onFailure called where this candidate can run no worker
   */
  constructor({ office, lobby, script, onFailure }) {
    this.#office = office;
    this.#lobby = lobby;
    this.#script = script;
    this.#onFailure = onFailure;
  }

  /** Queues, unless it is in the queue already. */
  stand() {
    if (this.#candidacy?.signal.aborted ?? true) this.#run();
  }

  /** Finds out who leads, by epoch; rejects where locks are denied. */
  async inquire() {
    this.epoch = Math.max(this.epoch, ...(await this.#epochs()));
  }

  /**
   * Whether there is a leader with this epoch: every script of the site can say so, but one has the lock.
   *
   * @param {number} epoch
   */
  async knows(epoch) {
    return (await this.#epochs()).includes(epoch);
  }

  /** The epochs of leaders. */
  async #epochs() {
    const { held = [] } = await navigator.locks.query();
    const names = held.map(({ name = "" }) => name.split(SINCE));
    const epochs = names.filter(([office]) => office === this.#office).map(([, epoch]) => Number(epoch));
    return epochs.filter((epoch) => Number.isSafeInteger(epoch) && epoch < Date.now() + LATEST);
  }

  /** The least epoch of a leader to join: whose place is being taken is none, though its worker may yet greet. */
  get least() {
    const { epoch, successors } = this.#silent;
    return successors > 0 ? epoch + 1 : 0;
  }

  /** Takes the lock from the latest known leader, unless another candidate does. That one may be frozen before it leads. */
  async seize() {
    const { epoch } = this;
    if (this.#silent.epoch !== epoch) this.#silent = { epoch, successors: 0 };
    const succession = `${this.#office} after ${epoch}${" again".repeat(this.#silent.successors++)}`;
    const former = this.#candidacy;
    const succeed = async (/** @type {Lock | null} */ lock) => {
      // It may have resigned meanwhile.
      if (!lock || former?.signal.aborted) return;
      const run = this.#run({ steal: true });
      // Not earlier: if this candidate is the leader, another one would get its lock.
      former?.abort();
      await run;
    };
    // Another script of the site may take this lock away: the candidate leads all the same.
    await navigator.locks.request(succession, { ifAvailable: true }, succeed).catch(() => {});
  }

  /** Leaves the queue, or gives the lock up. */
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
    /** @type {Promise<void> | undefined} */
    let leading;
    try {
      await navigator.locks.request(this.#office, how ?? { signal }, () => (leading ??= this.#lead(signal)));
    } catch (/** @type {any} */ error) {
      // An AbortError says that another candidate took the lock.
      again = error.name === "AbortError";
      if (!again && !signal.aborted) this.#onFailure(error);
    }
    if (signal.aborted) return;
    candidacy.abort();
    if (again) this.#run();
  }

  /** @param {AbortSignal} signal ends the worker */
  async #lead(signal) {
    const epoch = (this.epoch = Math.max(Date.now(), this.epoch + 1));
    await hold(this.#office + SINCE + epoch, signal);
    /** @type {Promise<void>} */
    const over = new Promise((ended, failed) => {
      const worker = startWorker(this.#script);
      this.loads = true;
      const lobby = new BroadcastChannel(this.#lobby);
      lobby.onmessage = ({ data }) => {
        if (data?.type === "ask") lobby.postMessage(/** @satisfies {Lobby} */ ({ type: "leads", epoch }));
      };
      whenAborted(signal, () => {
        // With this notice the loss of the host does not count as a death.
        if (signal.reason instanceof Departure) lobby.postMessage(/** @satisfies {Lobby} */ ({ type: "down", epoch }));
        lobby.close();
        worker.terminate();
        this.loads = false;
        ended();
      });
      worker.onerror = (event) => failed(failure(event, "leader", this.#script));
      // The message names the lock that the worker holds as long as it lives.
      worker.onmessage = (/** @type {MessageEvent<Leading>} */ { data }) => {
        this.loads = false;
        if (!data.host) return failed(noHost("leader", "its worker, from another origin, is denied Web Locks"));
        whenFree(data.host, { mode: "shared", signal }).then(ended, ended);
      };
      const since = this.#office + SINCE;
      worker.postMessage(/** @satisfies {Order} */ ({ type: "lead", lobby: this.#lobby, since, epoch }));
    });
    return over;
  }
}
