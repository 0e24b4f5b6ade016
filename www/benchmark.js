// Says what it will measure, measures, draws, compares, and saves it.
import { sentenceOf } from "./tabloom/element/parts.js";
import { change, LOADS, measure, paused, ROUNDS, rateOfAnswers, runsOf, spread, TOKENS } from "./bench.js";
import { Bars } from "./charts.js";
import { $, html, write } from "./dom.js";
import { saveJson } from "./download.js";
import { adapterName, duration, formatBytes } from "./format.js";
import { nameOf } from "./loader.js";
import { PEERS } from "./peers.js";
import { Facts, Table } from "./tables.js";
import { fill, locale, number, texts } from "./texts.js";

/** @import { Run } from "./bench.js" */

/** Samples: each load without draft tokens and with them, several times. */
const SAMPLES = 2 * LOADS.length * ROUNDS;
/** Tokens per second of each answer, for which it is told how long all takes, until that is known. */
const RATE = 30;

const TEXTS = texts.bench;

/** Where the last complete run is kept. */
const KEY = "tabloom-bench";

const date = (/** @type {string} */ iso) =>
  new Date(iso).toLocaleString(locale, { dateStyle: "medium", timeStyle: "short" });

/** Runs a benchmark when it is asked to. */
export class Benchmark {
  #loader;
  #plan = new Facts(TEXTS.plan);
  #bars = new Bars();
  #compared = html("p", { class: "note" });
  #paused = html("p", { class: "note" });
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
    $("bench-results").append(this.#bars.element, this.#table.element, this.#paused, this.#compared);
    const peers = html("div", { class: "charts" }, ...this.#peers.map(({ element }) => element));
    $("bench-peers").append(
      html("h3", {}, TEXTS.peers),
      html("p", { class: "lead" }, fill(TEXTS.about, { model: PEERS.model })),
      peers,
    );
    loader.addEventListener("change", () => this.#refresh());
    $("bench-run").addEventListener("click", () => this.#run());
    $("bench-stop").addEventListener("click", () => this.#running?.abort());
    $("bench-save").addEventListener("click", () => saveJson("tabloom-bench", this.#report));
    if (this.#report) write($("bench-state"), fill(TEXTS.last, { date: date(this.#report.date) }));
    this.#refresh();
  }

  async #run() {
    const { current: engine } = this.#loader;
    if (!engine || this.#running) return;
    this.#running = new AbortController();
    const { signal } = this.#running;
    const { model, adapter, software, device, weightBytes, draft } = engine.info;
    const { name, took } = this.#loader;
    this.#before = lastOf(engine);
    this.#report = {
      date: new Date().toISOString(),
      ...{ name, model, weight_bytes: weightBytes, load_ms: Math.round(took) },
      ...{ device, adapter, software, host: engine.host, browser: navigator.userAgent },
      // Without one, prompt lookup may just find nothing.
      drafter: Boolean(draft && "weightBytes" in draft),
      runs: [],
    };
    this.#refresh();
    write($("bench-state"), TEXTS.warm);
    try {
      const samples = [];
      for await (const sample of measure(engine, signal)) {
        samples.push(sample);
        this.#report.runs = runsOf(samples);
        write($("bench-state"), fill(TEXTS.running, { run: samples.length, runs: SAMPLES }));
        this.#refresh();
        if (samples.length === 1) $("bench-results").scrollIntoView({ block: "nearest" });
      }
      write($("bench-state"), TEXTS.done);
      keep(this.#report);
    } catch (/** @type {any} */ error) {
      if (!signal.aborted) console.warn(error);
      write($("bench-state"), signal.aborted ? TEXTS.stopped : sentenceOf(error));
      $("bench-state").title = error.message;
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
    const known = engine && lastOf(engine);
    const rate = Number((known ? rateOfAnswers(known.runs) : RATE).toPrecision(2));
    this.#plan.show([
      engine ? [name, fill(TEXTS.weights, { bytes: formatBytes(engine.info.weightBytes) })] : [TEXTS.none],
      [engine ? adapterName(engine.info) : "–"],
      [
        fill(TEXTS.runs, { runs: SAMPLES, time: duration((SAMPLES * TOKENS) / rate), rate }),
        fill(TEXTS.loads, { loads: LOADS.join(", "), rounds: ROUNDS }),
      ],
      [fill(TEXTS.tokens, { tokens: TOKENS }), TEXTS.request],
      [TEXTS.measured, TEXTS.also],
    ]);
    if (runs.length > 0) this.#draw(this.#report);
    this.#compare();
  }

  /** @param {any} report */
  #draw({ model, device, adapter, load_ms, drafter, runs }) {
    const before = this.#before?.runs;
    const called = (/** @type {Run} */ { requests, drafts }) => {
      const name = requests === 1 ? TEXTS.one : fill(TEXTS.many, { requests });
      return drafts ? fill(TEXTS.drafts, { name }) : name;
    };
    const bars = runs.map((/** @type {Run} */ run) => {
      const was = before?.find((/** @type {Run} */ old) => called(old) === called(run));
      const text = was ? compared(run, was) : rateOf(run);
      return { name: called(run), value: run.tokens_per_second, before: was?.tokens_per_second, text, ...spread(run) };
    });
    this.#bars.show(TEXTS.measured, bars, number);
    write(this.#compared, before ? fill(TEXTS.compared, { date: date(this.#before.date) }) : "");
    const hasPaused = (/** @type {Run} */ run) => drafter && paused(run);
    write(this.#paused, runs.some(hasPaused) ? TEXTS.whyPaused : "");
    const accepted = (/** @type {Run} */ run) => {
      const figure = fill(TEXTS.of, { accepted: run.accepted_tokens, tokens: run.tokens });
      return hasPaused(run) ? fill(TEXTS.paused, { figure }) : figure;
    };
    const rows = runs.map((/** @type {Run} */ run) => ({
      name: called(run),
      cells: [rateOf(run), fill(TEXTS.ms, { ms: run.first_token_ms }), run.drafts ? accepted(run) : "–"],
    }));
    const seconds = number(load_ms / 1000, { maximumFractionDigits: 2 });
    const values = { name: nameOf(model), seconds, adapter: adapterName({ device, adapter }) };
    this.#table.show(fill(TEXTS.caption, values), rows);
  }

  /** Draws the peers' figures, and one's own where it is of their model. */
  #compare() {
    const { name = "", device = "", adapter = "", runs = [], weight_bytes: bytes = 0 } = this.#report ?? {};
    const same = /smollm2[-_ ]135m/i.test(name) && bytes < PEERS.bytes;
    const own = same ? runs.filter((/** @type {Run} */ { requests, drafts }) => requests === 1 && !drafts) : [];
    PEERS.figures.forEach((group, i) => {
      const bars = group.engines.map(({ name, threads = 0, rate }) => ({
        name: threads ? fill(threads === 1 ? TEXTS.oneThread : TEXTS.threads, { engine: name, threads }) : name,
        value: rate,
        text: number(rate),
        colour: "tab-2",
      }));
      const here = own.map((/** @type {Run} */ { tokens_per_second: rate }) => ({
        name: fill(TEXTS.here, { adapter: adapterName({ device, adapter }) }),
        value: rate,
        text: number(rate),
      }));
      const caption = fill(TEXTS.peer, { adapter: TEXTS.adapters[group.adapter] });
      this.#peers[i].show(caption, [...here, ...bars], number);
    });
  }
}

/** The last complete run in this browser, if it is known. */
function last() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "null");
  } catch (error) {
    console.warn(error);
    return null;
  }
}

/**
 * The same, if it is of an engine's model and adapter.
 *
 * @param {import("./tabloom/index.js").Engine} engine
 */
function lastOf({ info }) {
  const report = last();
  return report?.model === info.model && report?.adapter === info.adapter ? report : null;
}

/** @param {any} report */
function keep(report) {
  try {
    localStorage.setItem(KEY, JSON.stringify(report));
  } catch (error) {
    // Denied or full: there is nothing to compare the next run with.
    console.warn(error);
  }
}

/**
 * How fast a run is, and between what it varies.
 *
 * @param {Run} run
 */
function rateOf(run) {
  const { least, most } = spread(run);
  return least === most ? number(most) : fill(TEXTS.spread, { rate: run.tokens_per_second, least, most });
}

/**
 * The same beside a run before.
 *
 * @param {Run} run
 * @param {Run} was
 */
function compared(run, was) {
  const share = change(run, was);
  const values = { spread: rateOf(run), before: was.tokens_per_second };
  if (share === null) return fill(TEXTS.same, values);
  const percent = number(share, { style: "percent", signDisplay: "always" });
  return fill(TEXTS.before, { ...values, change: percent });
}
