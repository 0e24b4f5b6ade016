/** Milliseconds that samples are kept for. */
export const KEPT = 30_000;

/** Milliseconds over which rates are taken; over less they would flicker. */
const SPAN = 2_000;

/** An engine's metrics at several moments: what changed, and how fast. */
export class Samples {
  /** @type {{now: number, metrics: any}[]} */
  #all = [];

  /**
   * Takes in the metrics at a moment.
   *
   * @param {any} metrics
   * @param {number} now milliseconds
   */
  add(metrics, now) {
    const last = this.#all.at(-1)?.metrics;
    // Another host, or a model that was loaded anew, counts from zero.
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
    const to = this.#all[this.#all.length - 1];
    const from = this.#all.findLast(({ now }) => to.now - now >= SPAN) ?? this.#all[0];
    const seconds = (to.now - from.now) / 1000;
    return seconds > 0 ? Math.max(0, count(to.metrics) - count(from.metrics)) / seconds : 0;
  }

  /** How many requests ran at each moment, and how many milliseconds before the last one that was. */
  batches() {
    const last = this.#all.at(-1)?.now ?? 0;
    return this.#all.map(({ now, metrics }) => ({ ago: last - now, size: metrics.num_requests_running }));
  }
}
