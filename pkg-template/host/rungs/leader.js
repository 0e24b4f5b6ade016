import { whenAborted } from "../../abort.js";
import { Departure, Silence, crashed, noHost } from "../../error.js";
import { number } from "../../json.js";
import { available } from "../../locks.js";
import { visible } from "../page.js";
import { VERSION } from "../../version.js";
import { Candidate } from "./candidate.js";
import { leave } from "./greeting.js";
import { guard } from "./guard.js";
import { askWhenShown } from "./shown.js";

/** @import { Lobby, Notice } from "../messages.js" */

const OFFICE = `tabloom ${VERSION} leader`;
const LOBBY = `tabloom ${VERSION} lobby`;

/**
 * The dedicated worker of one tab, the leader, for all tabs of the site.
 *
 * Every engine is a candidate. Each, the leader's own too, reaches the leader's worker through a channel of
 * its own, which it names in the lobby.
 */
export class Leader {
  #candidate;
  /** @type {AbortController | null} the latest connection */
  #life = null;

  /** @param {string | undefined} script */
  constructor(script) {
    this.#candidate = new Candidate({
      office: OFFICE,
      lobby: LOBBY,
      script,
      onFailure: (error) => this.#life?.abort(error),
    });
  }

  get loads() {
    return this.#candidate.loads;
  }

  /** @param {AbortController} life */
  async open(life) {
    // A candidate that has begun to lead may fail while locks are asked for.
    this.#life = life;
    if (!(await available())) throw noHost("leader", "the browser denies Web Locks");
    await this.#candidate.inquire();
    life.signal.throwIfAborted();
    this.#candidate.stand();
    whenAborted(life.signal, () => {
      // A leader that does not answer is frozen; a visible tab takes its place.
      if (life.signal.reason instanceof Silence && visible()) this.#candidate.seize();
    });
    return this.#join(life);
  }

  close() {
    this.#candidate.resign();
  }

  /**
   * Asks in the lobby for the leader's worker, and again whenever one starts. Each time it names another
   * channel, so that the late answer of an earlier worker reaches nobody.
   *
   * @param {AbortController} life
   * @returns {Promise<import("./greeting.js").Greeted>}
   */
  #join(life) {
    const candidate = this.#candidate;
    const lobby = new BroadcastChannel(LOBBY);
    /** @type {BroadcastChannel | null} where an answer is awaited */
    let waiting = null;
    /** The epoch of the leader that has answered. */
    let joined = 0;
    /** Called when the leader's page has answered. */
    let answered = () => {};
    whenAborted(life.signal, () => {
      lobby.close();
      waiting?.close();
    });
    return new Promise((resolve) => {
      const join = () => {
        waiting?.close();
        const port = new BroadcastChannel(`tabloom ${crypto.randomUUID()}`);
        guard(port, life);
        number(port, "asked", "said", () => life.abort(new Departure("a message was lost")));
        port.onmessage = ({ data }) => {
          if (data.type !== "here" || data.epoch < candidate.least) return;
          waiting = null;
          joined = data.epoch;
          // Two leaders' workers may have greeted, and a late one may hear of the channel yet.
          port.postMessage(/** @satisfies {Notice} */ ({ type: "join", host: data.host }));
          whenAborted(life.signal, () => leave(port, life.signal.reason));
          const ask = /** @satisfies {Lobby} */ ({ type: "ask", epoch: joined });
          answered = askWhenShown(port, () => lobby.postMessage(ask), life);
          resolve({ ...data, port });
        };
        waiting = port;
        lobby.postMessage(/** @satisfies {Lobby} */ ({ type: "join", channel: port.name, epoch: candidate.epoch }));
      };
      lobby.onmessage = async ({ data }) => {
        const { type, epoch } = data ?? {};
        if (!Number.isSafeInteger(epoch)) return;
        if (type === "up") {
          if (!(await candidate.knows(epoch)) || life.signal.aborted) return;
          candidate.epoch = Math.max(candidate.epoch, epoch);
          if (waiting) join();
          else if (epoch > joined) life.abort(crashed("another leads"));
        } else if (type === "leads" && epoch === joined) {
          answered();
        } else if (type === "down" && epoch === joined) {
          life.abort(new Departure("the leader has left"));
        }
      };
      join();
    });
  }
}
