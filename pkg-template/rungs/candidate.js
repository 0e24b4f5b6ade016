import { whenAborted } from "../abort.js";
import { whenFree } from "../locks.js";
import { failure, startWorker } from "./dedicated.js";

/**
 * An engine that would lead: it queues for a Web Lock, the office; who gets that runs the worker.
 */
export class Candidate {
  /** When the latest known leader took office; later leaders have larger epochs. */
  epoch = 0;
  #office;
  #lobby;
  #workerUrl;
  #onFailure;
  /** @type {AbortController | null} queueing and leading end with it */
  #candidacy = null;

  /**
   * @param {object} options
   * @param {string} options.office the lock's name
   * @param {string} options.lobby the channel where the worker is to be found
   * @param {string | undefined} options.workerUrl
   * @param {(error: Error) => void} options.onFailure told why this candidate can run no worker
   */
  constructor({ office, lobby, workerUrl, onFailure }) {
    this.#office = office;
    this.#lobby = lobby;
    this.#workerUrl = workerUrl;
    this.#onFailure = onFailure;
  }

  /** Queues, unless it does already. */
  stand() {
    if (this.#candidacy?.signal.aborted ?? true) this.#run();
  }

  /** Takes the office from whoever holds it. */
  seize() {
    this.resign();
    this.#run({ steal: true });
  }

  /** Leaves the queue or the office. */
  resign() {
    this.#candidacy?.abort();
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
    try {
      await navigator.locks.request(this.#office, how ?? { signal }, () => this.#lead(signal));
    } catch (/** @type {any} */ error) {
      // A candidate that resigns sees an AbortError, and so does one whose office is taken away.
      if (error.name !== "AbortError") {
        this.resign();
        this.#onFailure(error);
      }
    }
    const resigned = signal.aborted;
    candidacy.abort();
    if (!resigned) this.#run();
  }

  /**
   * Runs the worker until it ends or `signal` is aborted.
   *
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  #lead(signal) {
    return new Promise((ended, failed) => {
      const worker = startWorker(this.#workerUrl);
      whenAborted(signal, () => {
        worker.terminate();
        ended();
      });
      worker.onerror = (event) => failed(failure(event));
      // It names the lock that it holds as long as it lives.
      worker.onmessage = ({ data }) => whenFree(data.host, { mode: "shared", signal }).then(ended, ended);
      this.epoch = Math.max(Date.now(), this.epoch + 1);
      worker.postMessage({ type: "lead", lobby: this.#lobby, epoch: this.epoch });
    });
  }
}
