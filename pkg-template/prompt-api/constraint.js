// The Prompt API's constraints of answers, in the engine's terms.
import { unsupported } from "./errors.js";

/**
 * What an answer must be: for the engine, as a text for the model (`hint`), and as a check of the answer.
 *
 * @typedef {object} Constraint
 * @property {import("../types.js").StructuredOutputs} [form]
 * @property {string} hint
 * @property {(answer: string) => void} check
 */

/**
 * @param {ReturnType<typeof import("./convert.js").promptOptionsOf>} options
 * @returns {Constraint}
 */
export function constraintOf({ responseConstraint, omitResponseConstraintInput }) {
  if (responseConstraint === undefined || responseConstraint === null) {
    if (!omitResponseConstraintInput) return { hint: "", check() {} };
    throw new TypeError("found omitResponseConstraintInput, expected it with a responseConstraint");
  }
  const hint = (/** @type {string} */ text) => (omitResponseConstraintInput ? "" : `\n\n${text}`);
  // Not by `instanceof`: a frame's are of another class.
  if (Object.prototype.toString.call(responseConstraint) === "[object RegExp]") {
    const { source, flags } = /** @type {RegExp} */ (responseConstraint);
    const pattern = new RegExp(source, flags.replace(/[gy]/g, ""));
    return {
      form: { regex: toRust(pattern) },
      hint: hint(`Answer with a text that matches the regular expression ${pattern}`),
      check(answer) {
        if (!pattern.test(answer)) throw unfinished(`what matches ${pattern}`);
      },
    };
  }
  const schema = schemaOf(asJson(responseConstraint), "responseConstraint");
  return {
    form: { json: schema },
    hint: hint(`Answer with JSON that keeps to this schema: ${JSON.stringify(schema)}`),
    check(answer) {
      try {
        JSON.parse(answer);
      } catch {
        throw unfinished("JSON");
      }
    },
  };
}

/**
 * What JSON has of a schema.
 *
 * @param {object} schema
 */
function asJson(schema) {
  let json;
  try {
    json = JSON.stringify(schema);
  } catch (/** @type {any} */ error) {
    throw unsupported(`found in responseConstraint: ${error.message}, expected what JSON has`);
  }
  return json && JSON.parse(json);
}

/**
 * A copy of a schema. An object of Zod, or of another library of Standard Schema, is refused: as JSON shows it, it would
 * be a schema without keywords, which everything meets.
 *
 * @param {unknown} given
 * @param {string} what
 * @returns {any}
 */
export function schemaOf(given, what) {
  const json = JSON.stringify(given);
  if (json === undefined) throw new TypeError(`found no JSON as ${what}, expected a JSON schema`);
  const schema = JSON.parse(json);
  const isForeign = ["def", "_def", "~standard"].some((name) => typeof schema?.[name] === "object");
  if (isForeign)
    throw new TypeError(`found another library's schema as ${what}, expected JSON Schema: z.toJSONSchema(…)`);
  return schema;
}

/** Members of character classes, which are others in Rust, and what ends a line. */
const CLASSES = {
  d: "0-9",
  w: "0-9A-Za-z_",
  s: String.raw`\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}`,
};
const LINE_ENDS = String.raw`\n\r\x{2028}\x{2029}`;

/** What is two characters to a pattern without the flags `u` and `v`. */
const PAIRS = String.raw`\x{10000}-\x{10FFFF}`;

/**
 * A pattern in the syntax of Rust's crate `regex`, for a text that matches as a whole.
 *
 * @param {RegExp} pattern
 */
function toRust({ source, flags }) {
  const whole = source.replace(/^\^/, "").replace(/(?<!\\)((?:\\\\)*)\$$/, "$1");
  const pairs = /[uv]/.test(flags) ? "" : PAIRS;
  const notAny = (flags.includes("s") ? "" : LINE_ENDS) + pairs;
  let inClass = false;
  const body = whole.replace(/\\.|\[\^?|[\].]|&&|--|~~/gs, (token) => {
    switch (token) {
      case "\\d":
      case "\\w":
      case "\\s": {
        const members = CLASSES[/** @type {"d"} */ (token[1])];
        return inClass ? members : `[${members}]`;
      }
      case "\\D":
      case "\\W":
      case "\\S":
        return `[^${CLASSES[/** @type {"d"} */ (token[1].toLowerCase())]}${pairs}]`;
      case ".":
        return inClass || !notAny ? token : `[^${notAny}]`;
      case "[":
      case "[^":
        if (inClass) return `\\${token}`;
        inClass = true;
        return token === "[" ? token : token + pairs;
      case "]":
        inClass = false;
        return token;
      // In Rust, but not in JavaScript, these are operators of character classes.
      case "&&":
      case "--":
      case "~~":
        return inClass ? `${token[0]}\\${token[1]}` : token;
      default:
        return token;
    }
  });
  const modes = flags.replace(/[^is]/g, "");
  return modes ? `(?${modes}:${body})` : body;
}

/** @param {string} expected */
function unfinished(expected) {
  return new DOMException(`found an answer that ended early, expected ${expected}`, "SyntaxError");
}
