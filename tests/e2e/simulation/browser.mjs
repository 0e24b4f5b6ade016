// A browser of the simulation: pages and workers of one site, and what they share.
import { Target } from "./events.mjs";
import { Locks, lockManager } from "./locks.mjs";
import { Channels, Port, channelPair } from "./ports.mjs";
import { Realm } from "./realm.mjs";
import { Kept } from "./store.mjs";

/** When a visit begins, in milliseconds since 1970. */
const EPOCH = 1.79e12;
/** Milliseconds for which a SharedWorker may outlive its pages. */
const EXTENDED = 30_000;
/** Milliseconds that a worker may take to end after it was told to. */
const LAST_BREATH = 300;
/** Milliseconds until the network gives up a script that never comes: browsers take minutes, or their connections do. */
const NETWORK = 180_000;

/** Answers that end a call, and what may come twice without harm. */
const REPEATABLE = ["here", "alive", "value", "end", "error", "failed", "up", "down", "join"];

/** What any script of the site may put on its channels; nothing helps against one that imitates a host. */
const RUBBISH = [null, undefined, 7, "x", [], {}, { type: "up" }, { type: "down", epoch: 0 }];

/** What no host answers. */
const MALFORMED = [
  { type: "failed" },
  { type: "failed", error: {} },
  { type: "error" },
  { type: "error", error: null },
  { type: "ping" },
  { type: "progress" },
  { type: "chunk" },
  { type: "chunk", value: {}, tokens: [] },
  { type: "chunk", value: { choices: [{ index: 2 ** 31 }] }, tokens: [] },
  { type: "chunk", value: { choices: [{ index: "length" }] }, tokens: [] },
];

/** What the hub says of a model, and what another server, or a proxy, may say. */
const LISTING = {
  sha: "0123456789".repeat(4),
  siblings: [{ rfilename: "config.json" }, { rfilename: "a.safetensors" }],
};
const LISTINGS = [
  ...RUBBISH.map((siblings) => ({ ...LISTING, siblings })),
  ...RUBBISH,
  { ...LISTING, siblings: [null] },
  { ...LISTING, siblings: [{ rfilename: 7 }] },
  { ...LISTING, sha: "main" },
];

export class Browser {
  address = "https://site.example/";
  /** @type {Set<Realm>} that live */
  realms = new Set();
  /** @type {Map<string, SharedHome>} by name */
  #shared = new Map();
  channels = new Channels();
  /** Whose task it is. @type {Realm | null} */
  current = null;
  #count = 0;

  /**
   * @param {import("./world.mjs").World} world
   * @param {import("./climate.mjs").Climate} climate what goes wrong
   * @param {(realm: Realm, report: any) => any} fate what happens next to a host that reports
   */
  constructor(world, climate, fate) {
    this.world = world;
    this.climate = climate;
    this.fate = fate;
    this.locks = new Locks();
    this.kept = new Kept();
  }

  /** The time of day. */
  get now() {
    return EPOCH + Math.floor(this.world.now);
  }

  /** Any script of the site speaks on one of its channels. */
  babble(name) {
    this.channels.broadcast(name, this.world.pick(RUBBISH));
    // To pages alone: a host answers what has the id of a call, too.
    const said = this.channels.heard(name).said + 1;
    const malformed = { ...this.world.pick(MALFORMED), id: this.#anyId(), said };
    this.channels.broadcast(name, malformed, (channel) => Boolean(channel.realm.document));
  }

  /** Any script of the site says in others' names, on all channels, that they leave, or leave a call. */
  forge() {
    const { world, channels } = this;
    const what = world.pick(["cancel", "cancel", "bye", "down"]);
    const { held } = this.locks.snapshot();
    const epochs = held.map(({ name }) => name.split(" since ")[1]).filter(Boolean);
    for (const name of channels.names) {
      const { chat, asked } = channels.heard(name);
      if (what !== "down") channels.broadcast(name, { type: what, id: chat, asked: asked + 1 });
      else for (const epoch of epochs) channels.broadcast(name, { type: what, epoch: Number(epoch) });
    }
  }

  /** One that a page's call may have. */
  #anyId() {
    return 1 + this.world.below(10);
  }

  /** Any script of the site steals one of its locks. */
  steal() {
    const { held } = this.locks.snapshot();
    if (held.length === 0) return;
    const { name } = this.world.pick(held);
    this.world.note("stolen:", name);
    this.locks.rob(name);
  }

  /** How often a message arrives. */
  times(data) {
    return REPEATABLE.includes(data?.type) && this.climate.strikes("echo") ? 2 : 1;
  }

  /**
   * A new page with the package of a version.
   *
   * @param {import("./visit.mjs").Version} version
   */
  open(version) {
    const page = this.#realm(`page ${++this.#count}`, version);
    const { world } = this;
    page.document = /** @type {any} */ (
      Object.assign(new Target(), { visibilityState: "visible", baseURI: this.address })
    );
    const globals = {
      ...page.globals(),
      Worker: this.#workers(page),
      SharedWorker: this.climate.sharedWorkers ? this.#sharedWorkers(page) : undefined,
    };
    Object.assign(page.self, globals);
    page.self.exports = version.page(globals);
    world.note(page.name, "opens with", version.name);
    return page;
  }

  /** Ends a realm, as if its process had died. */
  kill(realm) {
    if (!realm.alive) return;
    this.world.note(realm.name, "ends");
    realm.end();
    this.realms.delete(realm);
    for (const worker of realm.workers) this.kill(worker);
    for (const home of this.#shared.values()) {
      if (home.worker === realm) this.#shared.delete(home.key);
      else if (home.owners.delete(realm)) {
        if (home.creator === realm && home.owners.size > 0 && this.climate.strikes("move")) this.#move(home);
        else this.#mayEnd(home);
      }
    }
  }

  /** The worker for the locks, and the rest of `navigator`. */
  navigator(realm, storage) {
    const gpu = this.climate.hasGpu(realm) ? {} : undefined;
    return { locks: lockManager(realm), storage, ...(gpu && { gpu }) };
  }

  /** What a host is told of its fate, or a page by a server. */
  fetch(realm, address, init) {
    return `${address}`.endsWith("/fate") ? this.#fateOf(realm, init) : this.#download(realm, init);
  }

  #fateOf(realm, init) {
    return new Promise((resolve) => {
      this.world.send(realm.up, () => {
        if (!realm.alive) return;
        const next = this.fate(realm, JSON.parse(init.body));
        realm.later(this.world.delay(), () => resolve({ json: async () => next }));
      });
    });
  }

  /** The list of a model's files. */
  #download(realm, { signal }) {
    const { world, climate } = this;
    const answer = (value, rubbish) =>
      new Promise((resolve, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
        if (climate.strikes("deafNetwork")) return;
        const late = climate.strikes("lateNetwork") ? 90_000 * world.random() : 0;
        realm.later(world.delay() + late, () => {
          if (climate.strikes("brokenNetwork")) reject(new TypeError("Failed to fetch"));
          else resolve(climate.strikes("rubbishNetwork") ? world.pick(rubbish) : value);
        });
      });
    const response = (status) => ({ ok: status === 200, status, json: () => answer(LISTING, LISTINGS) });
    return answer(response(200), [404, 429, 500].map(response));
  }

  #realm(name, version) {
    const realm = new Realm(this, name, version);
    this.realms.add(realm);
    return realm;
  }

  /**
   * Runs a worker's script once it has been loaded.
   *
   * @param {Realm} worker
   * @param {() => void} failed
   */
  #load(worker, failed) {
    const { world, climate } = this;
    const fail = () => {
      failed();
      this.kill(worker);
    };
    if (climate.strikes("lostScript")) return worker.later(NETWORK, fail);
    const fails = climate.strikes("failedScript");
    const slow = climate.strikes("slowScript") ? world.random() * 30_000 : 0;
    worker.later(world.delay() + slow, () => {
      if (fails) return fail();
      const close = () => {
        worker.closing = true;
        world.after(world.random() * LAST_BREATH, () => this.kill(worker));
      };
      const globals = { ...worker.globals(), close, postMessage: worker.post };
      worker.self.exports = worker.version.worker(globals);
      worker.loaded = true;
      for (const run of worker.early.splice(0)) worker.later(0, run);
    });
  }

  /** Runs a task in a worker once its script has run. */
  #soon(worker, run) {
    worker.task(() => (worker.loaded ? run() : worker.early.push(run)));
  }

  #workers(page) {
    const browser = this;
    return class {
      onerror = null;
      onmessage = null;

      constructor() {
        const worker = browser.#realm(`worker ${++browser.#count} of ${page.name}`, page.version);
        this.worker = worker;
        page.workers.add(worker);
        if (page.frozen) worker.freeze();
        const [mine, its] = channelPair(page);
        // The implicit ports of a worker are no objects that anybody could leave open.
        its.move(worker);
        page.ports.delete(mine);
        worker.ports.delete(its);
        this.port = mine;
        worker.post = (message) => its.postMessage(message);
        its.onmessage = ({ data, ports }) => {
          for (const port of ports) port.move(worker);
          const event = Object.assign(new Event("message"), { data, ports });
          browser.#soon(worker, () => worker.self.dispatchEvent(event));
        };
        mine.onmessage = (event) => this.onmessage?.(event);
        browser.#load(worker, () => page.later(browser.world.delay(), () => this.onerror?.(new Event("error"))));
      }

      postMessage(message, transferred) {
        if (message.type === "lead") this.worker.leads = true;
        this.port.postMessage(message, transferred);
      }

      terminate() {
        const { worker } = this;
        page.workers.delete(worker);
        // One that spins has two seconds to come to itself.
        browser.world.after(worker.spins ? 2000 : browser.world.random() * 20, () => browser.kill(worker));
      }
    };
  }

  #sharedWorkers(page) {
    const browser = this;
    return class {
      onerror = null;

      constructor(_script, { name }) {
        const [mine, its] = channelPair(page);
        this.port = mine;
        browser.world.send(page.up, () => page.alive && browser.#connect(page, name, its, this));
      }
    };
  }

  #connect(page, name, port, handle) {
    let home = this.#shared.get(name);
    if (!home) {
      home = new SharedHome(name, page, this.#sharedWorker(page.version));
      this.#shared.set(name, home);
      this.#run(home);
    }
    const { worker, owners, handles } = home;
    owners.add(page);
    home.ports.push(port.peer);
    if (!worker.loaded) handles.push([page, handle]);
    this.#join(port, worker);
  }

  #sharedWorker(version) {
    const worker = this.#realm(`shared worker ${++this.#count}`, version);
    worker.shared = true;
    return worker;
  }

  #run({ worker, handles }) {
    this.#load(worker, () => {
      for (const [page, handle] of handles) page.later(this.world.delay(), () => handle.onerror?.(new Event("error")));
    });
  }

  #join(port, worker) {
    port.move(worker);
    this.#soon(worker, () => worker.self.dispatchEvent(Object.assign(new Event("connect"), { ports: [port] })));
  }

  /** Runs a SharedWorker anew elsewhere, with the ports that it had, as WebKit does when its creator is gone. */
  #move(home) {
    const { worker: former, owners } = home;
    former.end();
    this.realms.delete(former);
    [home.creator] = owners;
    home.worker = this.#sharedWorker(former.version);
    this.world.note(former.name, "is moved and is now", home.worker.name);
    this.#run(home);
    home.ports = home.ports.filter(({ closed }) => !closed);
    for (const mine of home.ports) {
      const its = new Port(mine.realm);
      Object.assign(its, { peer: mine });
      mine.peer = its;
      this.#join(its, home.worker);
    }
  }

  #mayEnd(home) {
    if (home.owners.size > 0) return;
    const patience = this.world.chance(0.5) ? EXTENDED * this.world.random() : 0;
    this.world.after(patience, () => home.owners.size === 0 && this.kill(home.worker));
  }
}

class SharedHome {
  /** @type {Set<Realm>} */
  owners = new Set();
  handles = [];
  /** The pages' ends of its ports. @type {Port[]} */
  ports = [];

  constructor(key, creator, worker) {
    this.key = key;
    this.creator = creator;
    this.worker = worker;
  }
}
