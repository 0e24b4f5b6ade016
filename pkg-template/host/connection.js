import { whenAborted, unlessAborted } from "../abort.js";
import { Departure, Gone, TabloomError } from "../error.js";
import { keepPinging } from "./heartbeat.js";
import { within } from "./rungs/greeting.js";
import { hold, whenFree } from "../locks.js";
import { visible, whenVisibilityChanges } from "./page.js";
import { PROTOCOL, VERSION } from "../version.js";

/** @import { Answer, Call, PagePort, Request } from "./messages.js" */
/** @import { LoadOptions, Progress } from "../types.js" */

/** Answers that end their call. */
export const LAST = ["value", "end", "error"];

/** Milliseconds to wait for the last messages of a host; its lock may be free before they come. */
const LAST_WORDS = 100;

/**
 * Milliseconds that a failed host is given to end. A tab that connects earlier may get the port of this
 * host, which does not answer.
 */
const FAREWELL = 1000;

/**
 * One port to a host: pairs answers with their calls by id, and notices when the host is gone.
 *
 * The connection lives as long as its link: aborting `life` closes it, and `life.signal.reason` says why
 * it ended.
 */
export class Connection {
  #port;
  #signal;
  /** @type {TabloomError | null} what the host said when it failed */
  #failure = null;
  #next = 1;
  /** @type {Map<number, (answer: Answer) => void>} */
  #calls = new Map();

  /**
   * Says `hello` to the host at the other end.
   *
   * @param {import("./ladder.js").Link} link
   * @param {LoadOptions["isolation"]} isolation
   * @returns {Promise<Connection>}
   */
  static async open({ port, host, freezes, lingers, life }, isolation) {
    const connection = new Connection(port, life, host !== null && lingers);
    const { signal } = life;
    keepPinging(connection, life, freezes);
    const end = () => life.abort(connection.#failure ?? new Gone());
    const gone = () => (connection.#failure ? end() : setTimeout(end, LAST_WORDS));
    if (host) whenFree(host, { mode: "shared", signal }).then(gone, () => {});
    // By this lock the host notices that the page is gone.
    const tab = host && `tabloom tab ${crypto.randomUUID()}`;
    const robbed = () => life.abort(new Departure("the page's lock was stolen"));
    if (tab) await within(hold(tab, signal, robbed), life, { freezes });
    const introduction = { version: VERSION, protocol: PROTOCOL, tab, visible: visible(), isolation };
    const hello = connection.request({ type: "hello", ...introduction });
    // Not later: it may change before the answer comes.
    whenVisibilityChanges((visible) => connection.send({ type: "visible", visible }), signal);
    await hello;
    return connection;
  }

  /**
   * @param {PagePort} port
   * @param {AbortController} life
   * @param {boolean} lingers whether to wait for the end of a host that has failed, or for its return
   */
  constructor(port, life, lingers) {
    this.#port = port;
    this.#signal = life.signal;
    port.onmessage = ({ data }) => {
      if (data.type === "failed") {
        this.#failure = new TabloomError(data.error);
        if (!lingers) return life.abort(this.#failure);
        setTimeout(() => life.abort(this.#failure), FAREWELL);
        return;
      }
      const call = this.#calls.get(data.id);
      if (LAST.includes(data.type)) this.#calls.delete(data.id);
      call?.(data);
    };
    whenAborted(life.signal, () => this.#calls.clear());
  }

  /** @param {Call} message */
  send(message) {
    if (!this.#signal.aborted) this.#port.postMessage(message);
  }

  /**
   * @param {Request} message
   * @param {(answer: Answer) => void} answered called with each of its answers
   * @returns {number} the call's id
   */
  call(message, answered) {
    const id = this.#next++;
    this.send({ ...message, id });
    this.#calls.set(id, answered);
    return id;
  }

  /** @param {number} id of a call, which gets no more answers */
  cancel(id) {
    if (this.#calls.delete(id)) this.send({ type: "cancel", id });
  }

  /**
   * A call with one result; rejects when the connection ends.
   *
   * @param {Request} message
   * @param {(progress: Progress) => void} [onProgress]
   * @returns {Promise<any>}
   */
  request(message, onProgress) {
    const answer = new Promise((resolve, reject) => {
      this.call(message, (answer) => {
        if (answer.type === "progress") onProgress?.(answer.progress);
        else if (answer.type === "error") reject(new TabloomError(answer.error));
        else resolve(/** @type {{value?: any}} */ (answer).value);
      });
    });
    return unlessAborted(answer, this.#signal);
  }
}
