// What goes wrong in a run, and how often.

/** By how it is called: how likely it is, each time, where a run has it. */
const FAULTS = {
  // Of the browser.
  echo: 0.05,
  loss: 0.01,
  rubbish: 0.2,
  lostScript: 0.3,
  failedScript: 0.15,
  slowScript: 0.2,
  deafLocks: 0.05,
  rubbishLocks: 0.1,
  twice: 0.05,
  theft: 0.1,
  forgery: 0.2,
  // Of a host that is asked something.
  trap: 0.02,
  reject: 0.02,
  close: 0.02,
  freeze: 0.02,
  stick: 0.02,
  device_lost: 0.03,
  refusal: 0.05,
  slow: 0.2,
  broken: 0.5,
  deafStore: 0.3,
  lateStore: 0.3,
  brokenStore: 0.2,
  rubbishStore: 0.2,
  deafNetwork: 0.1,
  lateNetwork: 0.2,
  brokenNetwork: 0.1,
  rubbishNetwork: 0.2,
  stall: 0.05,
  // Of tabs and workers.
  crash: 0.3,
  kill: 0.3,
  move: 1,
};

/** Those that lose no host. */
const HARMLESS = [
  "echo",
  "rubbish",
  "failedScript",
  "refusal",
  "slow",
  "broken",
  "deafStore",
  "lateStore",
  "brokenStore",
  "rubbishStore",
  "deafNetwork",
  "lateNetwork",
  "brokenNetwork",
  "rubbishNetwork",
];

export class Climate {
  /** How often hosts may have been lost. */
  blows = 0;
  /** The faults that have struck. */
  struck = new Set();
  #here = {};
  #world;
  /** Those whom the browser did not answer. */
  deafened = new Set();

  /** @param {import("./world.mjs").World} world */
  constructor(world) {
    this.#world = world;
    // Some runs have no faults at all, most have a few.
    const share = world.pick([0, 0.15, 0.4]);
    for (const [name, likely] of Object.entries(FAULTS)) this.#here[name] = world.chance(share) ? likely : 0;
    this.locks = !world.chance(0.05);
    this.sharedWorkers = !world.chance(0.3);
    this.pageGpu = world.chance(0.7);
    this.sharedGpu = world.chance(0.7);
  }

  /** Whether something goes wrong now. */
  strikes(name) {
    const strikes = this.#here[name] > 0 && this.#world.chance(this.#here[name]);
    if (strikes) {
      this.struck.add(name);
      if (!HARMLESS.includes(name)) this.blows += 1;
      this.#world.note("struck by", name);
    }
    return strikes;
  }

  /** Whether the browser does not answer a realm that asks for locks, from now on. */
  deaf(realm) {
    if (this.strikes("deafLocks")) this.deafened.add(realm);
    return this.#here.deafLocks > 0 && this.deafened.has(realm);
  }

  hasGpu(realm) {
    return realm.shared ? this.sharedGpu : this.pageGpu;
  }

  /** From now on nothing goes wrong any more. */
  calm() {
    for (const name of Object.keys(this.#here)) this.#here[name] = 0;
  }
}
