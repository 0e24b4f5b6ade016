// One run: tabs that come, ask, change their mind and go, while things go wrong, and what must be true of it.
import { Browser } from "./browser.mjs";
import { Climate } from "./climate.mjs";
import { Controller } from "./events.mjs";
import { World } from "./world.mjs";

/**
 * A package of a version.
 *
 * @typedef {object} Version
 * @property {string} name
 * @property {(globals: object) => any} page runs its page's script
 * @property {(globals: object) => any} worker
 */

const MINUTE = 60_000;
/** Within which every call ends once nothing goes wrong any more: three hosts, each given two minutes. */
const PATIENCE = 15 * MINUTE;
/** Within which calls end that begin when all is well. */
const SOON = 3 * MINUTE;
/** Within which answers go on when all hosts have died, where locks tell it and where only silence does. */
const HAND_OVER = [5000, 30_000];
/** For which two leaders may run: until one has heard of the other. */
const LEASE = 15_000;
/** Until what is closed is gone. */
const FAREWELL = 100_000;
const MOST_TABS = 10;
/** A model's on the hub. */
const NAME = "org/name";

/** Runs a seed; gives what was broken, if anything, and what happened. */
export async function visit(seed, versions) {
  const run = new Visit(seed, versions);
  const stop = run.listen();
  try {
    await run.all();
  } finally {
    stop();
  }
  const { broken, log, now } = run.world;
  return { seed, broken, log, seconds: now / 1000, calls: run.calls.length };
}

class Visit {
  /** @type {Tab[]} */
  tabs = [];
  /** @type {any[]} */
  calls = [];
  /** Since when two lead at once. */
  #rivals = null;
  /** Workers by the locks of the engines that have greeted them. @type {Map<string, any>} */
  #hosts = new Map();
  /** The locks of engines that hosts have heard to be released. */
  #released = new Set();

  constructor(seed, versions) {
    const world = new World(seed);
    this.world = world;
    this.climate = new Climate(world);
    this.browser = new Browser(world, this.climate, (realm, report) => this.#fate(realm, report));
    this.crowded = world.chance(0.3);
    this.versions = world.chance(0.2) ? versions : [world.pick(versions)];
    this.host = world.pick(["auto", "auto", "shared", "leader", "leader", "private"]);
    world.watch = () => this.#watch();
  }

  /** Hears of what nobody caught. */
  listen() {
    const rejected = (reason) => this.browser.current?.reject(reason);
    const thrown = (error) => this.browser.current?.fail(error);
    process.on("unhandledRejection", rejected).on("uncaughtException", thrown);
    return () => process.off("unhandledRejection", rejected).off("uncaughtException", thrown);
  }

  async all() {
    for (const part of [() => this.#storm(), () => this.#calm(), () => this.#parting()]) {
      if (!this.world.broken) await part();
    }
  }

  /** Things happen, and go wrong. */
  async #storm() {
    const { world } = this;
    this.#open();
    for (let steps = 10 + world.below(60); steps > 0 && !world.broken; steps--) {
      await world.pass(world.pick([0, 0, 100, 1000, 1000, 10_000, 40_000]) * world.random());
      const { names } = this.browser.channels;
      if (names.length > 0 && this.climate.strikes("rubbish")) this.browser.babble(world.pick(names));
      if (names.length > 0 && this.climate.strikes("forgery")) this.browser.forge();
      if (this.climate.strikes("theft")) this.browser.steal();
      const tab = this.tabs.length > 0 ? world.pick(this.tabs) : null;
      if (!tab || (this.tabs.length < MOST_TABS && world.chance(this.crowded ? 0.4 : 0.15))) this.#open();
      else this.#act(tab);
    }
    if (this.crowded) await this.#exodus();
  }

  /** All but one leave, one after the other, those who lead first; the one that stays waits for an answer. */
  async #exodus() {
    const { world } = this;
    const last = this.tabs.at(-1);
    for (const engine of last?.engines ?? []) this.#ask(last, engine, stream);
    while (this.tabs.length > 1 && !world.broken) {
      this.#close(this.tabs[0], "close");
      await world.pass(3000 * world.random());
    }
  }

  /** Nothing goes wrong any more: all that was asked ends, and who asks again is answered. */
  async #calm() {
    const { world, climate, browser } = this;
    climate.calm();
    world.calm = true;
    for (const tab of this.tabs) tab.come();
    const open = () => this.calls.filter((call) => call.page.alive && call.outcome === null);
    await world.pass(PATIENCE, () => open().length === 0);
    for (const { what, page, began } of open()) {
      for (const thing of page.holdings()) world.note(page.name, "has", thing);
      world.note(
        "locks:",
        JSON.stringify(this.browser.locks.snapshot()),
        [...this.browser.realms].map((realm) => `${realm.name}${realm.runs ? "" : " (does not run)"}`).join(),
      );
      return world.blame(`${what} of ${page.name}, asked at ${began / 1000} s, has not ended`);
    }
    // What is stuck and has not been asked is found out, and deaths are forgotten.
    await world.pass(4 * MINUTE);
    const askAll = (...calls) => {
      for (const tab of this.tabs) {
        for (const engine of tab.engines) for (const ask of calls) this.#ask(tab, engine, ask, { last: true });
      }
    };
    // Whom the browser did not answer about locks may hold some that others wait for.
    if (climate.deafened.size > 0) return;
    askAll(stream, whole);
    await world.pass(SOON, () => open().length === 0);
    for (const { what, page } of open()) world.blame(`${what} of ${page.name} has no answer when all is well`);
    askAll(stream, embed);
    await world.pass(world.random() * 100);
    for (const realm of [...browser.realms]) if (!realm.document) browser.kill(realm);
    await world.pass(HAND_OVER[Number(!climate.locks)], () => open().length === 0);
    for (const { what, page } of open()) world.blame(`${what} of ${page.name} does not go on when its host has died`);
    await world.pass(MINUTE);
    askAll(stream, whole);
    await world.pass(world.random() * 100);
    const whose = world.pick(["tabloom host", "tabloom tab"]);
    for (const name of browser.locks.of()) if (name.startsWith(whose)) browser.locks.rob(name);
    await world.pass(HAND_OVER[0], () => open().length === 0);
    for (const { what, page } of open()) world.blame(`${what} of ${page.name} does not go on when locks were stolen`);
    await world.pass(MINUTE);
    const frozen = this.tabs.length > 1 ? world.pick(this.tabs) : null;
    frozen?.freeze();
    // A visitor who comes to a tab has left another, which may be frozen.
    for (const tab of this.tabs) {
      if (tab === frozen) continue;
      tab.show(false);
      tab.show(true);
    }
    askAll(stream);
    await world.pass(HAND_OVER[0], () => open().every(({ page }) => page.frozen));
    for (const { what, page } of open()) {
      if (!page.frozen) world.blame(`${what} of ${page.name} does not go on when ${frozen?.page.name} is frozen`);
    }
    frozen?.come();
    await world.pass(SOON, () => open().length === 0);
    for (const { what, page } of open()) world.blame(`${what} of ${page.name} does not go on when it is seen again`);
  }

  /** All leave: nothing is left. */
  async #parting() {
    const { world, browser, climate } = this;
    const released = [];
    for (const tab of this.tabs) {
      if (world.chance(0.5)) continue;
      for (const engine of tab.engines) this.#ask(tab, engine, world.pick([stream, whole]));
      const how = world.pick(["close", "release"]);
      if (how === "release") released.push(...browser.locks.of(tab.page));
      for (const engine of tab.engines) tab.closeEngine(engine, how);
    }
    await world.pass(FAREWELL);
    if (world.broken) return;
    for (const lock of released) {
      const worker = this.#hosts.get(lock);
      if (worker?.runs && !worker.stuck && !this.#released.has(lock))
        world.blame(`${worker.name} was not told that the engine of ${lock} was released`);
    }
    for (const { what, page, outcome } of this.calls) {
      if (page.alive && !outcome) world.blame(`${what} of ${page.name} has not ended with its engine`);
    }
    const left = (realm) => realm.holdings().filter((what) => !what.endsWith(" left"));
    for (const tab of this.tabs) {
      if (tab.engines.length > 0 || climate.deafened.has(tab.page)) continue;
      for (const what of left(tab.page)) world.blame(`${tab.page.name} has closed its engines and still has ${what}`);
    }
    for (const { what, outcome, controller } of this.calls) {
      if (outcome && controller.signal.listeners.length > 0)
        world.blame(`${what} has ended and still listens to its signal`);
    }
    // By locks workers know whether a page is gone.
    const workers = climate.deafened.size > 0 ? [] : browser.realms;
    for (const worker of workers) {
      // Those that are stuck were left to themselves.
      if (!worker.runs || worker.stuck || !worker.loaded) continue;
      for (const port of worker.ports)
        if (port.peer.closed) world.blame(`${worker.name} keeps a port that its page has closed ${port.last}`);
      for (const { name } of worker.channels) {
        if (/lobby/.test(name) || browser.channels.count(name) > 1) continue;
        world.blame(`${worker.name} keeps the channel ${name} that its page has closed`);
      }
    }
    for (const tab of [...this.tabs]) this.#close(tab, "close");
    await world.pass(FAREWELL);
    for (const name of browser.locks.of()) world.blame(`all are gone but for the lock ${name}`);
    for (const { name } of browser.realms) world.blame(`all are gone but for ${name}`);
    for (const name of browser.channels.names) world.blame(`all are gone but for the channel ${name}`);
  }

  #open() {
    const { world } = this;
    const tab = new Tab(this.browser, world.pick(this.versions));
    this.tabs.push(tab);
    if (world.chance(0.9)) this.#load(tab);
  }

  /** @param {Tab} tab */
  #act(tab) {
    const { world, climate, browser } = this;
    const { page } = tab;
    const engine = tab.engines.length > 0 ? world.pick(tab.engines) : null;
    const actions = {
      load: () => tab.loading + tab.engines.length < 2 && this.#load(tab),
      hide: () => tab.show(false),
      show: () => tab.show(true),
      freeze: () => tab.freeze(),
      come: () => tab.come(),
      leave: () => this.#leave(tab),
      close: () => this.#close(tab, "close"),
      reload: () => {
        this.#close(tab, "close");
        this.#open();
      },
      crash: () => climate.strikes("crash") && this.#close(tab, "crash"),
      kill: () => {
        const workers = [...browser.realms].filter((realm) => !realm.document);
        if (workers.length > 0 && climate.strikes("kill")) this.#harm(world.pick(workers));
      },
      abort: () => {
        const open = this.calls.filter(
          (call) => call.page === page && call.outcome === null && !/^(metrics|keep)/.test(call.what),
        );
        if (open.length > 0) this.#abort(world.pick(open));
      },
      "close the engine": () =>
        engine && world.chance(0.3) && tab.closeEngine(engine, world.pick(["close", "release"])),
    };
    const asking = [stream, stream, stream, whole, embed, metrics, unsendable, keep];
    const name = world.pick([...Object.keys(actions), "abort", ...asking]);
    if (typeof name === "string") actions[name]();
    else if (engine) this.#ask(tab, engine, name);
    else if (tab.loading === 0) this.#load(tab);
  }

  #harm(worker) {
    const { world, browser } = this;
    const way = world.pick(["dies", "spins", "freezes"]);
    world.note(worker.name, way);
    if (way === "dies") browser.kill(worker);
    else if (way === "spins") worker.spins = true;
    else {
      worker.freeze();
      const owner = [...browser.realms].find(({ workers }) => workers.has(worker));
      // With a page that is frozen it stays so.
      world.after(world.random() * MINUTE, () => owner?.frozen || worker.thaw());
    }
  }

  /** @param {Tab} tab */
  #close(tab, how) {
    const { world, browser } = this;
    const { page } = tab;
    world.note(page.name, how);
    this.tabs = this.tabs.filter((other) => other !== tab);
    if (how === "close" && !page.frozen) page.task(() => page.self.dispatchEvent(new Event("pagehide")));
    // A SharedWorker may run in the process of the tab that made it.
    const beside = how === "crash" ? [...browser.realms].filter((realm) => realm.shared && world.chance(0.5)) : [];
    world.after(0, () => {
      for (const realm of [page, ...beside]) browser.kill(realm);
    });
  }

  /** Leaves a page, which then holds up nobody. */
  #leave(tab) {
    const { world, browser, climate } = this;
    const { page } = tab;
    if (tab.isLeft) return;
    tab.leave();
    // The lock of an engine that was just released waits for a timer; the host has heard of it.
    if (world.now - tab.released < 1000) return;
    world.after(FAREWELL, () => {
      if (!tab.isLeft || !page.alive || climate.deafened.has(page)) return;
      for (const name of browser.locks.of(page)) {
        // Whoever is to delete a model has its lock; browsers do not keep such a page.
        if (!/ left$|:\/\//.test(name)) world.blame(`${page.name} was left and still has the lock ${name}`);
      }
    });
  }

  /** @param {Tab} tab */
  #load(tab) {
    const { world } = this;
    const { page } = tab;
    const host = world.chance(0.1) ? world.pick(["auto", "shared", "leader", "private"]) : this.host;
    const isolation = world.pick(["shared", "tab"]);
    const model = world.chance(0.2) ? NAME : "model/";
    const { call, signal } = this.#call(`a load (${host})`, page);
    tab.loading += 1;
    page.task(async () => {
      const { Engine } = page.self.exports;
      try {
        const engine = await Engine.load(model, { host, isolation, signal });
        tab.engines.push(engine);
        this.#end(call, null);
      } catch (error) {
        this.#end(call, error);
      }
      tab.loading -= 1;
    });
  }

  /**
   * @param {Tab} tab
   * @param {any} engine
   * @param {(engine: any, call: any, signal: any, world: World, page: any) => Promise<void>} ask
   */
  #ask(tab, engine, ask, { last = false } = {}) {
    const { page } = tab;
    const { call, signal } = this.#call(ask.name, page);
    Object.assign(call, { engine, last, closed: () => tab.closed.has(engine) });
    page.task(async () => {
      try {
        await ask(engine, call, signal, this.world, page);
        this.#end(call, null);
      } catch (error) {
        this.#end(call, error);
      }
    });
  }

  #call(what, page) {
    const controller = new Controller();
    const { signal } = controller;
    const number = this.calls.length;
    const call = {
      what: `${what} (call ${number})`,
      number,
      page,
      controller,
      began: this.world.now,
      outcome: /** @type {any} */ (null),
      refused: /** @type {string | null} */ (null),
      /** Until when it may go on. */
      over: Infinity,
      slow: false,
      count: this.world.pick([0, 1, 5, 40, 100]),
    };
    this.calls.push(call);
    this.world.note(page.name, "asks:", call.what);
    return { call, signal };
  }

  #abort(call) {
    this.world.note(call.page.name, "aborts", call.what);
    call.aborted = true;
    call.page.task(() => {
      // A reader that is slow has chunks to read before.
      if (!call.slow) call.over = this.world.now;
      call.controller.abort();
    });
  }

  /** A call has ended, with an error or without. */
  #end(call, error) {
    const { world } = this;
    const { what, page } = call;
    const outcome = error ? `${error.name} ${error.code ?? ""} ${error.message}` : "an answer";
    world.note(page.name, "is given, to", what, outcome);
    if (call.outcome) return world.blame(`${what} ended twice`);
    call.outcome = outcome;
    if (world.now > call.over) world.blame(`${what} of ${page.name} was given up and has gone on`);
    if (error && !this.#excused(call, error)) world.blame(`${what} of ${page.name} failed with ${error.stack}`);
  }

  /** Whether a call may have failed with an error. */
  #excused(call, error) {
    const { climate } = this;
    if (error instanceof Wrong) return false;
    if (error === call.controller.signal.reason) return call.aborted;
    if (error.name !== "TabloomError") return false;
    if (call.last) return false;
    if (error.code === call.refused) return true;
    if (error.code === "invalid_request") return call.what.startsWith("unsendable");
    if (error.code === "closed") return call.closed?.() && /engine was closed/.test(error.message);
    if (error.code === "engine_crashed") {
      return climate.blows >= (/does not answer/.test(error.message) ? 1 : 2);
    }
    if (error.code === "no_host") return climate.struck.size > 0 || !climate.locks || !climate.sharedWorkers;
    if (error.code === "start_failed") return climate.struck.has("broken");
    if (error.code === "fetch") {
      // A frozen page is over its limits before it hears of any answer.
      return call.page.wasFrozen || [...climate.struck].some((name) => name.endsWith("Network"));
    }
    if (error.code === "model_busy") return call.what.startsWith("keep");
    return error.code === "no_gpu" && climate.struck.has("refusal");
  }

  /** What happens to a host that reports. */
  #fate(realm, report) {
    const { world, climate } = this;
    const stuck = (next) => {
      realm.stuck ||= ["stall", "stick"].includes(next.fate);
      return next;
    };
    const strikes = (...names) => names.find((name) => climate.strikes(name));
    if (report.type === "boot") {
      if (strikes("stall")) return stuck({ fate: "stall" });
      return strikes("broken") ? { fate: "broken" } : {};
    }
    if (report.type === "left") {
      if (report.free) this.#released.add(report.tab);
      return {};
    }
    if (report.tab) this.#hosts.set(report.tab, realm);
    if (report.type === "hello") return strikes("slow") ? { pause: 20_000 * world.random() } : {};
    const fate = strikes("trap", "reject", "close", "freeze", "stick", "device_lost");
    if (report.type === "load")
      return strikes("refusal") ? { fate: "no_gpu" } : stuck({ fate, info: { stored: true } });
    const busy = strikes("slow") ? 40_000 * world.random() : 0;
    if (!["chat", "embed"].includes(report.type)) return { busy };
    const call = this.calls[report.request.user];
    if (!fate && strikes("refusal")) {
      call.refused = "queue_full";
      return { fate: call.refused, at: world.below(call.count + 2), count: call.count };
    }
    const pause = call.last ? 10 : world.pick([0, 0, 10, 200]);
    return stuck({ fate, at: world.below(call.count + 2), count: call.count, busy, pause });
  }

  /** What must be true at any time. */
  #watch() {
    const { browser, world } = this;
    const leaders = [...browser.realms].filter((realm) => realm.leads && realm.runs);
    const rivals = leaders.some(({ version }, i) => leaders.slice(i + 1).some((other) => other.version === version));
    if (!rivals) this.#rivals = null;
    else this.#rivals ??= world.now;
    if (rivals && world.now - this.#rivals > LEASE) world.blame(`two lead: ${leaders.map(({ name }) => name)}`);
  }
}

/** A tab and its engines. */
class Tab {
  engines = [];
  loading = 0;
  closed = new Set();
  /** When an engine was last released. */
  released = -Infinity;
  isLeft = false;

  constructor(browser, version) {
    this.page = browser.open(version);
  }

  show(visible) {
    const { page } = this;
    if (page.frozen) return;
    const visibilityState = visible ? "visible" : "hidden";
    if (page.document.visibilityState === visibilityState) return;
    page.world.note(page.name, "is", visibilityState);
    page.document.visibilityState = visibilityState;
    page.task(() => page.document.dispatchEvent(new Event("visibilitychange")));
  }

  freeze() {
    this.show(false);
    this.page.world.note(this.page.name, "is frozen");
    this.page.freeze({ isLeft: this.isLeft });
  }

  /** Goes elsewhere; the browser keeps the page for the way back. */
  leave() {
    const { page } = this;
    if (page.frozen) return;
    page.world.note(page.name, "is left");
    this.isLeft = true;
    page.task(() => page.self.dispatchEvent(new Event("pagehide")));
    page.world.after(0, () => this.isLeft && this.freeze());
  }

  /** Is seen again. */
  come() {
    const { page } = this;
    page.thaw();
    if (this.isLeft) page.later(0, () => page.self.dispatchEvent(new Event("pageshow")));
    this.isLeft = false;
    this.show(true);
  }

  closeEngine(engine, how = "close") {
    const { page } = this;
    page.world.note(page.name, `${how}s an engine`);
    this.engines = this.engines.filter((other) => other !== engine);
    this.closed.add(engine);
    if (how === "release") this.released = page.world.now;
    page.task(() => engine[how]());
  }
}

/** An answer is not what it should be. */
class Wrong extends Error {}

const expect = (right, what) => {
  if (!right) throw new Wrong(what);
};

/** Reads a stream, or a part of it. */
async function stream(engine, call, signal, world, page) {
  const n = world.chance(0.2) ? 2 : 1;
  const usage = world.chance(0.3);
  const leaves = world.chance(0.1) ? world.below(20) : Infinity;
  call.slow = !call.last && world.chance(0.2);
  const params = { messages: [], n, user: call.number, stream: true, stream_options: { include_usage: usage } };
  const choices = Array.from({ length: n }, () => ({ role: false, text: "", end: null }));
  const ids = new Set();
  const all = upTo(call.count);
  let [chunks, usages] = [0, 0];
  for await (const chunk of await engine.chat.completions.create(params, { signal })) {
    expect(call.outcome === null, "a chunk after the end");
    ids.add(chunk.id);
    if (chunk.usage) usages += 1;
    for (const { index, delta, finish_reason } of chunk.choices) {
      const choice = choices[index];
      expect(choice.end === null, `a chunk after the end of choice ${index}`);
      expect(Boolean(delta.role) !== choice.role, `choice ${index} has a role twice or late`);
      choice.role = true;
      const text = choice.text + (delta.content ?? "");
      expect(all.startsWith(text), `choice ${index} goes on with ${delta.content} after ${choice.text}`);
      Object.assign(choice, { text, end: finish_reason });
    }
    if (++chunks > leaves) return;
    if (call.slow) await new Promise((resolve) => page.self.setTimeout(resolve, 1000 * world.random()));
  }
  expect(ids.size === 1, `${ids.size} ids`);
  expect(usages === Number(usage), `${usages} times usage`);
  for (const { text, end } of choices) expect(end && text === all, `an answer ends with ${text}`);
}

async function whole(engine, call, signal) {
  const { choices } = await engine.chat.completions.create({ messages: [], user: call.number }, { signal });
  expect(choices[0].message.content === upTo(call.count), `another answer: ${choices[0].message.content}`);
}

async function embed(engine, call, signal) {
  const { asked } = await engine.embeddings.create({ input: "x", user: call.number }, { signal });
  expect(asked.user === call.number, "another's answer");
}

async function metrics(engine) {
  const { tabs } = await engine.metrics();
  expect(tabs > 0, "no tabs");
}

/** Looks at what is kept, or deletes some. */
async function keep(_engine, _call, _signal, world, page) {
  const { store } = page.self.exports.Engine;
  const asks = {
    list: async () =>
      (await store.list()).every(
        ({ bytes, prefixBytes, lastUsed }) => bytes + prefixBytes >= 0 && Number(lastUsed) >= 0,
      ),
    size: async () => (await store.size()).bytes >= 0,
    delete: async () => typeof (await store.delete(world.pick([NAME, "model/"]))) === "boolean",
    "delete prefixes": async () => (await store.deletePrefixes()) === undefined,
  };
  const ask = world.pick(Object.keys(asks));
  expect(await asks[ask](), ask);
}

/** A call that is no JSON. */
async function unsendable(engine, _call, signal) {
  await engine.tokenize("x", { addSpecialTokens: 1n, signal });
}

/** The whole answer of `count` tokens. */
function upTo(count) {
  return Array.from({ length: count }, (_, i) => `${i} `).join("");
}
