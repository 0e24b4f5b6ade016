// Web Locks of the simulated browser, as the standard has them.
import { Line } from "./world.mjs";

/** @typedef {import("./realm.mjs").Realm} Realm */

/** Whose locks tell what: the name of another script's, in a version at a time. */
const SQUATTERS = [
  () => undefined,
  (version) => `tabloom ${version} left`,
  (version) => `tabloom ${version} leader`,
  ...["", "x", "NaN", "-1", "0.5", "1e300", "1e999"].map(
    (epoch) => (version) => `tabloom ${version} leader since ${epoch}`,
  ),
  ...[-1000, 1, 1000, 3.6e6, 1e9].map((later) => (version, now) => `tabloom ${version} leader since ${now + later}`),
];

/** The locks of a site. */
export class Locks {
  #held = [];
  #queue = [];

  /** What a realm holds or waits for, or all do. */
  of(realm = null) {
    const mine = (list) => list.filter((request) => !realm || request.realm === realm);
    return [...mine(this.#held), ...mine(this.#queue)].map(({ name }) => name);
  }

  snapshot() {
    const plain = ({ name, mode }) => ({ name, mode });
    return { held: this.#held.map(plain), pending: this.#queue.map(plain) };
  }

  add(request) {
    const { name, steal, ifAvailable, realm } = request;
    if (!realm.alive) return;
    if (steal) {
      this.#break(name);
      this.#queue.unshift(request);
    } else if (ifAvailable && !this.#grantable(request, this.#queue)) {
      return request.granted(null);
    } else this.#queue.push(request);
    this.#process();
  }

  /** Any script of the site takes a lock from whoever has it, and gives it back at once. */
  rob(name) {
    this.#break(name);
    this.#process();
  }

  remove(request) {
    this.#held = this.#held.filter((other) => other !== request);
    this.#queue = this.#queue.filter((other) => other !== request);
    this.#process();
  }

  /** @param {Realm} realm that is gone */
  drop(realm) {
    this.#held = this.#held.filter((request) => request.realm !== realm);
    this.#queue = this.#queue.filter((request) => request.realm !== realm);
    this.#process();
  }

  #break(name) {
    const robbed = this.#held.filter((lock) => lock.name === name);
    this.#held = this.#held.filter((lock) => lock.name !== name);
    for (const lock of robbed) lock.broken();
  }

  #process() {
    const ahead = [];
    for (const request of this.#queue) {
      if (this.#grantable(request, ahead)) {
        this.#held.push(request);
        request.granted({ name: request.name, mode: request.mode });
      } else ahead.push(request);
    }
    this.#queue = ahead;
  }

  #grantable({ name, mode }, ahead) {
    const blocks = (other) => other.name === name && (mode === "exclusive" || other.mode === "exclusive");
    return ![...this.#held, ...ahead].some(blocks);
  }
}

/**
 * What may be in a snapshot: its parts are optional, and any script of the site has locks of any name.
 *
 * @param {Realm} realm
 */
function rubbish({ world, browser, version }) {
  const { held, pending } = browser.locks.snapshot();
  const name = world.pick(SQUATTERS)(version.name, browser.now);
  return world.chance(0.2) ? {} : { held: [...held, { name, mode: "exclusive" }], pending };
}

/**
 * `navigator.locks` of a realm.
 *
 * @param {Realm} realm
 */
export function lockManager(realm) {
  const { world, browser } = realm;
  const { locks } = browser;
  const denied = () => new DOMException("denied", "SecurityError");
  return {
    query() {
      return new Promise((resolve, reject) => {
        if (!browser.climate.locks) return reject(denied());
        world.send(realm.up, () => {
          if (browser.climate.deaf(realm)) return;
          const snapshot = browser.climate.strikes("rubbishLocks") ? rubbish(realm) : locks.snapshot();
          realm.later(world.delay(), () => resolve(snapshot));
        });
      });
    },

    request(name, ...rest) {
      const callback = rest.pop();
      const { mode = "exclusive", ifAvailable = false, steal = false, signal } = rest[0] ?? {};
      return new Promise((resolve, reject) => {
        if (!browser.climate.locks) return reject(denied());
        signal?.throwIfAborted();
        const line = new Line();
        let state = "waiting";
        const tell = (run) => world.send(line, () => realm.task(run));
        const leave = () => {
          if (state !== "waiting") return;
          state = "over";
          world.send(realm.up, () => locks.remove(request));
          reject(signal.reason);
        };
        const request = {
          name,
          mode,
          ifAvailable,
          steal,
          realm,
          granted: (lock) => tell(() => begin(lock)),
          broken: () =>
            tell(() => {
              if (state === "over") return;
              state = "over";
              reject(new DOMException("the lock was stolen", "AbortError"));
            }),
        };
        const begin = async (lock) => {
          if (state !== "waiting") return;
          state = "held";
          signal?.removeEventListener("abort", leave);
          if (browser.climate.strikes("twice")) realm.later(world.delay(), async () => callback(lock)?.catch(() => {}));
          let settle;
          try {
            const value = await callback(lock);
            settle = () => resolve(value);
          } catch (error) {
            settle = () => reject(error);
          }
          if (state === "over") return;
          state = "over";
          world.send(realm.up, () => locks.remove(request));
          settle();
        };
        signal?.addEventListener("abort", leave, { once: true });
        world.send(realm.up, () => browser.climate.deaf(realm) || locks.add(request));
      });
    },
  };
}
