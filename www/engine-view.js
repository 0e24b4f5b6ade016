// What an engine reports: its tabs, its steps, its caches and its memory.
import { Bars, Chart } from "./charts.js";
import { html } from "./dom.js";
import { adapterName, formatBytes, tenths } from "./format.js";
import { nameOf } from "./loader.js";
import { figures, KEPT } from "./samples.js";
import { Facts, Table } from "./tables.js";
import { fill, number, texts } from "./texts.js";

/** @import { Engine } from "./tabloom/index.js" */

const TEXTS = texts.engine;

/** How many colours mark the tabs, in turn. */
const COLOURS = 6;

const count = (/** @type {number} */ value) => number(value, { maximumSignificantDigits: 3 });
const percent = (/** @type {number} */ share) => number(share, { style: "percent", maximumSignificantDigits: 2 });
/** A figure, or a dash where there is none. */
const known = (/** @type {number | null} */ value, /** @type {(value: number) => string} */ format) =>
  value === null ? TEXTS.unknown : format(value);

/** The view of one engine. */
export class EngineView {
  #engine;
  #samples;
  /** @type {Map<number, number>} the place of each tab that is there, by id: it has its colour and number */
  #places = new Map();
  #hint = html("p", { class: "lead" });
  #facts = new Facts(TEXTS.facts);
  #tabs = new Table(TEXTS.columns);
  #rate = chart(TEXTS.generation, count, 10);
  #steps = chart(TEXTS.steps, count, 4);
  #blocks = chart(TEXTS.blocks, count, 10);
  #requests = chart(TEXTS.requests, count, 4);
  #hits = chart(TEXTS.hits, percent, 1);
  #acceptance = chart(TEXTS.acceptance, percent, 1);
  #usage = new Bars();
  #memory = new Bars();
  #about = new Facts(TEXTS.about);
  element = html("div");

  /**
   * @param {Engine} engine
   * @param {import("./samples.js").Samples} samples what its metrics have said
   */
  constructor(engine, samples) {
    this.#engine = engine;
    this.#samples = samples;
    const another = html("a", { class: "button", href: "", target: "_blank", rel: "noopener" }, TEXTS.another);
    another.hidden = engine.host === "private";
    const [rate, steps, blocks, requests] = [this.#rate, this.#steps, this.#blocks, this.#requests];
    const over = [rate, steps, blocks, requests, this.#hits, this.#acceptance].map(({ element }) => element);
    this.element.append(
      this.#hint,
      another,
      this.#facts.element,
      explained(),
      this.#tabs.element,
      html("div", { class: "charts" }, ...over, this.#usage.element, this.#memory.element),
      this.#about.element,
    );
    this.#about.element.classList.add("about");
  }

  /** @param {any} metrics the latest, which are in the samples, too */
  show(metrics) {
    const { host, info } = this.#engine;
    // A tab that loads another model is there twice until that is loaded.
    const tabs = this.#known(metrics.host.tabs.filter((/** @type {any} */ { model }) => model));
    this.#hint.textContent = host === "private" ? TEXTS.apart : tabs.length > 1 ? TEXTS.many : TEXTS.alone;
    this.#summarise(metrics);
    this.#list(metrics, tabs);
    this.#draw(tabs);
    const used = metrics.kv_cache_usage_perc;
    this.#usage.show(TEXTS.usage, [{ name: TEXTS.used, colour: "all", value: used, text: percent(used) }], percent, 1);
    const { used_bytes, budget_bytes } = metrics.host;
    const caption = fill(TEXTS.memory, { used: formatBytes(used_bytes), budget: formatBytes(budget_bytes) });
    this.#memory.show(caption, parts(metrics, info), formatBytes);
    this.#about.show([
      [nameOf(info.model)],
      [adapterName(info)],
      [TEXTS.hosts[/** @type {keyof typeof TEXTS.hosts} */ (host)]],
      [number(metrics.steps)],
    ]);
  }

  /**
   * The tabs with a place each, which they keep while they are there.
   *
   * @param {any[]} tabs
   */
  #known(tabs) {
    const there = new Set(tabs.map(({ id }) => id));
    for (const id of this.#places.keys()) if (!there.has(id)) this.#places.delete(id);
    return tabs.map((tab) => {
      const taken = new Set(this.#places.values());
      const free = tabs.findIndex((_, i) => !taken.has(i));
      const place = this.#places.get(tab.id) ?? free;
      this.#places.set(tab.id, place);
      return {
        ...tab,
        name: tab.you ? TEXTS.own : fill(TEXTS.tab, { number: place + 1 }),
        colour: `tab-${place % COLOURS}`,
      };
    });
  }

  /** @param {any} metrics */
  #summarise(metrics) {
    const point = /** @type {import("./samples.js").Point} */ (this.#samples.points.at(-1));
    const total = figures(null, metrics, 0);
    // At rest: of all steps since the engine's start.
    const { rows } = point.rows === null ? total : point;
    const { num_requests_running: running, num_requests_waiting: waiting } = metrics;
    const { prefix_cache_hits: hits, prefix_cache_queries: queries } = metrics;
    const { restored_tokens: restored, stored_tokens: stored } = metrics;
    const found = stored > 0 ? TEXTS.stored : restored > 0 ? TEXTS.restored : TEXTS.found;
    const { spec_decode_num_accepted_tokens: accepted, spec_decode_num_draft_tokens: drafted } = metrics;
    const { spec_decode_num_drafts: rounds, time_to_first_token_seconds: first } = metrics;
    const length = number(1 + accepted / rounds, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
    this.#facts.show([
      [
        fill(TEXTS.rate, { rate: tenths(point.rate ?? 0) }),
        fill(TEXTS.generated, { tokens: metrics.generation_tokens }),
      ],
      [fill(TEXTS.running, { requests: running }), fill(TEXTS.waiting, { requests: waiting })],
      [known(rows, tenths), rows === null ? "" : point.rows === null ? TEXTS.always : TEXTS.lately],
      [known(total.found, percent), fill(found, { hits, queries, restored, stored })],
      [known(total.accepted, percent), fill(rounds > 0 ? TEXTS.rounds : TEXTS.drafts, { accepted, drafted, length })],
      first.count > 0
        ? [
            fill(TEXTS.ms, { ms: Math.round((1000 * first.sum) / first.count) }),
            fill(TEXTS.mean, { answers: first.count }),
          ]
        : [TEXTS.unknown],
    ]);
  }

  /**
   * @param {any} metrics
   * @param {any[]} tabs
   */
  #list(metrics, tabs) {
    const point = /** @type {import("./samples.js").Point} */ (this.#samples.points.at(-1));
    const since = point.rows === null ? figures(null, metrics, 0) : point;
    const tokens = (/** @type {any} */ tab) => (tab?.prefill ?? 0) + (tab?.decode ?? 0);
    const all = Object.values(since.tabs).reduce((sum, tab) => sum + tokens(tab), 0);
    const shown = tabs.find(({ you }) => you)?.model;
    const rows = tabs.map(({ id, visible, model, you, name, colour }) => {
      const part = metrics.tabs[id];
      const share = (/** @type {string} */ of, /** @type {string} */ whole) =>
        part?.[whole] > 0 ? percent(part[of] / part[whole]) : TEXTS.unknown;
      const cells = [
        `${part?.running ?? 0}`,
        `${part?.waiting ?? 0}`,
        tenths(point.tabs[id]?.rate ?? 0),
        all > 0 ? percent(tokens(since.tabs[id]) / all) : TEXTS.unknown,
        `${part?.kv_blocks ?? 0}`,
        share("cached_tokens", "prefix_cache_queries"),
        share("spec_decode_num_accepted_tokens", "spec_decode_num_draft_tokens"),
      ];
      // Metrics are those of one model.
      const own = model === shown ? cells : [fill(TEXTS.elsewhere, { model: nameOf(model) })];
      return { name: visible ? name : `${name} (${TEXTS.hidden})`, colour, own: you, cells: own };
    });
    this.#tabs.show(TEXTS.tabs, rows);
  }

  /** @param {any[]} tabs */
  #draw(tabs) {
    const { points } = this.#samples;
    const last = points[points.length - 1].now;
    const agos = points.map(({ now }) => last - now);
    /** @param {(point: import("./samples.js").Point) => number | null} of */
    const over = (of, name = "", colour = "all") => [{ name, colour, values: points.map(of) }];
    /** @param {(tab: any) => number | null} of */
    const byTab = (of) => {
      const there = tabs.map(({ id, name, colour }) => ({
        name,
        colour,
        values: points.map(({ tabs, rate }) => (tabs[id] ? of(tabs[id]) : rate === null ? null : 0)),
      }));
      const ids = new Set(tabs.map(({ id }) => `${id}`));
      const rest = points.map(({ tabs }) =>
        Object.entries(tabs).reduce((sum, [id, tab]) => sum + (ids.has(id) ? 0 : (of(tab) ?? 0)), 0),
      );
      return rest.some((value) => value > 0) ? [...there, { name: TEXTS.gone, colour: "gone", values: rest }] : there;
    };
    this.#rate.show(
      agos,
      byTab(({ rate }) => rate),
    );
    this.#steps.show(
      agos,
      byTab(({ prefill, decode }) => (decode === null ? null : prefill + decode)),
    );
    this.#blocks.show(
      agos,
      byTab(({ blocks }) => blocks),
    );
    this.#requests.show(agos, [
      ...over(({ running }) => running, TEXTS.runningNow),
      ...over(({ waiting }) => waiting, TEXTS.waitingNow, "waiting"),
    ]);
    this.#hits.show(
      agos,
      over(({ found }) => found),
    );
    this.#acceptance.show(
      agos,
      over(({ accepted }) => accepted),
    );
  }
}

/**
 * @param {string} name
 * @param {(value: number) => string} format
 * @param {number} least
 */
function chart(name, format, least) {
  return new Chart({ name, format, least, kept: KEPT });
}

/** The words that are used here, and what they mean. */
function explained() {
  const terms = TEXTS.terms.flatMap(([term, meaning]) => [html("dt", {}, term), html("dd", {}, meaning)]);
  return html("details", {}, html("summary", {}, TEXTS.explain), html("dl", {}, ...terms));
}

/**
 * What takes memory: of the model of this page by part, of others as a whole.
 *
 * @param {any} metrics
 * @param {import("./tabloom/index.js").EngineInfo} info
 */
function parts(metrics, info) {
  const bar = (/** @type {string} */ name, /** @type {number} */ value) => ({
    name,
    value,
    colour: "all",
    text: formatBytes(value),
  });
  const head = info.draft && "weightBytes" in info.draft ? info.draft.weightBytes : 0;
  const models = metrics.host.models.flatMap((/** @type {any} */ { url, bytes }) => {
    const model = nameOf(url);
    if (url !== info.model) return bar(fill(TEXTS.other, { model }), bytes);
    return [
      bar(fill(TEXTS.weights, { model }), info.weightBytes - head),
      ...(head > 0 ? [bar(fill(TEXTS.draft, { model }), head)] : []),
      bar(fill(TEXTS.cache, { model }), bytes - info.weightBytes),
    ];
  });
  return [...models, bar(TEXTS.heap, metrics.wasm_heap_bytes)];
}
