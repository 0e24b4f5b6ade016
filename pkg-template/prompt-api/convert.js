// What a page hands over, converted and copied at the call, as WebIDL has it for the Prompt API: what the page
// changes later is not seen, and what is no message or text becomes one where it can.

/** @import { LanguageModelExpected as Expected, LanguageModelThinking as Thinking } from "../types.js" */

const ROLES = /** @type {const} */ (["system", "user", "assistant"]);
const TYPES = /** @type {const} */ (["text", "image", "audio", "tool-call", "tool-response"]);
const MODES = /** @type {const} */ ([
  "most-predictable",
  "predictable",
  "slightly-predictable",
  "balanced",
  "slightly-creative",
  "creative",
  "most-creative",
]);
const EFFORTS = /** @type {const} */ (["none", "minimal", "low", "medium", "high"]);

/** Objects of which only their kind counts: pictures, sounds, bytes, and calls of tools. */
const KEPT =
  /^\[object (Blob|File|Image(Bitmap|Data)|OffscreenCanvas|VideoFrame|HTML(Image|Video|Canvas|Audio)Element|SVGImageElement|AudioBuffer|(Shared)?ArrayBuffer|LanguageModelTool(Call|Success|Error))\]$/;

/** @typedef {typeof MODES[number]} Mode */
/** @typedef {{type: typeof TYPES[number], value: unknown}} Content a text's value is a string if it can be one */
/** @typedef {{role: typeof ROLES[number], content: Content[], prefix: boolean}} Message */
/** @typedef {{name: string, description: string, inputSchema: object, execute?: Function}} Tool */

/**
 * A prompt, in its long form; none for an empty list.
 *
 * @param {unknown} input
 * @returns {Message[]}
 */
export function promptOf(input) {
  if (isIterable(input)) return Array.from(input, message);
  return [{ role: "user", content: [{ type: "text", value: `${input}` }], prefix: false }];
}

/**
 * Options of a prompt; others have some of them.
 *
 * @param {unknown} options
 */
export function promptOptionsOf(options) {
  const given = dictionary(options, "options");
  const omit = Boolean(given.omitResponseConstraintInput);
  const { responseConstraint } = given;
  if (responseConstraint !== undefined && responseConstraint !== null && !isObject(responseConstraint)) {
    const what = typeof responseConstraint;
    throw new TypeError(`found a ${what} as responseConstraint, expected a JSON schema or a RegExp`);
  }
  return { omitResponseConstraintInput: omit, responseConstraint, signal: signalOf(given) };
}

/**
 * Options of `availability()`.
 *
 * @param {unknown} options
 * @param {boolean} [browserRules] whether temperature and topK count for nothing, as browsers have it on pages
 */
export function coreOptionsOf(options, browserRules = false) {
  const given = dictionary(options, "options");
  const numeric = (/** @type {string} */ name) =>
    browserRules || given[name] === undefined ? undefined : Number(given[name]);
  return {
    expectedInputs: list(given.expectedInputs, "expectedInputs", expected),
    expectedOutputs: list(given.expectedOutputs, "expectedOutputs", expected),
    samplingMode: given.samplingMode === undefined ? undefined : oneOf(given.samplingMode, MODES, "samplingMode"),
    temperature: numeric("temperature"),
    thinking: thinking(given.thinking),
    tools: list(given.tools, "tools", tool),
    topK: numeric("topK"),
  };
}

/**
 * Options of `create()`.
 *
 * @param {unknown} options
 * @param {boolean} [browserRules]
 */
export function createOptionsOf(options, browserRules) {
  const core = coreOptionsOf(options, browserRules);
  const given = dictionary(options, "options");
  const { initialPrompts, monitor } = given;
  if (monitor !== undefined && typeof monitor !== "function") throw wrong(monitor, "monitor", "a function");
  return {
    ...core,
    initialPrompts: list(initialPrompts, "initialPrompts", message),
    monitor,
    signal: signalOf(given),
  };
}

/** @param {Record<string, any>} options */
function signalOf({ signal }) {
  if (signal === undefined || Object.prototype.toString.call(signal) === "[object AbortSignal]") return signal;
  throw wrong(signal, "signal", "an AbortSignal");
}

/**
 * @param {unknown} given
 * @returns {Message}
 */
function message(given) {
  const { content, prefix, role } = dictionary(given, "message");
  if (content === undefined) throw wrong(content, "content", "a text or a list");
  const text = () => [{ type: /** @type {const} */ ("text"), value: `${content}` }];
  return {
    content: isIterable(content) ? Array.from(content, part) : text(),
    prefix: Boolean(prefix),
    role: oneOf(role, ROLES, "role"),
  };
}

/**
 * @param {unknown} given
 * @returns {Content}
 */
function part(given) {
  const { type, value } = dictionary(given, "content");
  const kind = oneOf(type, TYPES, "type");
  if (value === undefined) throw wrong(value, "value", "a text");
  return { type: kind, value: isKept(value) ? value : `${value}` };
}

/**
 * @param {unknown} given
 * @returns {Expected}
 */
function expected(given) {
  const { languages, type } = dictionary(given, "expected content");
  const known = languages === undefined ? undefined : list(languages, "languages", (language) => `${language}`);
  // This throws for what is no language tag.
  return { languages: known && Intl.getCanonicalLocales(known), type: oneOf(type, TYPES, "type") };
}

/**
 * @param {unknown} given
 * @returns {Tool}
 */
function tool(given) {
  const { description, execute, inputSchema, name } = dictionary(given, "tool");
  if (description === undefined) throw wrong(description, "description", "a text");
  if (execute !== undefined && typeof execute !== "function") throw wrong(execute, "execute", "a function");
  if (!isObject(inputSchema)) throw wrong(inputSchema, "inputSchema", "a JSON schema");
  if (name === undefined) throw wrong(name, "name", "a text");
  return { name: `${name}`, description: `${description}`, inputSchema, execute };
}

/**
 * @param {unknown} given
 * @returns {Required<Thinking>}
 */
function thinking(given) {
  const { effort = "none", includeThoughts } = dictionary(given, "thinking");
  return { effort: oneOf(effort, EFFORTS, "effort"), includeThoughts: Boolean(includeThoughts) };
}

/**
 * @param {unknown} given
 * @param {string} what
 * @returns {Record<string, any>}
 */
function dictionary(given, what) {
  if (given === undefined || given === null) return {};
  if (!isObject(given)) throw wrong(given, what, "an object");
  return /** @type {Record<string, any>} */ (given);
}

/**
 * @template T
 * @param {unknown} given
 * @param {string} what
 * @param {(item: unknown) => T} convert
 * @returns {T[]}
 */
function list(given, what, convert) {
  if (given === undefined) return [];
  if (!isIterable(given)) throw wrong(given, what, "a list");
  return Array.from(given, (item) => convert(item));
}

/**
 * @template {string} T
 * @param {unknown} given
 * @param {readonly T[]} words
 * @param {string} what
 */
function oneOf(given, words, what) {
  const word = words.find((word) => word === `${given}`);
  if (word === undefined) throw new TypeError(`found ${what} "${given}", expected one of ${words.join(", ")}`);
  return word;
}

/** @param {unknown} value */
function isObject(value) {
  return typeof value === "function" || (typeof value === "object" && value !== null);
}

/** @param {unknown} value */
export function isKept(value) {
  return ArrayBuffer.isView(value) || KEPT.test(Object.prototype.toString.call(value));
}

/**
 * @param {unknown} value
 * @returns {value is Iterable<unknown>}
 */
function isIterable(value) {
  if (!isObject(value)) return false;
  const method = /** @type {any} */ (value)[Symbol.iterator];
  return method !== undefined && method !== null;
}

/**
 * @param {unknown} given
 * @param {string} what
 * @param {string} expected
 */
function wrong(given, what, expected) {
  const found = given === null ? "null" : given === undefined ? "nothing" : `a ${typeof given}`;
  return new TypeError(`found ${found} as ${what}, expected ${expected}`);
}
