// Charts with axes: over time, and bars. Each has its figures as text as well.
import { html, svg, write } from "./dom.js";
import { fill, texts } from "./texts.js";

const TEXTS = texts.charts;

/** @typedef {{name: string, colour: string, values: (number | null)[]}} Series named where there are several */

/** Numbers over time, stacked on each other, with a break where there was none; the latest is on the right. */
export class Chart {
  #options;
  #plot = svg("svg", { role: "img", preserveAspectRatio: "none" });
  #figures = html("span");
  #legend = html("span");
  #heights = [html("span"), html("span"), html("span", {}, "0")];
  element;

  /**
   * @param {object} options
   * @param {string} options.name with its unit
   * @param {(value: number) => string} options.format
   * @param {number} options.least the least number at the top
   * @param {number} options.kept milliseconds from one side to the other
   */
  constructor(options) {
    const { name, kept } = options;
    this.#options = options;
    const axis = (/** @type {string} */ of, /** @type {(string | Node)[]} */ ...marks) =>
      html("div", { class: `axis ${of}`, "aria-hidden": "true" }, ...marks);
    const ago = (/** @type {number} */ minutes) => fill(TEXTS.ago, { minutes });
    const times = [ago(kept / 60_000), ago(kept / 120_000), TEXTS.now].map((time) => html("span", {}, time));
    const plot = html("div", { class: "plot" }, axis("y", ...this.#heights), this.#plot, axis("x", ...times));
    const caption = html("figcaption", {}, html("strong", {}, name), this.#legend, this.#figures);
    this.element = html("figure", { class: "chart" }, caption, plot);
  }

  /**
   * @param {number[]} agos milliseconds before now, the longest first
   * @param {Series[]} series with a value for each of them
   */
  show(agos, series) {
    const { name, format, least, kept } = this.#options;
    const sums = agos.map((_, i) => sum(series.map(({ values }) => values[i])));
    const known = sums.filter((value) => value !== null);
    const most = Math.max(0, ...known);
    const top = round(Math.max(most, least));
    /** @type {number[]} how high the series below reach */
    const floor = agos.map(() => 0);
    const areas = series.map(({ colour, values }) => {
      const below = [...floor];
      for (const [i, value] of values.entries()) floor[i] += value ?? 0;
      const at = (/** @type {number} */ i, /** @type {number[]} */ heights) =>
        `${kept - agos[i]} ${(1 - heights[i] / top).toFixed(4)}`;
      const areas = runs(values).map(([from, to]) => {
        const places = Array.from({ length: to - from + 1 }, (_, i) => from + i);
        const [upper, lower] = [places.map((i) => at(i, floor)), places.reverse().map((i) => at(i, below))];
        return `M${upper.join("L")}L${lower.join("L")}z`;
      });
      return svg("path", { class: colour, d: areas.join("") });
    });
    const named = series.filter(({ name }) => name);
    const marks = named.map(({ name, colour }) => html("span", { class: `mark ${colour}` }, name));
    const legend = html("span", {}, ...marks);
    if (legend.innerHTML !== this.#legend.innerHTML) this.#legend.replaceChildren(...marks);
    this.#plot.setAttribute("viewBox", `0 0 ${kept} 1`);
    this.#plot.replaceChildren(svg("path", { class: "grid", d: `M0 .5H${kept}` }), ...areas);
    write(this.#heights[0], format(top));
    write(this.#heights[1], format(top / 2));
    const now = sums.at(-1) ?? null;
    const seconds = Math.round((agos[0] ?? 0) / 1000);
    const minutes = Math.round(seconds / 60);
    const time = seconds < 120 ? fill(TEXTS.seconds, { seconds }) : fill(TEXTS.minutes, { minutes });
    const latest = now === null ? TEXTS.none : fill(TEXTS.latest, { value: format(now) });
    const past = most > 0 ? [latest, fill(TEXTS.most, { value: format(most), time })] : [fill(TEXTS.empty, { time })];
    const figures = seconds === 0 ? [latest] : past;
    const said = figures.join(TEXTS.comma);
    write(this.#figures, said);
    const parts = series.flatMap(({ name, values }) => {
      const value = values.at(-1) ?? null;
      return value === null || series.length === 1 ? [] : [`${name}: ${format(value)}`];
    });
    this.#plot.setAttribute("aria-label", [`${name}: ${said}`, ...parts].join(TEXTS.stop));
  }
}

/**
 * A bar: its name, its length, that as a text, the length it had before, if any, and between what it varies.
 *
 * @typedef {{name: string, colour?: string, value: number, text: string, before?: number, least?: number, most?: number}} Bar
 */

/** Bars with their names and figures, over an axis. */
export class Bars {
  #caption = html("strong");
  #list = html("ul");
  #axis = html("div", { class: "axis x", "aria-hidden": "true" });
  element = html("figure", { class: "bars" }, html("figcaption", {}, this.#caption), this.#list, this.#axis);

  /**
   * @param {string} caption
   * @param {Bar[]} bars
   * @param {(value: number) => string} format of the axis
   * @param {number} [top] the value at its end, if not the largest
   */
  show(caption, bars, format, top = round(longest(bars) || 1)) {
    write(this.#caption, caption);
    const items = bars.map(({ name, colour, value, text, before, least = value, most = value }) =>
      html(
        "li",
        {},
        html("span", {}, name),
        html("span", {}, text),
        svg(
          "svg",
          { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" },
          svg("rect", { class: colour ?? "tab-0", width: `${value / top}`, height: before === undefined ? "1" : ".6" }),
          svg("rect", { class: "gone", width: `${(before ?? 0) / top}`, height: ".4", y: ".6" }),
          svg("rect", {
            class: "spread",
            x: `${least / top}`,
            width: `${(most - least) / top}`,
            height: ".2",
            y: ".2",
          }),
        ),
      ),
    );
    // What has not changed is left alone: it may be selected, or just be read.
    const shown = this.#list.children;
    items.forEach((item, i) => {
      if (shown[i]?.outerHTML === item.outerHTML) return;
      if (shown[i]) shown[i].replaceWith(item);
      else this.#list.append(item);
    });
    while (shown.length > items.length) shown[items.length].remove();
    this.#axis.replaceChildren(...[0, top / 2, top].map((value) => html("span", {}, format(value))));
  }
}

/** @param {Bar[]} bars */
function longest(bars) {
  return Math.max(0, ...bars.flatMap(({ value, before = 0, most = 0 }) => [value, before, most]));
}

/**
 * The sum of the numbers among these; null if there is none.
 *
 * @param {(number | null)[]} values
 */
function sum(values) {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? known.reduce((total, value) => total + value, 0) : null;
}

/**
 * A round number that is no smaller, and whose half is short as well.
 *
 * @param {number} value
 */
function round(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * ([1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8].find((times) => times * unit >= value * 0.999999) ?? 10);
}

/**
 * Where values follow each other without a gap: the first and the last of each run.
 *
 * @param {(number | null)[]} values
 */
function runs(values) {
  /** @type {[number, number][]} */
  const runs = [];
  values.forEach((value, i) => {
    if (value === null) return;
    if (i > 0 && values[i - 1] !== null) runs[runs.length - 1][1] = i;
    else runs.push([i, i]);
  });
  return runs;
}
