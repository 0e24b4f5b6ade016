// The view of the engine: reads its metrics while somebody looks, and more slowly after anything has happened, for as
// long as its charts reach back: who looks later sees it.
import { sentenceOf } from "./tabloom/element/parts.js";
import { html, write } from "./dom.js";
import { EngineView } from "./engine-view.js";
import { KEPT, Samples } from "./samples.js";
import { texts } from "./texts.js";

/** @import { Engine } from "./tabloom/index.js" */

/** Milliseconds between two readings of the metrics, while somebody looks and while nobody does. */
const PERIODS = { seen: 500, unseen: 2_000 };

/** Shows an engine's metrics. */
export class Panel {
  #place;
  #state = html("p");
  #open = false;
  /** @type {Engine | null | undefined} */
  #engine;
  /** @type {EngineView | null} of this engine, once somebody has looked */
  #view = null;
  #samples = new Samples();
  /** Until when metrics are read that nobody looks at. */
  #until = 0;
  /** @type {object | null} stands for the current loop of readings: another one replaces it, and it ends */
  #reading = null;

  /** @param {HTMLElement} place where it is shown */
  constructor(place) {
    this.#place = place;
    place.append(this.#state);
    document.addEventListener("visibilitychange", () => this.#read());
    this.watch(null);
  }

  /** @param {boolean} open whether the place for it is shown */
  set open(open) {
    this.#open = open;
    this.#read();
  }

  /** Something happens in the engine, or soon will. */
  wake() {
    this.#until = performance.now() + KEPT;
    if (!this.#reading) this.#read();
  }

  /**
   * Shows this engine from now on, or that there is none.
   *
   * @param {Engine | null} engine
   */
  watch(engine) {
    if (engine === this.#engine) return;
    this.#engine = engine;
    this.#view?.element.remove();
    this.#view = null;
    this.#samples = new Samples();
    write(this.#state, engine ? "" : texts.engine.none);
    this.#read();
  }

  async #read() {
    const engine = this.#engine;
    const reading = (this.#reading = engine ? {} : null);
    const seen = this.#open && !document.hidden;
    this.#until = performance.now() + KEPT;
    const current = () => this.#reading === reading;
    while (engine && current() && (seen || performance.now() < this.#until)) {
      try {
        const metrics = await engine.metrics();
        if (!current()) return;
        this.#samples.add(metrics, performance.now());
        if (seen) this.#show(engine, metrics);
      } catch (/** @type {any} */ error) {
        // Another request would bring the engine back to life; only the visitor's requests may do that.
        if (!current()) return;
        console.warn(error);
        write(this.#state, sentenceOf(error));
        this.#state.title = error.message;
        this.#view?.element.remove();
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, seen ? PERIODS.seen : PERIODS.unseen));
    }
    if (current()) this.#reading = null;
  }

  /**
   * @param {Engine} engine
   * @param {any} metrics
   */
  #show(engine, metrics) {
    this.#view ??= new EngineView(engine, this.#samples);
    this.#view.show(metrics);
    this.#place.append(this.#view.element);
  }
}
