// The engine panel: which tabs share the engine, and what each takes of its batch and its memory.

import { History, Shares, Trend } from "./charts.js";
import { html, write } from "./dom.js";
import { formatBytes } from "./format.js";
import { Samples } from "./samples.js";
import { Facts, Table } from "./tables.js";

/** @import { Engine, EngineMetrics } from "./tabloom/index.js" */

/** Milliseconds between two readings of the metrics. */
const PERIOD = 500;

/** How many colours mark the tabs, in turn. */
const COLOURS = 6;

/** What the engine runs in. */
const HOSTS = {
  shared: "a shared worker, for all tabs of this site",
  leader: "one tab's worker, for all tabs of this site",
  private: "a worker for this tab alone",
};

/** Shows an engine's metrics. It reads them only while it is visible. */
export class Panel {
  #state = html("p");
  #facts = new Facts(["Runs in", "Adapter", "Now", "Prefix cache", "Draft tokens"]);
  #tabs = new Table(["Tab", "Running", "Waiting", "Tokens/s", "KV blocks"]);
  #alone = html("p", {}, another(), ": both share one engine.");
  #speed = new Trend("Tokens/s", (rate) => rate.toFixed(1));
  #first = new Trend("Time to first token", (seconds) => `${Math.round(1000 * seconds)} ms`);
  #history = new History();
  #accepted = new Trend("Accepted draft tokens", percent, 1);
  #blocks = new Shares();
  #models = new Table(["Model", "Tabs", "Memory"]);
  #contents = html(
    "div",
    {},
    html(
      "div",
      { class: "charts" },
      this.#speed.element,
      this.#first.element,
      this.#history.element,
      this.#accepted.element,
      this.#blocks.element,
    ),
    this.#facts.element,
    this.#tabs.element,
    this.#alone,
    this.#models.element,
  );
  #open = false;
  /** @type {Engine | null} */
  #engine = null;
  /** Stands for the current loop of readings: another one replaces it, and it ends. */
  #reading = {};

  /** @param {HTMLElement} place where it is shown */
  constructor(place) {
    place.append(this.#state, this.#contents);
    document.addEventListener("visibilitychange", () => this.#read());
    this.watch(null);
  }

  /** @param {boolean} open whether the place for it is shown */
  set open(open) {
    this.#open = open;
    this.#read();
  }

  /**
   * Shows this engine from now on, or that there is none.
   *
   * @param {Engine | null} engine
   */
  watch(engine) {
    this.#engine = engine;
    this.#say(engine ? "" : "No model is loaded.");
    this.#read();
  }

  async #read() {
    const engine = this.#engine;
    const reading = (this.#reading = {});
    const samples = new Samples();
    const wanted = () => this.#reading === reading && this.#open && !document.hidden;
    while (engine && wanted()) {
      try {
        const metrics = await engine.metrics();
        samples.add(metrics, performance.now());
        if (wanted()) this.#show(engine, metrics, samples);
      } catch (/** @type {any} */ error) {
        // Another request would bring the engine back to life; only the visitor's requests may do that.
        if (wanted()) this.#say(error.message);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, PERIOD));
    }
  }

  /**
   * Shows a text instead of metrics.
   *
   * @param {string} text
   */
  #say(text) {
    write(this.#state, text);
    this.#contents.hidden = true;
  }

  /**
   * @param {Engine} engine
   * @param {any} metrics
   * @param {Samples} samples
   */
  #show(engine, metrics, samples) {
    write(this.#state, "");
    this.#contents.hidden = false;
    const { host, num_requests_running: running, num_requests_waiting: waiting } = metrics;
    const { prefix_cache_hits: hits, prefix_cache_queries: queries } = metrics;
    const tokens = (/** @type {any} */ metrics) => metrics.generation_tokens;
    const rate = samples.rate(tokens);
    this.#facts.show([
      HOSTS[/** @type {keyof typeof HOSTS} */ (engine.host)],
      engine.info.adapter,
      `${running} running, ${waiting} waiting, ${rate.toFixed(1)} tokens/s`,
      queries > 0 ? `${hits} of ${queries} prompt tokens found (${percent(hits / queries)})` : "not asked yet",
      drafts(metrics),
    ]);

    const tabs = rows(metrics, samples);
    this.#tabs.show("Tabs that share the engine", tabs);
    this.#alone.hidden = engine.host === "private" || tabs.length > 1;
    this.#speed.show(samples.rates(tokens));
    this.#first.show(
      samples.ratios(
        ({ time_to_first_token_seconds: first }) => first.sum,
        ({ time_to_first_token_seconds: first }) => first.count,
      ),
    );
    this.#history.show(samples.batches());
    this.#accepted.show(
      samples.ratios(
        (metrics) => metrics.spec_decode_num_accepted_tokens,
        (metrics) => metrics.spec_decode_num_draft_tokens,
      ),
    );
    const inUse = percent(metrics.kv_cache_usage_perc);
    this.#blocks.show(`KV blocks by tab: ${inUse} of the cache in use`, tabs);
    this.#models.show(
      `Models: ${formatBytes(host.used_bytes)} of at most ${formatBytes(host.budget_bytes)}`,
      host.models.map((/** @type {any} */ { url, tabs, bytes }) => ({
        name: folder(url),
        cells: [`${tabs}`, formatBytes(bytes)],
      })),
    );
  }
}

/** A link that opens this page once more. */
function another() {
  return html("a", { href: "", target: "_blank", rel: "noopener" }, "Open this page in another tab");
}

/**
 * The tabs of an engine, and how many KV blocks each has.
 *
 * @param {any} metrics
 * @param {Samples} samples
 */
function rows(metrics, samples) {
  const { tabs } = metrics.host;
  const shown = tabs.find((/** @type {any} */ tab) => tab.you)?.model;
  return tabs.map((/** @type {any} */ { id, visible, model, you }, /** @type {number} */ i) => {
    const notes = [
      you && "this one",
      !visible && "hidden",
      !model && "loading",
      model && model !== shown && folder(model),
    ].filter(Boolean);
    const part = metrics.tabs[id];
    // Metrics are those of one model.
    const known = model === shown;
    const rate = samples.rate(({ tabs }) => tabs[id]?.generation_tokens ?? 0);
    const counts = [part?.running ?? 0, part?.waiting ?? 0, rate.toFixed(1), part?.kv_blocks ?? 0];
    return {
      name: `Tab ${id + 1}${notes.length > 0 ? ` (${notes.join(", ")})` : ""}`,
      colour: `tab-${i % COLOURS}`,
      own: you,
      cells: counts.map((count) => (known ? `${count}` : "–")),
      amount: part?.kv_blocks ?? 0,
    };
  });
}

/**
 * How speculative decoding has done so far.
 *
 * @param {EngineMetrics} metrics
 */
function drafts(metrics) {
  const { spec_decode_num_drafts: rounds, spec_decode_num_draft_tokens: drafted } = metrics;
  const { spec_decode_num_accepted_tokens: accepted, spec_decode_seconds_saved: saved } = metrics;
  if (rounds === 0) return "none yet";
  const length = (1 + accepted / rounds).toFixed(2);
  const time = `${Math.abs(saved).toFixed(1)} s ${saved < 0 ? "lost" : "saved"}`;
  return `${accepted} of ${drafted} accepted, rounds: ${rounds}, ${length} tokens a round, ${time}`;
}

/**
 * The last part of a model's address.
 *
 * @param {string} url
 */
function folder(url) {
  return decodeURIComponent(new URL(url).pathname.split("/").filter(Boolean).at(-1) ?? url);
}

/** @param {number} share from 0 to 1 */
function percent(share) {
  return share.toLocaleString("en", { style: "percent", maximumSignificantDigits: 2 });
}
