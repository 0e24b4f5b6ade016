// One download of a model for all workers of the site: one has the Web Lock, and tells the others how far it is.
import { childOf, whenAborted } from "../abort.js";
import { available } from "../locks.js";

/** What a worker that begins to wait asks the others. */
const ASK = "?";

/** The right to download a model; a worker queues for it and has it until `signal` is aborted. */
export class Claim {
  /** Whether another worker has taken it. */
  lost = false;
  /**
   * Resolves to true once this worker has it; to false where locks are denied, or when `signal` is aborted.
   *
   * @type {Promise<boolean>}
   * @readonly
   */
  granted;
  #lock;
  #life;
  #queueing;
  #channel;
  #told = "";
  /** @type {((news: string) => void) | null} */
  #heard = null;
  /** @type {string | undefined} who had it when it was last asked */
  #holder;
  /** @type {LockOptions | null} of the last request */
  #how = null;

  /**
   * @param {string} lock
   * @param {AbortSignal} signal
   */
  constructor(lock, signal) {
    this.#lock = lock;
    this.#life = childOf(signal);
    this.#queueing = childOf(this.#life.signal);
    this.#channel = new BroadcastChannel(lock);
    this.#channel.onmessage = ({ data }) => {
      // Every script of the site can write here.
      if (data === ASK) this.tell(this.#told);
      else if (typeof data === "string") this.#heard?.(data);
    };
    this.#channel.postMessage(ASK);
    whenAborted(this.#life.signal, () => this.#channel.close());
    this.granted = this.#request({ signal: this.#queueing.signal });
    this.#whose().then((holder) => {
      this.#holder = holder;
    });
  }

  /** Gives it up before `signal` is aborted. */
  release() {
    this.#life.abort();
  }

  /** @param {string} news */
  tell(news) {
    this.#told = news;
    if (news && !this.lost && !this.#life.signal.aborted) this.#channel.postMessage(news);
  }

  /**
   * What the worker that has the claim tells next.
   *
   * @returns {Promise<string>}
   */
  news() {
    return new Promise((resolve) => {
      this.#heard = resolve;
    });
  }

  /**
   * Takes the claim from the worker that had it when this one began to wait, or at the last call.
   *
   * @returns {Promise<boolean>} whether it was that worker's still, and is this one's now
   */
  async seize() {
    // Two that take it at once would take it from each other.
    return navigator.locks.request(`${this.#lock} taken`, { ifAvailable: true }, async (alone) => {
      const before = this.#holder;
      this.#holder = await this.#whose();
      if (!alone || !before || this.#holder !== before) return false;
      const taken = await this.#request({ steal: true });
      this.#queueing.abort();
      return taken;
    });
  }

  /** The client that has the claim. */
  async #whose() {
    const { held = [] } = (await navigator.locks?.query().catch(() => null)) ?? {};
    return held.find(({ name }) => name === this.#lock)?.clientId;
  }

  /**
   * Asks for the lock and holds it until the signal is aborted.
   *
   * @param {LockOptions} how
   * @returns {Promise<boolean>} whether it has it
   */
  #request(how) {
    this.#how = how;
    let had = false;
    return new Promise((resolve) => {
      const hold = () => {
        had = true;
        resolve(true);
        return new Promise((release) => whenAborted(this.#life.signal, () => release(null)));
      };
      available()
        .then(() => navigator.locks.request(this.#lock, how, hold))
        .catch(() => {
          this.lost ||= had && how === this.#how;
          resolve(false);
        });
    });
  }
}
