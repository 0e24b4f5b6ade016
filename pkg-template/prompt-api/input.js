// The Prompt API's input, checked, in the engine's terms.

/** @import { ChatMessage, LanguageModelExpected as Expected } from "../types.js" */

const ROLES = ["system", "user", "assistant"];
const TYPES = ["text", "image", "audio", "tool-call", "tool-response"];

/** Temperatures by mode; `balanced` is the model's own. */
const TEMPERATURES = {
  "most-predictable": 0,
  predictable: 0.3,
  balanced: undefined,
  creative: 1,
  "most-creative": 1.4,
};
const MOST_TEMPERATURE = 2;
const MOST_K = 2 ** 31 - 1;

/** @typedef {keyof typeof TEMPERATURES} Mode */
/** @typedef {{mode: Mode, temperature?: number, topK?: number}} Sampling */

/**
 * Throws for what is not text; languages are up to the model.
 *
 * @param {Iterable<Expected>} [inputs]
 * @param {Iterable<Expected>} [outputs]
 * @param {Iterable<object>} [tools]
 */
export function expectText(inputs = [], outputs = [], tools = []) {
  for (const { type, languages } of [...inputs, ...outputs]) {
    if (!TYPES.includes(type)) throw new TypeError(`found type "${type}", expected one of ${TYPES}`);
    // This throws for what is no language tag.
    Intl.getCanonicalLocales(languages && [...languages]);
    if (type !== "text") throw unsupported(`found ${type}, expected text: the model takes and gives no other`);
  }
  for (const _ of tools) {
    throw unsupported("found tools, expected none in a session: engine.chat.completions has them");
  }
}

/**
 * @param {import("../types.js").LanguageModelCoreOptions} options
 * @returns {Sampling}
 */
export function samplingOf({ samplingMode, temperature, topK }) {
  const raw = temperature !== undefined || topK !== undefined;
  if (samplingMode !== undefined) {
    if (raw) throw new TypeError("found samplingMode beside temperature or topK, expected one or the other");
    if (!Object.hasOwn(TEMPERATURES, samplingMode)) {
      const modes = Object.keys(TEMPERATURES).join(", ");
      throw new TypeError(`found samplingMode "${samplingMode}", expected one of ${modes}`);
    }
    return { mode: samplingMode, temperature: TEMPERATURES[samplingMode] };
  }
  /** @type {Sampling} */
  const sampling = { mode: "balanced" };
  if (temperature !== undefined) {
    if (!(temperature >= 0)) throw new RangeError(`found temperature ${temperature}, expected 0 or more`);
    sampling.temperature = Math.min(temperature, MOST_TEMPERATURE);
  }
  if (topK !== undefined) {
    if (!(topK >= 1)) throw new RangeError(`found topK ${topK}, expected 1 or more`);
    sampling.topK = Math.min(Math.floor(topK), MOST_K);
  }
  return sampling;
}

/**
 * The messages of a prompt; `prefix` is the text of the last one if the model continues it.
 *
 * @param {import("../types.js").LanguageModelPrompt} input
 * @param {boolean} late whether the conversation has messages already
 * @param {string} [hint] added to the user's last message
 * @returns {{messages: ChatMessage[], prefix: string | null}}
 */
export function messagesOf(input, late, hint = "") {
  /** @type {import("../types.js").LanguageModelMessage[]} */
  const given = typeof input === "string" ? [{ role: "user", content: input }] : [...input];
  if (given.length === 0) given.push({ role: "user", content: "" });
  const messages = given.map(({ role, content, prefix = false }, i) => {
    if (!ROLES.includes(role)) throw new TypeError(`found role "${role}", expected one of ${ROLES}`);
    const last = i === given.length - 1;
    if (prefix && (role !== "assistant" || !last)) {
      throw new DOMException("found prefix, expected it in a last message of the assistant", "SyntaxError");
    }
    if (role === "system" && (late || i > 0)) {
      throw new TypeError("found a message of the system, expected it first in a session");
    }
    return { role, content: textOf(content) };
  });
  const question = messages.findLast(({ role }) => role === "user");
  if (question) question.content += hint;
  const prefix = given.at(-1)?.prefix ? (messages.at(-1)?.content ?? null) : null;
  return { messages: /** @type {ChatMessage[]} */ (messages), prefix };
}

/**
 * @param {import("../types.js").LanguageModelMessage["content"]} content
 * @returns {string}
 */
function textOf(content) {
  if (typeof content === "string") return content;
  const texts = [...content].map(({ type, value }) => {
    if (!TYPES.includes(type)) throw new TypeError(`found type "${type}", expected one of ${TYPES}`);
    if (type !== "text") throw unsupported(`found ${type}, expected text: the model takes no other`);
    if (typeof value !== "string") throw new TypeError(`found a ${typeof value} as text, expected a string`);
    return value;
  });
  return texts.join("");
}

/** @param {string} message */
function unsupported(message) {
  return new DOMException(message, "NotSupportedError");
}
