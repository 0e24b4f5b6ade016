/** Milliseconds that samples are kept for. */
export const KEPT = 30_000;

/** Milliseconds over which rates are computed; shorter ones would flicker. */
const SPAN = 2_000;

/** An engine's metrics at several moments: what changed, and how fast. */
export class Samples {
  /** @type {{now: number, metrics: any}[]} */
  #all = [];

  /**
   * Adds the metrics at a moment.
   *
   * @param {any} metrics
   * @param {number} now milliseconds
   */
  add(metrics, now) {
    const last = this.#all.at(-1)?.metrics;
    // Another host, or a model that was loaded again, counts from zero.
    if (last && (last.host.name !== metrics.host.name || last.steps > metrics.steps)) this.#all = [];
    this.#all.push({ now, metrics });
    this.#all = this.#all.filter((sample) => now - sample.now <= KEPT);
  }

  /**
   * How fast a counter grows, per second. Sums over tabs may also fall, when a tab is closed.
   *
   * @param {(metrics: any) => number} count
   */
  rate(count) {
    return this.#growth(this.#all.length - 1, count);
  }

  /**
   * How fast a counter grew, per second, at each moment.
   *
   * @param {(metrics: any) => number} count
   */
  rates(count) {
    return this.#series((i) => this.#growth(i, count));
  }

  /**
   * The growth of one counter divided by that of another, at each moment; null where the other did not
   * grow.
   *
   * @param {(metrics: any) => number} part
   * @param {(metrics: any) => number} whole
   */
  ratios(part, whole) {
    return this.#series((i) => {
      const { from, to } = this.#span(i);
      const grown = whole(to.metrics) - whole(from.metrics);
      return grown > 0 ? (part(to.metrics) - part(from.metrics)) / grown : null;
    });
  }

  /** How many requests ran at each moment. */
  batches() {
    return this.#series((i) => this.#all[i].metrics.num_requests_running);
  }

  /**
   * A value for each moment, and how many milliseconds before the latest one it was.
   *
   * @template T
   * @param {(i: number) => T} value
   */
  #series(value) {
    const last = this.#all.at(-1)?.now ?? 0;
    return this.#all.map(({ now }, i) => ({ ago: last - now, value: value(i) }));
  }

  /**
   * @param {number} i
   * @param {(metrics: any) => number} count
   */
  #growth(i, count) {
    const { from, to } = this.#span(i);
    const seconds = (to.now - from.now) / 1000;
    return seconds > 0 ? Math.max(0, count(to.metrics) - count(from.metrics)) / seconds : 0;
  }

  /**
   * A sample, and the earlier one that it is compared with.
   *
   * @param {number} i
   */
  #span(i) {
    const to = this.#all[i];
    const from = this.#all.findLast(({ now }) => to.now - now >= SPAN) ?? this.#all[0];
    return { from, to };
  }
}
