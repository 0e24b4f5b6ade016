// The Prompt API's constraints of answers, in the engine's terms.

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
  const json = JSON.stringify(responseConstraint);
  if (json === undefined)
    throw new TypeError("found no JSON as responseConstraint, expected a JSON schema or a RegExp");
  return {
    form: { json: JSON.parse(json) },
    hint: hint(`Answer with JSON that keeps to this schema: ${json}`),
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
 * A pattern in the syntax of Rust's crate `regex`, for a text that matches as a whole.
 *
 * @param {RegExp} pattern
 */
function toRust({ source, flags }) {
  const whole = source.replace(/^\^/, "").replace(/(?<!\\)((?:\\\\)*)\$$/, "$1");
  let inClass = false;
  const body = whole.replace(/\\.|[[\]]|&&|--|~~/gs, (token) => {
    switch (token) {
      case "\\d":
        return "[0-9]";
      case "\\D":
        return "[^0-9]";
      case "\\w":
        return "[0-9A-Za-z_]";
      case "\\W":
        return "[^0-9A-Za-z_]";
      case "[":
        if (inClass) return "\\[";
        inClass = true;
        return token;
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
