// The class `LanguageModel`, before anything else of the Prompt API is loaded.

/** @import { LanguageModel } from "../types.js" */
/** @import { Model } from "./language-model.js" */

/**
 * Options as they are at the call: what converts them may have to be loaded first. Schemas stay objects of the page.
 *
 * @param {any} value
 * @param {number} [levels] of lists and plain objects, as many as options have
 */
export function copied(value, levels = 5) {
  if (!levels || !/^(Array|Object)$/.test(value?.constructor?.name)) return value;
  const copy = new value.constructor();
  for (const name in value) copy[name] = name === "inputSchema" ? value[name] : copied(value[name], levels - 1);
  return copy;
}

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
      const given = copied(options);
      return (await api()).create(LanguageModel, model, given);
    }

    /** @param {unknown} [options] */
    static async availability(options) {
      const given = copied(options);
      return (await api()).availability(model, given);
    }

    get [Symbol.toStringTag]() {
      return "LanguageModel";
    }
  }
  return /** @type {any} */ (LanguageModel);
}
