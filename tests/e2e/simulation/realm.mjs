// A page or a worker of the simulated browser: the globals that the package finds there.
import { Controller, Target } from "./events.mjs";
import { Line } from "./world.mjs";
import { Channel, Port, channelPair } from "./ports.mjs";
import { storage } from "./store.mjs";

/** Thrown where a worker stops within its task, for ever. */
class Spin extends Error {}

/** Milliseconds between timers of a hidden page. */
const THROTTLED = 1000;

/** A page or a worker. Its tasks wait while it is frozen, and are lost once it spins or is gone. */
export class Realm {
  alive = true;
  frozen = false;
  /** Whether it ever was. */
  wasFrozen = false;
  spins = false;
  /** Whether a page was left, and is kept for the way back: its channels take nothing, nor do those of its workers. */
  isLeft = false;
  /** @type {Set<Port>} */
  ports = new Set();
  /** @type {Set<Channel>} */
  channels = new Set();
  /** @type {Set<Realm>} dedicated workers */
  workers = new Set();
  timers = new Map();
  /** Whether a worker's script has run; what waits for it. */
  loaded = false;
  early = [];
  /** Whether a worker has closed itself, serves all tabs, or was told to lead. */
  closing = false;
  shared = false;
  leads = false;
  /** Whether its host is, which takes no messages any more. */
  stuck = false;
  /** What a worker says to its page. */
  post = (_message) => {};
  /** To the browser. */
  up = new Line();
  document = null;
  #waiting = [];
  #timer = 0;

  /**
   * @param {import("./browser.mjs").Browser} browser
   * @param {string} name
   * @param {import("./visit.mjs").Version} version of the package
   */
  constructor(browser, name, version) {
    this.browser = browser;
    this.world = browser.world;
    this.name = name;
    this.version = version;
    this.self = /** @type {any} */ (new Target());
  }

  get runs() {
    return this.alive && !this.frozen && !this.spins && !this.closing;
  }

  /** Runs a task, now or when it is thawed. */
  task(run) {
    if (!this.alive || this.spins || this.closing) return;
    if (this.frozen) return void this.#waiting.push(run);
    this.browser.current = this;
    try {
      run();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Runs a task after a while. */
  later(delay, run) {
    this.world.after(delay, () => this.task(run));
  }

  /** What a script threw, and nobody caught. */
  fail(error) {
    if (error instanceof Spin || !this.runs) return;
    const event = Object.assign(new Event("error", { cancelable: true }), { error, message: `Uncaught ${error}` });
    if (this.document) this.world.blame(`an error in ${this.name}: ${error?.stack ?? error}`);
    else this.self.dispatchEvent(event);
  }

  /** A promise that was rejected, and nobody cared. */
  reject(reason) {
    if (reason instanceof Spin || !this.runs) return;
    if (this.document) this.world.blame(`an unhandled rejection in ${this.name}: ${reason?.stack ?? reason}`);
    else this.self.dispatchEvent(Object.assign(new Event("unhandledrejection"), { reason }));
  }

  freeze({ isLeft = false } = {}) {
    this.frozen = this.wasFrozen = true;
    this.isLeft = isLeft;
    for (const worker of this.workers) worker.freeze({ isLeft });
  }

  thaw() {
    this.frozen = false;
    this.isLeft = false;
    for (const run of this.#waiting.splice(0)) this.later(0, run);
    for (const worker of this.workers) worker.thaw();
  }

  /** Ends it, with all that it holds. */
  end() {
    if (!this.alive) return;
    this.alive = false;
    this.timers.clear();
    for (const port of this.ports) port.close();
    for (const channel of this.channels) channel.close();
    // The browser takes a moment to notice.
    this.world.after(this.world.random() * 30, () => this.browser.locks.drop(this));
  }

  /** What it holds, in words. */
  holdings() {
    const { locks } = this.browser;
    const count = (what, list) => Array.from(list, (item) => `${what} ${item}`);
    const targets = [this.self, this.document].filter(Boolean);
    return [
      ...count("the lock", locks.of(this)),
      ...count(
        "port",
        [...this.ports].map((port) => port.last),
      ),
      ...count(
        "channel",
        [...this.channels].map((channel) => channel.name),
      ),
      ...count(
        "worker",
        [...this.workers].map((worker) => worker.name),
      ),
      ...count("a timer of", this.timers.values()),
      ...targets.flatMap((target) => count("a listener to", target.listeners)),
    ];
  }

  #timeout(milliseconds) {
    const controller = new Controller();
    this.later(milliseconds, () => controller.abort(new DOMException("the time is over", "TimeoutError")));
    return controller.signal;
  }

  /** The names that scripts find. */
  globals() {
    const { self, world, browser } = this;
    const random = () => world.random();
    const timer =
      (repeats) =>
      (run, delay = 0) => {
        const id = ++this.#timer;
        const wait = () => {
          const hidden = this.document?.visibilityState === "hidden";
          this.later(hidden ? Math.max(delay, THROTTLED) : delay, () => {
            if (!this.timers.has(id)) return;
            if (repeats) wait();
            else this.timers.delete(id);
            run();
          });
        };
        this.timers.set(id, `${delay} ms`);
        wait();
        return id;
      };
    const clear = (id) => void this.timers.delete(id);
    const realm = this;
    const store = storage(realm);
    class RuntimeError extends Error {}
    const globals = {
      globalThis: self,
      document: this.document ?? undefined,
      location: { href: browser.address },
      navigator: browser.navigator(this, store.navigator),
      crypto: { randomUUID: () => `${world.below(2 ** 31)}-${world.below(2 ** 31)}` },
      performance: { now: () => world.now },
      Date: class extends Date {
        static now() {
          return browser.now;
        }
      },
      Math: Object.assign(Object.create(Math), { random }),
      setTimeout: timer(false),
      setInterval: timer(true),
      clearTimeout: clear,
      clearInterval: clear,
      addEventListener: self.addEventListener.bind(self),
      removeEventListener: self.removeEventListener.bind(self),
      console: { error() {}, warn() {}, log: (...words) => world.note(this.name, ...words) },
      AbortController: Controller,
      AbortSignal: { timeout: (milliseconds) => this.#timeout(milliseconds), any: ([signal]) => signal },
      fetch: (address, init) => browser.fetch(this, address, init),
      ...store.globals,
      BroadcastChannel: class extends Channel {
        constructor(name) {
          super(realm, name);
        }
      },
      MessageChannel: class {
        constructor() {
          const [port1, port2] = channelPair(realm);
          Object.assign(this, { port1, port2 });
        }
      },
      WebAssembly: {
        RuntimeError,
        Memory: class {
          buffer = new ArrayBuffer(8);
        },
      },
      Atomics: {
        wait() {
          realm.spins = true;
          throw new Spin();
        },
      },
    };
    Object.assign(self, globals, { origin: browser.address });
    return globals;
  }
}
