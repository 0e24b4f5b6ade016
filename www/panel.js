// The view of the engine: reads its metrics while somebody looks, and then, more slowly, for as long as its charts
// reach back: who comes back sees what happened meanwhile.
import { html, write } from "./dom.js";
import { EngineView } from "./engine-view.js";
import { KEPT } from "./samples.js";
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
  /** Stands for the current loop of readings: another one replaces it, and it ends. */
  #reading = {};

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
    write(this.#state, engine ? "" : texts.engine.none);
    this.#read();
  }

  async #read() {
    const engine = this.#engine;
    const reading = (this.#reading = {});
    const seen = this.#open && !document.hidden;
    const end = seen ? Infinity : performance.now() + KEPT;
    const wanted = () => this.#reading === reading && (seen || this.#view !== null) && performance.now() < end;
    if (!engine || !wanted()) return;
    while (wanted()) {
      try {
        const metrics = await engine.metrics();
        if (!wanted()) return;
        this.#view ??= new EngineView(engine);
        this.#view.show(metrics, performance.now(), seen);
        this.#place.append(this.#view.element);
      } catch (/** @type {any} */ error) {
        // Another request would bring the engine back to life; only the visitor's requests may do that.
        if (!wanted()) return;
        write(this.#state, error.message);
        this.#view?.element.remove();
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, seen ? PERIODS.seen : PERIODS.unseen));
    }
  }
}
