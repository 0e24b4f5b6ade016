import { complete } from "./calls.js";

/** @import { Serving } from "./calls.js" */
/** @import { CreateCompletion } from "../types.js" */

/** Text completions, without a chat template. */
export class TextCompletions {
  #session;

  /** @param {Serving} session */
  constructor(session) {
    this.#session = session;
  }

  /** @type {CreateCompletion} */
  create = (params, options) =>
    complete(this.#session, "complete", params, ({ prompt, n }) => prompts(prompt) * (n ?? 1), options);
}

/** @param {unknown} prompt */
function prompts(prompt) {
  return Array.isArray(prompt) && typeof prompt[0] !== "number" ? prompt.length : 1;
}
