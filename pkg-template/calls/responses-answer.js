// A response that grows with a chat's answer, and the events that tell of it.

/** @import { TabloomError } from "../error.js" */
/** @import { FinishReason, TokenLogprob, ToolCallDelta, Usage } from "../types.js" */

/** @typedef {{type: string, sequence_number: number, [field: string]: unknown}} Event */

/**
 * The next piece of an answer.
 *
 * @typedef {object} Delta
 * @property {string | null} [reasoning_content]
 * @property {string | null} [content]
 * @property {ToolCallDelta[]} [tool_calls]
 */

/** A response's items are written one after another: reasoning, a message, calls. */
export class Answer {
  /** @type {any} */
  response;
  #id;
  #told = 0;
  /** The item that is being written. @type {any} */
  #item = null;
  /** The number of the call that is being written. */
  #call = -1;

  /**
   * @param {any} params the request
   * @param {{id: string, created: number, model: string, served_by?: string}} chat
   */
  constructor(params, { id, created, model, served_by }) {
    this.#id = id.replace(/^chatcmpl-/, "");
    this.response = {
      id: `resp_${this.#id}`,
      object: "response",
      created_at: created,
      status: "in_progress",
      background: false,
      error: null,
      incomplete_details: null,
      instructions: params.instructions ?? null,
      max_output_tokens: params.max_output_tokens ?? null,
      metadata: params.metadata ?? {},
      model,
      output: [],
      parallel_tool_calls: params.parallel_tool_calls ?? true,
      previous_response_id: null,
      reasoning: { effort: params.reasoning?.effort ?? null, summary: null },
      store: false,
      temperature: params.temperature ?? null,
      text: { format: params.text?.format ?? { type: "text" } },
      tool_choice: params.tool_choice ?? "auto",
      tools: params.tools ?? [],
      top_logprobs: params.top_logprobs ?? 0,
      top_p: params.top_p ?? null,
      truncation: "disabled",
      usage: null,
      served_by,
    };
  }

  /** The first events. */
  begin() {
    const { response } = this;
    return ["created", "in_progress"].map((type) => this.#event(type, { response }));
  }

  /**
   * Adds a piece.
   *
   * @param {Delta} delta
   * @param {TokenLogprob[]} [logprobs] of its tokens
   * @returns {Event[]}
   */
  add({ reasoning_content, content, tool_calls = [] }, logprobs = []) {
    const events = [];
    if (reasoning_content) events.push(...this.#think(reasoning_content));
    if (content) events.push(...this.#say(content, logprobs));
    for (const call of tool_calls) events.push(...this.#ask(call));
    return events;
  }

  /**
   * The last events.
   *
   * @param {FinishReason | "repetition" | null} reason
   * @param {Usage | null} [usage]
   * @returns {Event[]}
   */
  end(reason, usage) {
    const { response } = this;
    const cut = reason === "length" ? "max_output_tokens" : reason === "repetition" ? reason : null;
    const status = cut ? "incomplete" : "completed";
    // Without a word it is an empty message.
    const empty = response.output.length === 0 ? this.#say("", []) : [];
    const events = [...empty, ...this.#close(status)];
    response.status = status;
    response.incomplete_details = cut && { reason: cut };
    response.usage = usage ? counts(usage) : null;
    return [...events, this.#event(status, { response })];
  }

  /**
   * The last event after a failure.
   *
   * @param {TabloomError} error
   * @returns {Event[]}
   */
  fail({ code, message }) {
    const { response } = this;
    Object.assign(response, { status: "failed", error: { code, message } });
    return [this.#event("failed", { response })];
  }

  /** @param {string} delta */
  #think(delta) {
    const events = this.#begin("reasoning", "rs", { summary: [] }, { type: "reasoning_text", text: "" });
    this.#item.content[0].text += delta;
    return [...events, this.#event("reasoning_text.delta", { ...this.#at(0), delta })];
  }

  /**
   * @param {string} delta
   * @param {TokenLogprob[]} logprobs
   */
  #say(delta, logprobs) {
    const part = { type: "output_text", text: "", annotations: [], logprobs: [] };
    const events = this.#begin("message", "msg", { role: "assistant" }, part);
    const [written] = this.#item.content;
    written.text += delta;
    written.logprobs.push(...logprobs);
    return delta ? [...events, this.#event("output_text.delta", { ...this.#at(0), delta, logprobs })] : events;
  }

  /** @param {ToolCallDelta} call */
  #ask({ index, id, function: { name, arguments: delta } }) {
    const events = index === this.#call ? [] : this.#close("completed");
    this.#call = index;
    events.push(...this.#begin("function_call", "fc", { call_id: id, name, arguments: "" }));
    this.#item.arguments += delta;
    return delta ? [...events, this.#event("function_call_arguments.delta", { ...this.#at(), delta })] : events;
  }

  /**
   * Begins an item, unless one of its type is being written.
   *
   * @param {string} type
   * @param {string} kind the beginning of its id
   * @param {object} fields
   * @param {object} [part] its content
   */
  #begin(type, kind, fields, part) {
    if (this.#item?.type === type) return [];
    const events = this.#close("completed");
    const { output } = this.response;
    const item = { id: `${kind}_${this.#id}_${output.length}`, type, status: "in_progress", ...fields };
    this.#item = part ? { ...item, content: [] } : item;
    output.push(this.#item);
    events.push(this.#event("output_item.added", { output_index: output.length - 1, item: this.#item }));
    if (!part) return events;
    this.#item.content.push(part);
    return [...events, this.#event("content_part.added", { ...this.#at(0), part })];
  }

  /**
   * Ends the item that is being written.
   *
   * @param {"completed" | "incomplete"} status
   */
  #close(status) {
    const item = this.#item;
    if (!item) return [];
    const events = [];
    if (item.content) {
      const [part] = item.content;
      const { type, text, logprobs } = part;
      events.push(this.#event(`${type}.done`, { ...this.#at(0), text, ...(logprobs && { logprobs }) }));
      events.push(this.#event("content_part.done", { ...this.#at(0), part }));
    } else {
      const { name, arguments: text } = item;
      events.push(this.#event("function_call_arguments.done", { ...this.#at(), name, arguments: text }));
    }
    item.status = status;
    events.push(this.#event("output_item.done", { output_index: this.response.output.length - 1, item }));
    this.#item = null;
    return events;
  }

  /**
   * Where the item that is being written is.
   *
   * @param {number} [content_index]
   */
  #at(content_index) {
    const at = { item_id: this.#item.id, output_index: this.response.output.length - 1 };
    return content_index === undefined ? at : { ...at, content_index };
  }

  /**
   * An event, which later pieces do not change.
   *
   * @param {string} type
   * @param {object} fields
   * @returns {Event}
   */
  #event(type, fields) {
    return structuredClone({ type: `response.${type}`, sequence_number: this.#told++, ...fields });
  }
}

/** @param {Usage} usage */
function counts({ prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details, completion_tokens_details }) {
  // A fallback's may lack details.
  const cached_tokens = prompt_tokens_details?.cached_tokens ?? 0;
  const reasoning_tokens = completion_tokens_details?.reasoning_tokens ?? 0;
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: { cached_tokens },
    output_tokens: completion_tokens,
    output_tokens_details: { ...completion_tokens_details, reasoning_tokens },
    total_tokens,
  };
}
