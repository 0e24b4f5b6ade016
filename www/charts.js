import { html, svg, write } from "./dom.js";
import { KEPT } from "./samples.js";

/** Least height of the chart of batches, in requests. */
const LEAST_HEIGHT = 4;

/** How many requests ran at once, over time; the latest is on the right. */
export class History {
  #grid = svg("path", { class: "grid" });
  #bars = svg("path", { class: "bars" });
  #plot = picture("history", this.#grid, this.#bars);
  #caption = html("figcaption");
  element = html("figure", {}, this.#caption, this.#plot);

  /** @param {{ago: number, value: number}[]} batches the first the longest ago */
  show(batches) {
    const most = Math.max(0, ...batches.map(({ value }) => value));
    const height = Math.max(LEAST_HEIGHT, most);
    const bars = batches.slice(1).map(({ ago, value }, i) => {
      const [from, to] = [KEPT - batches[i].ago, KEPT - ago];
      return `M${from} ${height}V${height - value}H${to}V${height}z`;
    });
    const lines = Array.from({ length: height - 1 }, (_, i) => `M0 ${i + 1}H${KEPT}`);
    this.#plot.setAttribute("viewBox", `0 0 ${KEPT} ${height}`);
    this.#bars.setAttribute("d", bars.join(""));
    this.#grid.setAttribute("d", lines.join(""));
    const now = batches.at(-1)?.value ?? 0;
    const text = `Batch: ${now} now, at most ${most} in the last ${KEPT / 1000} s`;
    write(this.#caption, text);
    this.#plot.setAttribute("aria-label", text);
  }
}

/** A number over time, as a line that breaks where there was none; the latest is on the right. */
export class Trend {
  #grid = svg("path", { class: "grid", d: `M0 .5H${KEPT}` });
  #area = svg("path", { class: "area" });
  #line = svg("path", { class: "line" });
  #plot = picture("trend", this.#grid, this.#area, this.#line);
  #caption = html("figcaption");
  #name;
  #format;
  #most;
  element = html("figure", {}, this.#caption, this.#plot);

  /**
   * @param {string} name
   * @param {(value: number) => string} format
   * @param {number} [most] the value at the top, if not the largest
   */
  constructor(name, format, most) {
    this.#name = name;
    this.#format = format;
    this.#most = most;
  }

  /** @param {{ago: number, value: number | null}[]} points the first the longest ago */
  show(points) {
    const values = points.map(({ value }) => value).filter((value) => value !== null);
    const most = Math.max(0, ...values);
    const height = this.#most ?? most;
    /** @type {string[][]} */
    const [lines, areas] = [[], []];
    for (const run of runs(points)) {
      const path = run
        .map(({ ago, value }) => `${KEPT - ago} ${(height > 0 ? 1 - value / height : 1).toFixed(4)}`)
        .join("L");
      const [from, to] = [run[0], run[run.length - 1]].map(({ ago }) => KEPT - ago);
      lines.push(`M${path}`);
      areas.push(`M${from} 1L${path}L${to} 1z`);
    }
    this.#plot.setAttribute("viewBox", `0 0 ${KEPT} 1`);
    this.#line.setAttribute("d", lines.join(""));
    this.#area.setAttribute("d", areas.join(""));
    const now = points.at(-1)?.value ?? null;
    const latest = now === null ? "none now" : `${this.#format(now)} now`;
    const text = `${this.#name}: ${latest}, at most ${this.#format(most)} in the last ${KEPT / 1000} s`;
    write(this.#caption, values.length > 0 ? text : `${this.#name}: none in the last ${KEPT / 1000} s`);
    this.#plot.setAttribute("aria-label", this.#caption.textContent ?? "");
  }
}

/** The parts of a whole, as one bar. */
export class Shares {
  #plot = picture("shares");
  #caption = html("figcaption");
  element = html("figure", { class: "wide" }, this.#caption, this.#plot);

  /**
   * @param {string} caption
   * @param {{name: string, colour: string, amount: number}[]} parts
   */
  show(caption, parts) {
    const shown = parts.filter(({ amount }) => amount > 0);
    let x = 0;
    const bars = shown.map(({ colour, amount }) => {
      const bar = svg("rect", { class: colour, x: `${x}`, width: `${amount}`, height: "1" });
      x += amount;
      return bar;
    });
    this.#plot.setAttribute("viewBox", `0 0 ${Math.max(x, 1)} 1`);
    this.#plot.replaceChildren(...bars);
    write(this.#caption, caption);
    const names = shown.map(({ name, amount }) => `${name}: ${amount}`);
    this.#plot.setAttribute("aria-label", names.join(", ") || "none");
  }
}

/**
 * Points that follow each other without a gap.
 *
 * @param {{ago: number, value: number | null}[]} points
 * @returns {{ago: number, value: number}[][]}
 */
function runs(points) {
  /** @type {any[][]} */
  const runs = [[]];
  for (const point of points) {
    if (point.value !== null) runs[runs.length - 1].push(point);
    else if (runs[runs.length - 1].length > 0) runs.push([]);
  }
  return runs.filter(({ length }) => length > 0);
}

/**
 * @param {string} name
 * @param {...Element} children
 */
function picture(name, ...children) {
  return svg("svg", { class: name, role: "img", preserveAspectRatio: "none" }, ...children);
}
