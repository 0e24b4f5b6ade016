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
  if (!levels || Object(value) !== value) return value;
  const given = value[Symbol.iterator] ? [...value] : value;
  if (!/^(Array|Object)$/.test(given.constructor?.name)) return given;
  const copy = new given.constructor();
  for (const name in given) copy[name] = name === "inputSchema" ? given[name] : copied(given[name], levels - 1);
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
