// The class `LanguageModel`, before anything else of the Prompt API is loaded.

/** @import { LanguageModel } from "../types.js" */
/** @import { Model } from "./language-model.js" */

/**
 * @param {Model} model
 * @returns {LanguageModel}
 */
export function interfaceOf(model) {
  const api = () => import("./language-model.js");
  class LanguageModel extends EventTarget {
    // A bundler may rename the class.
    static name = "LanguageModel";

    constructor() {
      super();
      throw new TypeError("Illegal constructor");
    }

    /** @param {unknown} [options] */
    static async create(options) {
      return (await api()).create(LanguageModel, model, options);
    }

    /** @param {unknown} [options] */
    static async availability(options) {
      return (await api()).availability(model, options);
    }

    get [Symbol.toStringTag]() {
      return "LanguageModel";
    }
  }
  return /** @type {any} */ (LanguageModel);
}
