// A request for a response, as a request for a chat completion.
import { kindOf } from "../error.js";
import { noValue } from "../found.js";

/** @import { ChatCompletionParams } from "../types.js" */

/**
 * The beginnings of the chat's parameters, each with what the request calls it; the first that fits counts.
 *
 * @typedef {[chat: string, own: string][]} Names
 */

/** @type {Names} */
const NAMES = [
  ["messages", "input"],
  ["response_format.json_schema", "text.format"],
  ["response_format", "text.format"],
  ["tool_choice.function", "tool_choice"],
  ["tool_choice.allowed_tools", "tool_choice"],
  ["max_completion_tokens", "max_output_tokens"],
  ["reasoning_effort", "reasoning.effort"],
  ["verbosity", "text.verbosity"],
];

/** What chats take and responses do not, and what to do in its place. */
const OF_CHATS = Object.entries({
  messages: "input",
  max_tokens: "max_output_tokens",
  max_completion_tokens: "max_output_tokens",
  response_format: "text.format",
  reasoning_effort: "reasoning.effort",
  verbosity: "text.verbosity",
  logprobs: 'include: ["message.output_text.logprobs"]',
  prompt_logprobs: "a chat completion",
  n: "a request for each answer",
});

const LOGPROBS = "message.output_text.logprobs";
/** What is never there to be included, as reasoning is given in plain text. */
const ENCRYPTED = "reasoning.encrypted_content";

/**
 * All that has the same name is passed on; the engine refuses what it does not support.
 *
 * @param {any} params
 * @returns {{chat: ChatCompletionParams, names: Names}}
 */
export function translated(params) {
  const { input, instructions, tools, tool_choice, text, reasoning, ...others } = params;
  const { include, max_output_tokens, truncation, background, stream_options, ...rest } = others;
  for (const [name, own] of OF_CHATS) if (rest[name] != null) throw noValue(name, rest[name], `none, but ${own}`);
  if (background != null && background !== false) throw noValue("background", background, "false or nothing");
  if (truncation != null && truncation !== "disabled") throw noValue("truncation", truncation, '"disabled" or nothing');
  const { format, verbosity } = fields("text", text, ["format", "verbosity"]);
  const { effort, summary } = fields("reasoning", reasoning, ["effort", "summary"]);
  if (summary != null && summary !== "auto") throw noValue("reasoning.summary", summary, '"auto" or nothing');
  const conversation = new Conversation();
  if (instructions != null) conversation.add({ role: "system", content: instructions }, "instructions", "");
  if (typeof input === "string") conversation.add({ role: "user", content: input }, "input", "");
  else for (const [i, item] of list("input", input).entries()) conversation.item(item, `input[${i}]`);
  const { messages, names } = conversation;
  const functions = tools == null ? undefined : list("tools", tools).map((tool, i) => chatTool(tool, `tools[${i}]`));
  for (const i of functions?.keys() ?? []) names.push([`tools[${i}].function`, `tools[${i}]`]);
  return {
    chat: {
      ...rest,
      messages,
      max_completion_tokens: max_output_tokens,
      response_format: format == null ? undefined : responseFormat(format),
      reasoning_effort: effort,
      verbosity,
      tools: functions,
      tool_choice: tool_choice == null ? undefined : toolChoice(tool_choice),
      logprobs: includesLogprobs(include) || rest.top_logprobs > 0 || undefined,
      stream_options: rest.stream
        ? { ...fields("stream_options", stream_options), include_usage: true }
        : stream_options,
    },
    names: [...names, ...NAMES],
  };
}

/** The messages that items stand for. */
class Conversation {
  /** @type {any[]} */
  messages = [];
  /** @type {Names} */
  names = [];

  /**
   * @param {object} message
   * @param {string} path what it is made of
   * @param {string} [content] the field that is its content
   */
  add(message, path, content = ".content") {
    this.messages.push(message);
    this.#name("", path);
    this.#name(".content", path + content);
  }

  /**
   * @param {any} item
   * @param {string} path
   */
  item(item, path) {
    if (typeof item !== "object" || item === null) throw noValue(path, item, "an item");
    // Labels of what answers have been; all other fields are the engine's to judge.
    const { type = "message", id, status, phase, ...rest } = item;
    if (type === "message") {
      const message = { ...rest, content: parts(rest.content, `${path}.content`) };
      if (message.role !== "assistant" || !this.#goOn(message, path)) this.add(message, path);
    } else if (type === "function_call") {
      this.#call(rest, path);
    } else if (type === "function_call_output") {
      const { call_id, output, ...more } = rest;
      const content = parts(output, `${path}.output`);
      this.add({ ...more, role: "tool", tool_call_id: call_id, content }, path, ".output");
      this.#name(".tool_call_id", `${path}.call_id`);
    } else if (type === "reasoning") {
      this.#reason(rest, path);
    } else if (type === "item_reference") {
      const instead = "the item, as nothing is stored (AI SDK: providerOptions: { openai: { store: false } })";
      throw noValue(`${path}.type`, type, instead);
    } else {
      throw noValue(`${path}.type`, type, '"message", "function_call", "function_call_output" or "reasoning"');
    }
  }

  /**
   * Adds the answer to the reasoning before it, if there is one.
   *
   * @param {object} message
   * @param {string} path
   */
  #goOn(message, path) {
    const last = this.#assistant();
    if (!last || "content" in last || last.tool_calls) return false;
    Object.assign(last, message);
    this.#name("", path);
    return true;
  }

  /**
   * Adds a call to the answer before it.
   *
   * @param {any} call
   * @param {string} path
   */
  #call({ call_id, name, arguments: text, ...more }, path) {
    if (!this.#assistant()) this.add({ role: "assistant" }, path);
    const last = this.#assistant();
    last.tool_calls ??= [];
    const at = `.tool_calls[${last.tool_calls.length}]`;
    last.tool_calls.push({ ...more, id: call_id, type: "function", function: { name, arguments: text } });
    this.#name(at, path);
    this.#name(`${at}.id`, `${path}.call_id`);
    this.#name(`${at}.function`, path);
  }

  /**
   * Begins an answer with its reasoning; where that is encrypted, there is none.
   *
   * @param {any} item
   * @param {string} path
   */
  #reason({ content, summary }, path) {
    const name = content?.length ? "content" : "summary";
    const pieces = list(`${path}.${name}`, content?.length ? content : (summary ?? []));
    const texts = pieces.map((piece, i) => {
      const text = piece?.text ?? "";
      if (typeof text !== "string") throw noValue(`${path}.${name}[${i}].text`, text, "a text");
      return text;
    });
    const reasoning_content = texts.join("");
    if (reasoning_content) this.add({ role: "assistant", reasoning_content }, path);
  }

  #assistant() {
    const last = this.messages.at(-1);
    return last?.role === "assistant" ? last : null;
  }

  /**
   * Names a field of the last message.
   *
   * @param {string} field
   * @param {string} own
   */
  #name(field, own) {
    this.names.unshift([`messages[${this.messages.length - 1}]${field}`, own]);
  }
}

/**
 * @param {any} content a text or parts
 * @param {string} path
 */
function parts(content, path) {
  if (!Array.isArray(content)) return content;
  return content.map((part, i) => {
    if (part?.type === "input_text" || part?.type === "output_text") return { type: "text", text: part.text };
    if (part?.type === "refusal") return part;
    throw noValue(`${path}[${i}]`, part?.type ?? part, 'a part of type "input_text" or "output_text"');
  });
}

/** @param {any} format */
function responseFormat(format) {
  const { type, ...json_schema } = format;
  return type === "json_schema" ? { type, json_schema } : format;
}

/**
 * @param {any} tool
 * @param {string} path
 * @returns {any}
 */
function chatTool(tool, path) {
  const { type, ...named } = tool ?? {};
  if (type !== "function") throw noValue(`${path}.type`, type ?? tool, '"function"');
  return { type, function: named };
}

/** @param {any} choice */
function toolChoice(choice) {
  const { type, ...named } = choice;
  if (type === "function") return { type, function: named };
  if (type !== "allowed_tools") return choice;
  const tools = list("tool_choice.tools", named.tools).map((tool, i) => chatTool(tool, `tool_choice.tools[${i}]`));
  return { type, allowed_tools: { ...named, tools } };
}

/** @param {unknown} include */
function includesLogprobs(include) {
  const wanted = list("include", include ?? []);
  const unknown = wanted.findIndex((what) => what !== LOGPROBS && what !== ENCRYPTED);
  if (unknown >= 0) throw noValue(`include[${unknown}]`, wanted[unknown], `"${LOGPROBS}"`);
  return wanted.includes(LOGPROBS);
}

/**
 * The fields of an object, if there are no others.
 *
 * @param {string} param
 * @param {any} value
 * @param {string[]} [known] any where they are not given
 * @returns {any}
 */
function fields(param, value, known) {
  if (value == null) return {};
  if (kindOf(value) !== "Object") throw noValue(param, value, "an object");
  const unknown = known && Object.entries(value).find(([name, field]) => field != null && !known.includes(name));
  if (unknown) throw noValue(`${param}.${unknown[0]}`, unknown[1], `${known.join(" and ")} alone`);
  return value;
}

/**
 * @param {string} param
 * @param {unknown} value
 * @returns {any[]}
 */
function list(param, value) {
  if (Array.isArray(value)) return value;
  throw noValue(param, value, param === "input" ? "a text or a list of items" : "a list");
}
