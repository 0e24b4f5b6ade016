// The view that runs the benchmark, shows a table, and saves it.
import { measure } from "./bench.js";
import { $, write } from "./dom.js";
import { saveJson } from "./download.js";
import { Table } from "./tables.js";

/** @import { Run } from "./bench.js" */

/** Runs a benchmark when it is asked to. */
export class Benchmark {
  #loader;
  #table = new Table(["Requests at once", "Draft tokens", "First token", "Tokens/s", "Accepted"]);
  /** @type {Run[]} */
  #runs = [];
  /** @type {any} what the runs were made with */
  #setting = null;
  /** @type {AbortController | null} */
  #running = null;

  /** @param {import("./loader.js").Loader} loader */
  constructor(loader) {
    this.#loader = loader;
    $("bench-table").append(this.#table.element);
    loader.addEventListener("change", () => this.#refresh());
    $("bench-run").addEventListener("click", () => this.#run());
    $("bench-stop").addEventListener("click", () => this.#running?.abort());
    $("bench-save").addEventListener("click", () => saveJson("tabloom-bench", this.#report()));
    this.#refresh();
  }

  async #run() {
    const { current: engine } = this.#loader;
    if (!engine || this.#running) return;
    this.#running = new AbortController();
    const { signal } = this.#running;
    const { model, adapter, software, device, weightBytes } = engine.info;
    const { name, took } = this.#loader;
    this.#setting = {
      date: new Date().toISOString(),
      name,
      model,
      weight_bytes: weightBytes,
      load_ms: Math.round(took),
    };
    Object.assign(this.#setting, { device, adapter, software, host: engine.host, browser: navigator.userAgent });
    this.#runs = [];
    this.#refresh();
    write($("bench-state"), "Warming up…");
    try {
      for await (const run of measure(engine, signal)) {
        this.#runs.push(run);
        write($("bench-state"), `Run ${this.#runs.length} of 6`);
        this.#refresh();
      }
      write($("bench-state"), "Done.");
    } catch (/** @type {any} */ error) {
      write($("bench-state"), signal.aborted ? "Stopped." : error.message);
      this.#loader.failed(error);
    } finally {
      this.#running = null;
      this.#refresh();
    }
  }

  #report() {
    return { ...this.#setting, runs: this.#runs };
  }

  #refresh() {
    const busy = this.#running !== null;
    $("bench-run").disabled = !this.#loader.current;
    $("bench-run").hidden = busy;
    $("bench-stop").hidden = !busy;
    $("bench-save").disabled = busy || this.#runs.length === 0;
    $("bench-table").hidden = this.#runs.length === 0;
    const { name, adapter, load_ms } = this.#setting ?? {};
    const rows = this.#runs.map(({ requests, drafts, first_token_ms, tokens_per_second, tokens, accepted_tokens }) => ({
      name: `${requests}`,
      cells: [drafts ? "on" : "off", `${first_token_ms} ms`, `${tokens_per_second}`, `${accepted_tokens} of ${tokens}`],
    }));
    this.#table.show(`${name}, loaded in ${(load_ms / 1000).toFixed(2)} s. ${adapter}`, rows);
  }
}
