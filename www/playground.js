import { $ } from "./dom.js";
import { shown } from "./shown.js";

/** The view in which visitors write a schema and ask for an answer of its form, once it is opened. */
export class Playground {
  /**
   * @param {import("./loader.js").Loader} loader
   * @param {import("./settings.js").Settings} settings
   */
  constructor(loader, settings) {
    shown($("playground"))
      .then(() => import("./play-view.js"))
      .then(({ PlayView }) => new PlayView(loader, settings));
  }
}
