// How far the download of the model is, for the page's `monitor`.
import { EventHandlers } from "./event-handlers.js";

/** Progress is told in steps of this size. */
const STEP = 2 ** -16;

let making = false;

/** What a page's `monitor` gets: fires `downloadprogress`. */
class CreateMonitor extends EventTarget {
  #handlers = new EventHandlers(this);

  /** Not for pages. */
  constructor() {
    super();
    if (!making) throw new TypeError("Illegal constructor");
  }

  get ondownloadprogress() {
    return this.#handlers.get("downloadprogress");
  }

  set ondownloadprogress(handler) {
    this.#handlers.set("downloadprogress", handler);
  }

  get [Symbol.toStringTag]() {
    return "CreateMonitor";
  }
}

/**
 * Hands a monitor to the page; gives what tells it how much is loaded, from 0 to 1, until `signal` is aborted.
 *
 * @param {((monitor: CreateMonitor) => unknown) | undefined} monitor
 * @param {AbortSignal} [signal]
 * @returns {(loaded: number) => void}
 */
export function watched(monitor, signal) {
  if (!monitor) return () => {};
  making = true;
  const target = new CreateMonitor();
  making = false;
  monitor(target);
  let last = -1;
  return (part) => {
    const loaded = Math.floor(part / STEP) * STEP;
    if (loaded <= last || signal?.aborted) return;
    last = loaded;
    const how = { lengthComputable: true, loaded, total: 1 };
    target.dispatchEvent(new ProgressEvent("downloadprogress", how));
  };
}
