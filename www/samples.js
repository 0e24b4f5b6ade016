/** Milliseconds that figures are kept for. */
export const KEPT = 180_000;

/** Milliseconds over which rates are computed; shorter ones would flicker. */
const SPAN = 2_000;

/** Milliseconds between two readings from which on nobody has looked in between. */
const PAUSE = 5_000;

/** The counts of a tab that has asked nothing. */
const NONE = { generation_tokens: 0, prompt_tokens: 0, cached_tokens: 0, kv_blocks: 0 };

/**
 * Figures of an engine at a moment, and how many milliseconds before the latest it was. A figure is null
 * where nothing was counted. Of each tab: tokens a second and a step, and KV blocks.
 *
 * @typedef {object} Point
 * @property {number} now
 * @property {number} running
 * @property {number} waiting
 * @property {number | null} rate tokens of answers, a second
 * @property {number | null} rows of a step, rejected draft tokens among them
 * @property {number | null} found share of looked-up prompt tokens
 * @property {number | null} accepted share of draft tokens
 * @property {Record<string, {rate: number | null, prefill: number | null, decode: number | null, blocks: number}>} tabs
 */

/** What an engine's metrics say over time. */
export class Samples {
  /** @type {{now: number, metrics: any}[]} readings that the next one is compared with */
  #read = [];
  /** @type {Point[]} the first the longest ago */
  points = [];

  /**
   * Adds the metrics at a moment.
   *
   * @param {any} metrics
   * @param {number} now milliseconds
   */
  add(metrics, now) {
    const last = this.#read.at(-1);
    // Another host, or a model that was loaded again, counts from zero.
    const anew = last && (last.metrics.host.name !== metrics.host.name || last.metrics.steps > metrics.steps);
    if (anew) [this.#read, this.points] = [[], []];
    const reading = { now, metrics };
    this.#read.push(reading);
    while (now - this.#read[1]?.now >= SPAN) this.#read.shift();
    const [from] = this.#read;
    const point = { now, ...figures(from.metrics, metrics, (now - from.now) / 1000) };
    if (!anew && last && now - last.now > PAUSE) {
      // Only the mean of a pause is known, and it says nothing of now.
      this.points.push({ ...point, now: last.now + 1 });
      this.#read = [reading];
    }
    this.points.push(point);
    this.points = this.points.filter((point) => now - point.now <= KEPT);
  }
}

/**
 * The figures of the time between two readings. With a reading of zeros before, those since the start.
 *
 * @param {any} from
 * @param {any} to
 * @param {number} seconds
 * @returns {Omit<Point, "now">}
 */
export function figures(from, to, seconds) {
  // Sums over tabs may also fall, when a tab is closed.
  const grown = (/** @type {(metrics: any) => number} */ count) => Math.max(0, count(to) - (from ? count(from) : 0));
  const per = (/** @type {number} */ part, /** @type {number} */ whole) => (whole > 0 ? part / whole : null);
  const steps = grown(({ steps }) => steps);
  const tabs = Object.keys(to.tabs).map((id) => {
    const of = (/** @type {any} */ metrics) => metrics.tabs[id] ?? NONE;
    const decoded = grown((metrics) => of(metrics).generation_tokens);
    const computed = grown((metrics) => of(metrics).prompt_tokens - of(metrics).cached_tokens);
    const rates = { rate: per(decoded, seconds), prefill: per(computed, steps), decode: per(decoded, steps) };
    return [id, { ...rates, blocks: of(to).kv_blocks }];
  });
  return {
    running: to.num_requests_running,
    waiting: to.num_requests_waiting,
    rate: per(
      grown(({ generation_tokens }) => generation_tokens),
      seconds,
    ),
    rows: per(
      grown(({ iteration_tokens_total }) => iteration_tokens_total.sum),
      steps,
    ),
    found: per(
      grown(({ prefix_cache_hits }) => prefix_cache_hits),
      grown(({ prefix_cache_queries }) => prefix_cache_queries),
    ),
    accepted: per(
      grown(({ spec_decode_num_accepted_tokens }) => spec_decode_num_accepted_tokens),
      grown(({ spec_decode_num_draft_tokens }) => spec_decode_num_draft_tokens),
    ),
    tabs: Object.fromEntries(tabs),
  };
}
