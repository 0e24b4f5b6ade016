import { fill, locale, number, texts } from "./texts.js";

/** How times are written, of today, of other days of this year, and of other years. */
const TIMES = /** @type {const} */ ([
  { hour: "numeric", minute: "2-digit" },
  { day: "numeric", month: "short" },
  { day: "numeric", month: "short", year: "numeric" },
]);

/** @type {Intl.DateTimeFormat[]} by TIMES: slow to make, so once, and not before the first time */
let times = [];

/**
 * Bytes with three significant digits and a unit.
 *
 * @param {number} bytes
 */
export function formatBytes(bytes) {
  const { units } = texts.format;
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) {
    bytes /= 1000;
    unit++;
  }
  return `${number(bytes, { maximumSignificantDigits: 3 })} ${units[unit]}`;
}

/**
 * A number with one digit after the point.
 *
 * @param {number} value
 */
export function tenths(value) {
  return number(value, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
}

/**
 * A share as whole percent: one that is not whole is not told as whole.
 *
 * @param {number} share
 */
export function percent(share) {
  return number(Math.floor(100 * share) / 100, { style: "percent" });
}

/**
 * About how long something takes: some seconds, tens of seconds, or minutes.
 *
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds >= 95) return number(Math.round(seconds / 60), { style: "unit", unit: "minute" });
  const value = seconds < 10 ? Math.ceil(seconds) : 10 * Math.round(seconds / 10);
  return number(value, { style: "unit", unit: "second" });
}

/**
 * The time of today, or the day.
 *
 * @param {number} time milliseconds since 1970
 */
export function time(time) {
  if (times.length === 0) times = TIMES.map((options) => new Intl.DateTimeFormat(locale, options));
  const today = new Date().setHours(0, 0, 0, 0);
  const sameYear = new Date(time).getFullYear() === new Date(today).getFullYear();
  return times[time >= today ? 0 : sameYear ? 1 : 2].format(time);
}

/**
 * What a model runs on, in words.
 *
 * @param {{device: string, adapter: string}} info
 */
export function adapterName({ device, adapter }) {
  return device === "cpu" ? texts.format.processor : adapter;
}

/** Time to first token and tokens per second of one answer. */
export class Speed {
  #asked;
  /** @type {number | null} */
  #first = null;
  #last = 0;
  #tokens = 0;
  #drafted = "";

  /** @param {number} now milliseconds */
  constructor(now) {
    this.#asked = now;
  }

  /**
   * Notes a piece of the answer.
   *
   * @param {number} now milliseconds
   */
  token(now) {
    this.#first ??= now;
    this.#last = now;
    this.#tokens++;
  }

  /**
   * Takes the exact counts once the answer is complete.
   *
   * @param {import("./tabloom/index.js").Usage} usage
   */
  finish({ completion_tokens, completion_tokens_details: details }) {
    this.#tokens = completion_tokens;
    const { accepted_prediction_tokens: accepted, rejected_prediction_tokens: rejected } = details;
    const drafted = accepted + rejected;
    if (drafted > 0) this.#drafted = fill(texts.format.drafted, { accepted, drafted });
  }

  /** @param {boolean} withDrafts */
  text(withDrafts) {
    if (this.#first === null) return "";
    const first = fill(texts.format.first, { ms: Math.round(this.#first - this.#asked) });
    const seconds = (this.#last - this.#first) / 1000;
    // What comes all at once says nothing of the rate.
    const known = this.#tokens >= 2 && seconds > 0.01;
    const rate = known ? fill(texts.format.rate, { rate: tenths((this.#tokens - 1) / seconds) }) : "";
    return [rate, first, withDrafts ? this.#drafted : ""].filter(Boolean).join(" · ");
  }
}
