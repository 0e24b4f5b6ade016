// What sessions are asked for, checked, in the engine's terms.
import { unsupported } from "./errors.js";
import { toolsOf } from "./tools.js";

/** @import { Mode } from "./convert.js" */
/** @import { Tools } from "./tools.js" */

/** Temperatures by mode; `balanced` is the model's own. */
const TEMPERATURES = {
  "most-predictable": 0,
  predictable: 0.3,
  "slightly-predictable": 0.5,
  balanced: undefined,
  "slightly-creative": 0.9,
  creative: 1,
  "most-creative": 1.4,
};
const MOST_TEMPERATURE = 2;
const MOST_K = 2 ** 31 - 1;

/** @typedef {ReturnType<typeof import("./convert.js").coreOptionsOf>} CoreOptions */

/**
 * What a session and its clones were asked for.
 *
 * @typedef {object} Setup
 * @property {Mode | null} samplingMode null where the page named temperature or topK
 * @property {number} [temperature] as the page named it
 * @property {number} [topK]
 * @property {{temperature?: number, top_k?: number}} sampling for the engine
 * @property {Record<string, unknown>} template variables of the chat template
 * @property {boolean} thoughts whether answers have what the model thought
 * @property {boolean} contents whether answers are lists of contents, and no texts
 * @property {Set<string>} inputs types of content that prompts may have
 * @property {Tools} tools
 */

/**
 * @param {CoreOptions} options
 * @returns {Setup}
 */
export function setupOf(options) {
  const { expectedInputs, expectedOutputs, thinking } = options;
  const outputs = new Set(expectedOutputs.map(({ type }) => type));
  const tools = toolsOf(options.tools, outputs);
  const { effort, includeThoughts: thoughts } = thinking;
  // Not all templates know an effort, but one that has a switch has it under this name.
  const template = effort === "none" ? { enable_thinking: false } : { enable_thinking: true, reasoning_effort: effort };
  return {
    ...samplingOf(options),
    template,
    thoughts,
    contents: thoughts || (outputs.has("tool-call") && !tools.executed),
    inputs: new Set(["text", ...expectedInputs.map(({ type }) => type)]),
    tools,
  };
}

/**
 * Throws for kinds of content that models here do not have, and for languages without a name. Which others a model
 * knows, its files do not say.
 *
 * @param {CoreOptions} options
 */
export function expectKinds({ expectedInputs, expectedOutputs }) {
  const names = new Intl.DisplayNames("en", { type: "language", fallback: "none" });
  for (const { languages = [] } of [...expectedInputs, ...expectedOutputs]) {
    const unknown = [...languages].find((language) => !names.of(language));
    if (unknown) throw unsupported(`found the language ${unknown}, expected one with a name`);
  }
  const check =
    (/** @type {string[]} */ known, /** @type {string} */ verb) =>
    (/** @type {{type: string}} */ { type }) => {
      if (!known.includes(type))
        throw unsupported(`found ${type}, expected ${known.join(" or ")}: the model ${verb} no other`);
    };
  expectedInputs.forEach(check(["text", "tool-call", "tool-response"], "takes"));
  expectedOutputs.forEach(check(["text", "tool-call"], "gives"));
}

/**
 * A mode goes before temperature and topK, which the API has for extensions alone.
 *
 * @param {CoreOptions} options
 * @returns {Pick<Setup, "samplingMode" | "temperature" | "topK" | "sampling">}
 */
function samplingOf({ samplingMode, temperature, topK }) {
  if (samplingMode !== undefined || (temperature === undefined && topK === undefined)) {
    const mode = samplingMode ?? "balanced";
    return { samplingMode: mode, sampling: given({ temperature: TEMPERATURES[mode] }) };
  }
  if (temperature !== undefined) {
    if (!(temperature >= 0)) throw new RangeError(`found temperature ${temperature}, expected 0 or more`);
    temperature = Math.min(temperature, MOST_TEMPERATURE);
  }
  if (topK !== undefined) {
    if (!(topK >= 1)) throw new RangeError(`found topK ${topK}, expected 1 or more`);
    topK = Math.min(Math.floor(topK), MOST_K);
  }
  return { samplingMode: null, temperature, topK, sampling: given({ temperature, top_k: topK }) };
}

/**
 * Without what is undefined.
 *
 * @template {object} T
 * @param {T} fields
 * @returns {T}
 */
function given(fields) {
  return /** @type {T} */ (Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)));
}
