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
   * Takes the exact count once the answer is complete.
   *
   * @param {number} tokens
   */
  finish(tokens) {
    this.#tokens = tokens;
  }

  text() {
    if (this.#first === null) return "";
    const first = `First token after ${Math.round(this.#first - this.#asked)} ms`;
    const seconds = (this.#last - this.#first) / 1000;
    if (this.#tokens < 2 || seconds <= 0) return first;
    return `${((this.#tokens - 1) / seconds).toFixed(1)} tokens/s · ${first}`;
  }
}
