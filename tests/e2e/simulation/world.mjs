// Virtual time, and the order in which everything happens in it: both follow from one seed.
import { randomFrom } from "../tabs/site/random.mjs";

/** How long things take: most of them nothing, a few of them seconds. */
const DELAYS = [
  [0.7, 1],
  [0.95, 20],
  [0.995, 250],
  [1, 2500],
];

/** What is to happen, first things first. */
class Agenda {
  #heap = [];

  get size() {
    return this.#heap.length;
  }

  get next() {
    return this.#heap[0];
  }

  add(entry) {
    const heap = this.#heap;
    let at = heap.push(entry) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!before(entry, heap[above])) break;
      heap[at] = heap[above];
      at = above;
    }
    heap[at] = entry;
  }

  take() {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && before(heap[below + 1], heap[below])) below += 1;
      if (!before(heap[below], last)) break;
      heap[at] = heap[below];
      at = below;
    }
    heap[at] = last;
    return first;
  }
}

const before = (a, b) => a.at < b.at || (a.at === b.at && a.order < b.order);

/** Things that arrive in the order in which they were sent. */
export class Line {
  last = 0;
}

/**
 * A browser's time. `log` has what happened, for whoever looks at a seed; `broken` the first promise that was
 * not kept.
 */
export class World {
  /** Milliseconds since it began. */
  now = 0;
  broken = null;
  log = [];
  /** Whether things take no longer than they should. */
  calm = false;
  /** Called whenever something has happened. */
  watch = () => {};
  #agenda = new Agenda();
  #order = 0;

  constructor(seed) {
    this.random = randomFrom(seed);
  }

  /** A whole number below `count`. */
  below(count) {
    return Math.floor(this.random() * count);
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  chance(probability) {
    return this.random() < probability;
  }

  /** Milliseconds that something takes. */
  delay() {
    const dice = this.random();
    const [, most] = this.calm ? DELAYS[0] : DELAYS.find(([share]) => dice < share);
    return this.random() * most;
  }

  note(...words) {
    this.log.push(`${(this.now / 1000).toFixed(3)} ${words.join(" ")}`);
  }

  /** Says that a promise was broken. */
  blame(what) {
    this.note("BROKEN:", what);
    this.broken ??= what;
  }

  after(delay, happen) {
    this.#agenda.add({ at: this.now + delay, order: this.#order++, happen });
  }

  /** Sends something along a line. */
  send(line, happen) {
    line.last = Math.max(line.last, this.now + this.delay());
    this.after(line.last - this.now, happen);
  }

  /** Lets time pass until `done`, but no longer than `most` milliseconds; gives whether it was done. */
  async pass(most, done = () => false) {
    const end = this.now + most;
    await new Promise(setImmediate);
    while (!this.broken) {
      if (done()) return true;
      const { next } = this.#agenda;
      if (!next || next.at > end) {
        this.now = end;
        return done();
      }
      this.#agenda.take();
      this.now = next.at;
      next.happen();
      this.watch();
      // Everything that follows from it within the same turn of the event loop.
      await new Promise(setImmediate);
    }
    return false;
  }
}
