// Tools of a session, and what is said of them: by the page, and by the model.
import { schemaOf } from "./constraint.js";
import { isKept } from "./convert.js";
import { unsupported } from "./errors.js";
import { LanguageModelToolCall } from "./tool-messages.js";

/** @import { Tool as EngineTool, ToolCall, ToolCallDelta, ToolMessage } from "../types.js" */
/** @import { Tool } from "./convert.js" */
/** @import { LanguageModelToolError, LanguageModelToolSuccess } from "./tool-messages.js" */

/**
 * @typedef {object} Tools
 * @property {EngineTool[]} list for the engine
 * @property {boolean} executed whether sessions carry out calls; if not, the page does
 * @property {Map<string, Function>} functions by the name of their tool
 */

/** What the engine takes as a name. */
const NAME = /^[\w-]{1,64}$/;

/**
 * @param {Tool[]} tools
 * @param {Set<string>} outputs expected types of content
 * @returns {Tools}
 */
export function toolsOf(tools, outputs) {
  const functions = new Map();
  const list = tools.map((tool) => {
    const { name, execute } = tool;
    if (functions.has(name)) throw new TypeError(`found two tools ${name}, expected names of their own`);
    functions.set(name, execute);
    return declared(tool);
  });
  const executed = tools.some(({ execute }) => execute);
  if (executed && tools.some(({ execute }) => !execute)) {
    throw new TypeError("found tools with and without execute, expected it in all or in none");
  }
  if (tools.length > 0 && !executed && !outputs.has("tool-call")) {
    throw new TypeError("found tools without execute, expected tool-call in expectedOutputs or execute in each");
  }
  return { list, executed, functions };
}

/**
 * @param {Tool} tool
 * @returns {EngineTool}
 */
function declared({ name, description, inputSchema }) {
  if (!NAME.test(name)) {
    throw new TypeError(`found a tool's name "${name}", expected 1 to 64 letters, digits, _ and -`);
  }
  if (description === "") throw new TypeError(`found no description of ${name}, expected what it does`);
  const { type, properties = {}, required = [] } = /** @type {any} */ (inputSchema);
  if (type !== "object" || typeof properties !== "object" || properties === null || !Array.isArray(required)) {
    throw new TypeError(`found another inputSchema of ${name}, expected that of an object: type "object"`);
  }
  const parameters = schemaOf(inputSchema, `inputSchema of ${name}`);
  return { type: "function", function: { name, description, parameters } };
}

/**
 * The calls of a message by the assistant, from a page.
 *
 * @param {LanguageModelToolCall} call
 * @returns {ToolCall}
 */
export function callOf({ callId, name, arguments: given = {} }) {
  if (Array.isArray(given)) throw notData(`arguments of ${name}`, "a list, expected an object");
  return { id: callId, type: "function", function: { name, arguments: json(given, `arguments of ${name}`) } };
}

/**
 * The result of a call, from a page.
 *
 * @param {LanguageModelToolSuccess | LanguageModelToolError} response
 * @returns {ToolMessage}
 */
export function resultOf(response) {
  const { callId, name } = response;
  const content =
    "result" in response ? response.result.map((part) => partOf(part, name)).join("\n") : failed(response);
  return { role: "tool", tool_call_id: callId, name, content };
}

/**
 * @param {LanguageModelToolSuccess["result"][number]} part
 * @param {string} name
 */
function partOf({ type, value }, name) {
  if (type !== "text" && type !== "object") {
    throw unsupported(`found ${type} from ${name}, expected text or object`);
  }
  if (type === "text" && typeof value === "string") return value;
  return json(value, `the result of ${name}`);
}

/** @param {LanguageModelToolError} error */
function failed({ errorMessage }) {
  return JSON.stringify({ error: `${errorMessage}` });
}

/**
 * @param {unknown} value
 * @param {string} what
 * @returns {string}
 */
function json(value, what) {
  let text;
  try {
    if (!isKept(value)) text = JSON.stringify(value);
  } catch (/** @type {any} */ error) {
    throw notData(what, error.message);
  }
  if (text === undefined) throw notData(what, "what JSON lacks");
  return text;
}

/**
 * @param {string} what
 * @param {string} found
 */
function notData(what, found) {
  return new DOMException(`found in ${what}: ${found}, expected what JSON has`, "DataError");
}

/** Calls, as they come in pieces. */
export class Calls {
  /** @type {ToolCall[]} */
  list = [];

  /** @param {ToolCallDelta[]} pieces */
  add(pieces) {
    for (const { index, id = "", function: piece } of pieces) {
      const call = (this.list[index] ??= { id, type: "function", function: { name: piece.name ?? "", arguments: "" } });
      call.function.arguments += piece.arguments;
    }
  }

  /**
   * For the page.
   *
   * @returns {LanguageModelToolCall[]}
   */
  get asked() {
    return this.list.map(({ id, function: { name, arguments: text } }) => {
      return new LanguageModelToolCall({ callId: id, name, arguments: parsed(text, name) });
    });
  }
}

/**
 * @param {string} text
 * @param {string} name
 */
function parsed(text, name) {
  try {
    return JSON.parse(text || "{}");
  } catch {
    throw new DOMException(`found "${text}" as arguments of ${name}, expected JSON from the model`, "UnknownError");
  }
}

/**
 * Carries out calls, all at once. What a function throws is thrown.
 *
 * @param {LanguageModelToolCall[]} calls
 * @param {Map<string, Function>} functions
 * @returns {Promise<ToolMessage[]>}
 */
export async function execute(calls, functions) {
  const results = calls.map(async ({ callId, name, arguments: given }) => {
    const result = await functions.get(name)?.call(undefined, given);
    const isObject = typeof result === "object" && result !== null;
    const content = isObject ? json(result, `the result of ${name}`) : `${result}`;
    return { role: /** @type {const} */ ("tool"), tool_call_id: callId, name, content };
  });
  return Promise.all(results);
}
