import { $ } from "./dom.js";
import { shown } from "./shown.js";

/** The view that measures the engine, once it is opened. */
export class Benchmark {
  /** @param {import("./loader.js").Loader} loader */
  constructor(loader) {
    shown($("bench"))
      .then(() => import("./bench-view.js"))
      .then(({ BenchView }) => new BenchView(loader));
  }
}
