import { TabloomError } from "./error.js";

/**
 * One message port to the engine: pairs replies with the calls they answer.
 *
 * Every call has an id; its replies carry the same id until one of them ends it.
 */
export class Connection {
  #port;
  #next = 1;
  /** @type {Map<number, {reply: (message: any) => void, fail: (error: Error) => void}>} */
  #calls = new Map();
  /** @type {Error | null} */
  #closed = null;

  /** @param {MessagePort} port */
  constructor(port) {
    this.#port = port;
    port.onmessage = ({ data }) => {
      if (data.type === "failed") this.close(new TabloomError(data.error));
      else this.#calls.get(data.id)?.reply(data);
    };
  }

  /**
   * Sends a call. `reply` sees every answer; `fail` is told once if the connection ends first.
   *
   * @param {object} message
   * @param {{reply: (message: any) => void, fail: (error: Error) => void}} handlers
   * @returns {number} the call's id
   */
  call(message, handlers) {
    if (this.#closed) throw this.#closed;
    const id = this.#next++;
    // Throws if the message holds what cannot be sent; then there is no call.
    this.#port.postMessage({ ...message, id });
    this.#calls.set(id, handlers);
    return id;
  }

  /**
   * Asks the engine to drop a call and forgets it.
   *
   * @param {number} id
   */
  cancel(id) {
    if (this.#calls.delete(id)) this.#port.postMessage({ type: "cancel", id });
  }

  /**
   * Forgets a call that has ended.
   *
   * @param {number} id
   */
  done(id) {
    this.#calls.delete(id);
  }

  /**
   * Ends the connection; every open call fails with `error`.
   *
   * @param {Error} error
   */
  close(error) {
    if (this.#closed) return;
    this.#closed = error;
    this.#port.close();
    const open = [...this.#calls.values()];
    this.#calls.clear();
    for (const { fail } of open) fail(error);
  }
}
