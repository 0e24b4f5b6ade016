import { html, svg, write } from "./dom.js";
import { KEPT } from "./samples.js";

/** Requests that the history of batches always has room for. */
const LEAST_HEIGHT = 4;

/** How many requests ran together: each a step upwards, the last moments to the right. */
export class History {
  #grid = svg("path", { class: "grid" });
  #bars = svg("path", { class: "bars" });
  #plot = picture("history", this.#grid, this.#bars);
  #caption = html("figcaption");
  element = html("figure", {}, this.#caption, this.#plot);

  /** @param {{ago: number, size: number}[]} batches the first the longest ago */
  show(batches) {
    const most = Math.max(0, ...batches.map(({ size }) => size));
    const height = Math.max(LEAST_HEIGHT, most);
    const bars = batches.slice(1).map(({ ago, size }, i) => {
      const [from, to] = [KEPT - batches[i].ago, KEPT - ago];
      return `M${from} ${height}V${height - size}H${to}V${height}z`;
    });
    const lines = Array.from({ length: height - 1 }, (_, i) => `M0 ${i + 1}H${KEPT}`);
    this.#plot.setAttribute("viewBox", `0 0 ${KEPT} ${height}`);
    this.#bars.setAttribute("d", bars.join(""));
    this.#grid.setAttribute("d", lines.join(""));
    const now = batches.at(-1)?.size ?? 0;
    const text = `Batch: ${now} now, at most ${most} in the last ${KEPT / 1000} s`;
    write(this.#caption, text);
    this.#plot.setAttribute("aria-label", text);
  }
}

/** Who has how much of a whole, as one bar. */
export class Shares {
  #plot = picture("shares");
  #caption = html("figcaption");
  element = html("figure", {}, this.#caption, this.#plot);

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
 * @param {string} name
 * @param {...Element} children
 */
function picture(name, ...children) {
  return svg("svg", { class: name, role: "img", preserveAspectRatio: "none" }, ...children);
}
