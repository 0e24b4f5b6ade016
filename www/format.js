/**
 * Bytes with three significant digits and a unit.
 *
 * @param {number} bytes
 */
export function formatBytes(bytes) {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) {
    bytes /= 1000;
    unit++;
  }
  return `${bytes.toLocaleString("en", { maximumSignificantDigits: 3 })} ${units[unit]}`;
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
    if (accepted + rejected > 0) this.#drafted = `${accepted} of ${accepted + rejected} draft tokens accepted`;
  }

  /** @param {boolean} withDrafts */
  text(withDrafts) {
    if (this.#first === null) return "";
    const first = `first token in ${Math.round(this.#first - this.#asked)} ms`;
    const seconds = (this.#last - this.#first) / 1000;
    const rate = this.#tokens < 2 || seconds <= 0 ? "" : `${((this.#tokens - 1) / seconds).toFixed(1)} tokens/s`;
    return [rate, first, withDrafts ? this.#drafted : ""].filter(Boolean).join(" · ");
  }
}
