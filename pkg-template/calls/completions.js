import { complete } from "./calls.js";

/** @import { Serving } from "./calls.js" */
/** @import { Completion, CompletionChunk, CompletionParams, RequestOptions } from "../types.js" */

/** Text completions, without a chat template. */
export class TextCompletions {
  #session;

  /** @param {Serving} session */
  constructor(session) {
    this.#session = session;
  }

  /**
   * Continues one text or several, in the shapes of OpenAI's older API.
   *
   * With `stream: true` the promise gives an async iterator of chunks; leaving its loop cancels
   * the request. Without, it gives all answers at once. Control tokens (`<|im_start|>`) in a prompt
   * count as such.
   *
   * @template {CompletionParams} P
   * @param {P} params
   * @param {RequestOptions} [options]
   * @returns {Promise<P extends {stream: true} ? AsyncIterableIterator<CompletionChunk> : Completion>}
   */
  async create(params, options) {
    return complete(this.#session, "complete", params, ({ prompt, n }) => prompts(prompt) * (n ?? 1), options);
  }
}

/** @param {unknown} prompt */
function prompts(prompt) {
  return Array.isArray(prompt) && typeof prompt[0] !== "number" ? prompt.length : 1;
}
