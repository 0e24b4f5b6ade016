// Says what it will measure, measures, draws, compares, and saves it.
import { LOADS, measure, TOKENS } from "./bench.js";
import { Bars } from "./charts.js";
import { $, html, write } from "./dom.js";
import { saveJson } from "./download.js";
import { formatBytes } from "./format.js";
import { PEERS } from "./peers.js";
import { Facts, Table } from "./tables.js";

/** @import { Run } from "./bench.js" */

/** Runs: each load without draft tokens and with them. */
const RUNS = 2 * LOADS.length;

const TEXTS = {
  plan: ["Model", "Adapter", "Runs", "Each request", "Measured"],
  none: "No model is loaded.",
  weights: (/** @type {string} */ bytes) => `${bytes} of weights`,
  runs: `${RUNS}, after a warm-up`,
  loads: `${LOADS.join(", ")} requests at once, each without draft tokens and with them`,
  tokens: `${TOKENS} tokens`,
  request: "at temperature 0, nothing from the prefix cache",
  measured: "Tokens/s",
  also: "of all requests together; time to first token; accepted draft tokens. What other tabs ask slows it down.",
  warm: "Warming up…",
  running: (/** @type {number} */ run) => `Run ${run} of ${RUNS}`,
  done: "Done.",
  stopped: "Stopped.",
  last: (/** @type {string} */ date) => `The last run in this browser, ${date}.`,
  bars: "Tokens/s",
  one: (/** @type {number} */ requests) => (requests === 1 ? "1 request" : `${requests} requests`),
  drafts: (/** @type {string} */ name) => `${name}, with drafts`,
  rate: (/** @type {number} */ rate) => `${rate}`,
  before: (/** @type {number} */ rate, /** @type {number} */ before, /** @type {string} */ change) =>
    `${rate} (${change} on ${before})`,
  compared: (/** @type {string} */ date) => `Grey below each bar: the last run of this model here, ${date}.`,
  columns: ["Run", "Tokens/s", "Time to first token", "Accepted draft tokens"],
  ms: (/** @type {number} */ ms) => `${ms} ms`,
  of: (/** @type {number} */ accepted, /** @type {number} */ tokens) => `${accepted} of ${tokens}`,
  caption: (/** @type {string} */ name, /** @type {string} */ seconds, /** @type {string} */ adapter) =>
    `${name}, loaded in ${seconds} s, on ${adapter}`,
  peers: "Other engines",
  about: `${PEERS.model} in 4 bits, one request at a time, without draft tokens, measured for Tabloom’s documentation: on the
    adapters named, none of them a GPU, and not on this device. Only figures of the same model can be compared.`,
  peer: (/** @type {string} */ adapter) => `Tokens/s on ${adapter}`,
  here: (/** @type {string} */ adapter) => `Tabloom here, ${adapter}`,
};

/** Where the last complete run is kept. */
const KEY = "tabloom-bench";

const date = (/** @type {string} */ iso) =>
  new Date(iso).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });

/** Runs a benchmark when it is asked to. */
export class Benchmark {
  #loader;
  #plan = new Facts(TEXTS.plan);
  #bars = new Bars();
  #compared = html("p", { class: "note" });
  #table = new Table(TEXTS.columns);
  #peers = PEERS.figures.map(() => new Bars());
  /** The run that is shown: the last one, until there is another. */
  #report = last();
  /** @type {any} what it is compared with */
  #before = null;
  /** @type {AbortController | null} */
  #running = null;

  /** @param {import("./loader.js").Loader} loader */
  constructor(loader) {
    this.#loader = loader;
    $("bench-plan").append(this.#plan.element);
    this.#plan.element.classList.add("about");
    $("bench-results").append(this.#bars.element, this.#table.element, this.#compared);
    const peers = html("div", { class: "charts" }, ...this.#peers.map(({ element }) => element));
    $("bench-peers").append(html("h3", {}, TEXTS.peers), html("p", { class: "lead" }, TEXTS.about), peers);
    loader.addEventListener("change", () => this.#refresh());
    $("bench-run").addEventListener("click", () => this.#run());
    $("bench-stop").addEventListener("click", () => this.#running?.abort());
    $("bench-save").addEventListener("click", () => saveJson("tabloom-bench", this.#report));
    if (this.#report) write($("bench-state"), TEXTS.last(date(this.#report.date)));
    this.#refresh();
  }

  async #run() {
    const { current: engine } = this.#loader;
    if (!engine || this.#running) return;
    this.#running = new AbortController();
    const { signal } = this.#running;
    const { model, adapter, software, device, weightBytes } = engine.info;
    const { name, took } = this.#loader;
    const before = last();
    this.#before = before?.model === model && before?.adapter === adapter ? before : null;
    this.#report = {
      date: new Date().toISOString(),
      ...{ name, model, weight_bytes: weightBytes, load_ms: Math.round(took) },
      ...{ device, adapter, software, host: engine.host, browser: navigator.userAgent },
      runs: [],
    };
    this.#refresh();
    write($("bench-state"), TEXTS.warm);
    try {
      for await (const run of measure(engine, signal)) {
        this.#report.runs.push(run);
        write($("bench-state"), TEXTS.running(this.#report.runs.length));
        this.#refresh();
      }
      write($("bench-state"), TEXTS.done);
      keep(this.#report);
    } catch (/** @type {any} */ error) {
      write($("bench-state"), signal.aborted ? TEXTS.stopped : error.message);
      this.#loader.failed(error);
    } finally {
      this.#running = null;
      this.#refresh();
    }
  }

  #refresh() {
    const busy = this.#running !== null;
    const { current: engine, name } = this.#loader;
    const runs = this.#report?.runs ?? [];
    $("bench-run").disabled = !engine;
    $("bench-run").hidden = busy;
    $("bench-stop").hidden = !busy;
    $("bench-save").disabled = busy || runs.length === 0;
    $("bench-results").hidden = runs.length === 0;
    this.#plan.show([
      engine ? [name, TEXTS.weights(formatBytes(engine.info.weightBytes))] : [TEXTS.none],
      [engine?.info.adapter ?? "–"],
      [TEXTS.runs, TEXTS.loads],
      [TEXTS.tokens, TEXTS.request],
      [TEXTS.measured, TEXTS.also],
    ]);
    if (runs.length > 0) this.#draw(this.#report);
    this.#compare();
  }

  /** @param {any} report */
  #draw({ name, adapter, load_ms, runs }) {
    const before = this.#before?.runs;
    const nameOf = (/** @type {Run} */ { requests, drafts }) =>
      drafts ? TEXTS.drafts(TEXTS.one(requests)) : TEXTS.one(requests);
    const bars = runs.map((/** @type {Run} */ run) => {
      const rate = run.tokens_per_second;
      const was = before?.find((/** @type {Run} */ old) => nameOf(old) === nameOf(run))?.tokens_per_second;
      const text = was ? TEXTS.before(rate, was, change(rate / was - 1)) : TEXTS.rate(rate);
      return { name: nameOf(run), value: rate, before: was, text };
    });
    this.#bars.show(TEXTS.bars, bars, TEXTS.rate);
    write(this.#compared, before ? TEXTS.compared(date(this.#before.date)) : "");
    const rows = runs.map((/** @type {Run} */ run) => ({
      name: nameOf(run),
      cells: [
        TEXTS.rate(run.tokens_per_second),
        TEXTS.ms(run.first_token_ms),
        TEXTS.of(run.accepted_tokens, run.tokens),
      ],
    }));
    this.#table.show(TEXTS.caption(name, (load_ms / 1000).toFixed(2), adapter), rows);
  }

  /** Draws the peers' figures, and one's own where it is of their model. */
  #compare() {
    const { name = "", adapter = "", runs = [] } = this.#report ?? {};
    const same = /smollm2[-_ ]135m/i.test(name);
    const own = same ? runs.filter((/** @type {Run} */ { requests, drafts }) => requests === 1 && !drafts) : [];
    PEERS.figures.forEach((group, i) => {
      const bars = group.engines.map(({ name, rate }) => ({
        name,
        value: rate,
        text: TEXTS.rate(rate),
        colour: "tab-2",
      }));
      const here = own.map((/** @type {Run} */ { tokens_per_second: rate }) => ({
        name: TEXTS.here(adapter),
        value: rate,
        text: TEXTS.rate(rate),
      }));
      this.#peers[i].show(TEXTS.peer(group.adapter), [...here, ...bars], TEXTS.rate);
    });
  }
}

/** The last complete run in this browser, if it is known. */
function last() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "null");
  } catch {
    return null;
  }
}

/** @param {any} report */
function keep(report) {
  try {
    localStorage.setItem(KEY, JSON.stringify(report));
  } catch {
    // Denied or full: there is nothing to compare the next run with.
  }
}

/** @param {number} share */
function change(share) {
  return share.toLocaleString("en", { style: "percent", signDisplay: "always" });
}
