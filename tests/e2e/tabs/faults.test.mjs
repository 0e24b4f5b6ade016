// A hundred runs, spread over the rungs, in which tabs come, ask, change their mind and go, and hosts die, in an
// order that a seed draws: every call ends, with the whole answer or the error that it must have, and nothing is left.
// In some runs tabs are of two versions of the package, with a host each.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { goldens } from "../package.mjs";
import { open, text, until } from "./tabs.mjs";
import { BOTH, OTHER, THIS, WORKER } from "./versions.mjs";
import { randomFrom } from "./site/random.mjs";

const SEED = Number(process.env.TABLOOM_SEED ?? Math.floor(Math.random() * 2 ** 31));
/** Runs by rung. */
const RUNS = { shared: 40, leader: 30, private: 30 };
/** Most tabs at once, and in every so manieth run on a rung where they share a host. */
const [MOST_TABS, CROWD, CROWDED] = [3, 10, 12];
/** In every so manieth run on such a rung tabs are of two versions. */
const MIXED = 4;
/** A call that sees three hosts die may fail for it. */
const MOST_DEATHS = 2;
/** Short enough for many runs, long enough to be interrupted. */
const REQUESTS = goldens.slice(0, 3).map(({ messages }) => ({ messages, temperature: 0, max_tokens: 24 }));

let session;
let expected;

before(async () => {
  session = await open(BOTH);
  const visitor = await session.visitor();
  expected = (await visitor.alone(REQUESTS)).map(text);
  await visitor.close();
});

after(() => session?.close());

for (const [rung, runs] of Object.entries(RUNS)) {
  test(`${rung}: ${runs} runs (seed ${SEED})`, async () => {
    const visitor = await session.visitor();
    const witness = await visitor.tab();
    for (let run = 0; run < runs; run++) {
      const trail = [];
      try {
        await new Run(SEED + run, rung, visitor, witness, trail).all();
      } catch (error) {
        const again = `TABLOOM_SEED=${SEED + run} cargo xtask test --file tests/e2e/tabs/faults.test.mjs`;
        throw new Error(`run ${run}: ${trail.join(", ")}\nThe same again: ${again}`, { cause: error });
      }
    }
    await visitor.close();
  });
}

class Run {
  /** @type {{tab: any, calls: any[], version: typeof THIS}[]} */
  #tabs = [];
  #deaths = 0;
  #names = 0;
  /** What pages threw and nobody caught. */
  #errors = [];

  constructor(seed, rung, visitor, witness, trail) {
    this.random = randomFrom(seed);
    this.rung = rung;
    this.visitor = visitor;
    this.witness = witness;
    this.trail = trail;
  }

  #below(count) {
    return Math.floor(this.random() * count);
  }

  #pick(list) {
    return list[this.#below(list.length)];
  }

  async all() {
    const shares = this.rung !== "private";
    const crowded = shares && this.#below(CROWDED) === 0;
    this.mostTabs = crowded ? CROWD : MOST_TABS;
    this.versions = shares && this.#below(MIXED) === 0 ? [THIS, OTHER] : [THIS];
    const first = Array.from({ length: crowded ? 4 + this.#below(CROWD - 3) : 1 }, () => this.#pick(this.versions));
    // One of each, at least.
    first.splice(0, this.versions.length, ...this.versions);
    await Promise.all(first.map((version) => this.#open(version)));
    await this.#apart();
    for (const place of this.#tabs) await this.#ask(place);
    for (let steps = 2 + this.#below(5); steps > 0; steps--) await this.#step();
    for (const place of this.#tabs) await this.#end(place);
    await this.#apart();
    for (const { tab } of this.#tabs) await tab.close();
    await this.#free(this.versions.length);
    if (this.versions.length > 1) {
      // The next run, perhaps of one version, is to find one such host at most.
      await this.witness.command("close");
      await this.#free(0);
    }
    assert.deepEqual(this.#errors, []);
  }

  /** Where tabs are of two versions, each version has hosts of its own, at the same time as the other. */
  async #apart() {
    if (this.versions.length === 1) return;
    await until("a host for every tab", async () => {
      const hosts = await Promise.all(this.#tabs.map(async ({ tab }) => (await tab.metrics()).host.name));
      for (const [i, { tab, version }] of this.#tabs.entries()) {
        const other = this.#tabs[hosts.indexOf(hosts[i])];
        assert.equal(other.version, version, `${tab.name} and ${other.tab.name} have a host in common`);
      }
      const locks = await this.#locks();
      return hosts.every((host) => locks.includes(host));
    });
  }

  /** Waits until the site's locks are free, but for those of `hosts` SharedWorkers, which may outlive their tabs. */
  async #free(hosts) {
    await until("all locks to be free", async () => {
      const left = (await this.#locks()).filter((name) => name.startsWith("tabloom") && !name.endsWith(" left"));
      return left.every((name) => this.rung === "shared" && name.startsWith("tabloom host")) && left.length <= hosts;
    });
  }

  #locks() {
    return this.witness.run("locks", async () => {
      const { held, pending } = await navigator.locks.query();
      return [...held, ...pending].map(({ name }) => name);
    });
  }

  async #step() {
    const place = this.#pick(this.#tabs);
    const actions = {
      open: () => this.#tabs.length < this.mostTabs && this.#open(),
      ask: () => this.#ask(place),
      "ask again": () => this.#ask(place),
      abort: () => this.#abort(place),
      hide: () => place.tab.show("hidden"),
      show: () => place.tab.show("visible"),
      close: () => this.#tabs.length > 1 && this.#leave(place, () => place.tab.close()),
      reload: () => this.#reload(place),
      "close the engine": () => this.#reopen(place),
      kill: () => this.#kill(place),
      trap: () => this.#kill(place, "trap"),
      freeze: () => this.#freeze(place),
    };
    const name = this.#pick(Object.keys(actions));
    this.trail.push(`${place.tab.name} ${name}`);
    await actions[name]();
  }

  async #open(version = this.#pick(this.versions)) {
    const tab = await this.visitor.tab({ package: version.package });
    if (version === OTHER) this.trail.push(`${tab.name} of another version`);
    // Playwright reports those of workers, too.
    tab.page.on("pageerror", (error) => /unreachable/.test(error.message) || this.#errors.push(`${error}`));
    await this.#load(tab);
    this.#tabs.push({ tab, calls: [], version });
  }

  #load(tab) {
    return tab.load({ host: this.rung, workerFile: WORKER });
  }

  async #ask({ tab, calls }) {
    const which = this.#below(REQUESTS.length);
    const name = `call ${++this.#names}`;
    await tab.run(
      name,
      ([name, params]) => {
        globalThis.controllers ??= {};
        const { signal } = (controllers[name] = new AbortController());
        begin(name, params, { signal });
      },
      [name, REQUESTS[which]],
    );
    calls.push({ name, answer: expected[which], excuse: null });
  }

  async #abort({ tab, calls }) {
    const call = this.#pick(calls);
    if (!call) return;
    await tab.run("abort", (name) => controllers[name].abort(), call.name);
    call.excuse ??= "AbortError";
  }

  async #leave(place, leave) {
    // Nobody waits any more for what it asked.
    this.#tabs = this.#tabs.filter((other) => other !== place);
    await leave();
  }

  async #reload(place) {
    place.calls = [];
    await place.tab.reload();
    await this.#load(place.tab);
  }

  async #reopen(place) {
    await place.tab.run("close", () => engine.close());
    for (const call of place.calls) call.excuse ??= "closed";
    await this.#end(place);
    await this.#load(place.tab);
  }

  async #kill({ tab }, command = "close") {
    if (this.#deaths === MOST_DEATHS) return;
    this.#deaths += 1;
    await tab.command(command);
  }

  async #freeze({ tab }) {
    await tab.freeze();
    const other = this.#tabs.find((place) => place.tab !== tab);
    if (other) await this.#ask(other);
    await tab.thaw();
  }

  /** Waits for the calls of a tab. */
  async #end({ tab, calls }) {
    for (const { name, answer, excuse } of calls.splice(0)) {
      const { error } = await tab.stream(name);
      if (!error) assert.equal(text(await tab.answer(name)), answer);
      else assert.ok(excuse && [error.name, error.code].includes(excuse), `${name} of ${tab.name}: ${error.message}`);
    }
  }
}
