// Event targets and signals. Node's own forget listeners that were to be removed by a signal, once garbage has
// been collected: then a seed would not give the same run again.

/** An event target that counts its listeners. */
export class Target {
  /** @type {Map<string, Map<Function, boolean>>} whether each is called once, by type */
  #listeners = new Map();

  addEventListener(type, listener, { once = false, signal = null } = {}) {
    if (signal?.aborted) return;
    if (!this.#listeners.has(type)) this.#listeners.set(type, new Map());
    const known = this.#listeners.get(type);
    if (known?.has(listener)) return;
    known?.set(listener, once);
    signal?.addEventListener("abort", () => known?.delete(listener), { once: true });
  }

  removeEventListener(type, listener) {
    this.#listeners.get(type)?.delete(listener);
  }

  dispatchEvent(event) {
    const known = this.#listeners.get(event.type) ?? new Map();
    for (const [listener, once] of [...known]) {
      // An earlier one may have removed it.
      if (!known.has(listener)) continue;
      if (event.cancelBubble) return;
      if (once) known.delete(listener);
      listener.call(this, event);
    }
  }

  /** The types of all listeners. */
  get listeners() {
    return [...this.#listeners].flatMap(([type, known]) => Array.from(known, () => type));
  }
}

class Signal extends Target {
  aborted = false;
  reason = undefined;

  throwIfAborted() {
    if (this.aborted) throw this.reason;
  }
}

/** An AbortController. */
export class Controller {
  signal = new Signal();

  abort(reason = new DOMException("This operation was aborted", "AbortError")) {
    const { signal } = this;
    if (signal.aborted) return;
    signal.aborted = true;
    signal.reason = reason;
    signal.dispatchEvent(new Event("abort"));
  }
}
