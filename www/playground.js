// Answers that are constrained by a JSON Schema, and checked against it.
import { sentenceOf } from "./tabloom/element/parts.js";
import { $, grow, html, write } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { fill, texts } from "./texts.js";
import { problems } from "./validate.js";

const TEXTS = texts.playground;

/** Blanks as in most JSON. Without this there may be any, and small models write nothing else. */
const SPACING = { whitespace_flexible: false, item_separator: ", ", key_separator: ": " };

/** Most tokens of an answer. */
const MOST = 512;

/** The view in which visitors write a schema and ask for an answer of its form. */
export class Playground {
  #loader;
  #settings;
  /** @type {AbortController | null} */
  #answering = null;

  /**
   * @param {import("./loader.js").Loader} loader
   * @param {import("./settings.js").Settings} settings
   */
  constructor(loader, settings) {
    this.#loader = loader;
    this.#settings = settings;
    const choice = $("example");
    choice.append(...EXAMPLES.map(({ name }, i) => html("option", { value: `${i}` }, texts.examples[name])));
    choice.addEventListener("change", () => this.#take(Number(choice.value)));
    loader.addEventListener("change", () => this.#refresh());
    $("schema").addEventListener("input", () => this.#changed());
    $("play-stop").addEventListener("click", () => this.#answering?.abort());
    $("play").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#run();
    });
    this.#take(0);
    this.#refresh();
  }

  /** @param {number} i the example that is shown */
  #take(i) {
    $("question").value = EXAMPLES[i].question;
    $("schema").value = readable(EXAMPLES[i].schema);
    this.#changed();
    write($("answer"), "");
  }

  #changed() {
    $("schema").setCustomValidity("");
    $("schema").title = "";
    // What was said of another schema.
    this.#report("");
    grow($("schema"), 2);
  }

  async #run() {
    const { current: engine } = this.#loader;
    if (!engine || this.#answering) return;
    write($("answer"), "");
    this.#report("");
    const schema = this.#schema();
    if (schema === undefined) return;
    this.#answering = new AbortController();
    const { signal } = this.#answering;
    this.#refresh();
    this.#report(TEXTS.answering);
    let [text, reason, tokens] = ["", "", 0];
    try {
      const chunks = await engine.chat.completions.create(
        {
          // So that a small model keeps to what it knows; who has chosen another gets that.
          temperature: 0,
          ...this.#settings.params,
          messages: [{ role: "user", content: $("question").value }],
          stream: true,
          stream_options: { include_usage: true },
          max_completion_tokens: MOST,
          structured_outputs: { grammar: `start: %json ${JSON.stringify({ ...schema, "x-guidance": SPACING })}` },
        },
        { signal },
      );
      for await (const { choices, usage } of chunks) {
        text += choices[0]?.delta.content ?? "";
        reason = choices[0]?.finish_reason ?? reason;
        tokens = usage?.completion_tokens ?? tokens;
        write($("answer"), text);
      }
      if (reason === "stop") this.#judge(text, schema);
      else this.#report(fill(TEXTS.cut, { tokens }), "bad");
    } catch (/** @type {any} */ error) {
      if (!signal.aborted) console.warn(error);
      if (signal.aborted) this.#report(TEXTS.stopped);
      else this.#report(...reasonOf(error));
      this.#loader.failed(error);
    } finally {
      this.#answering = null;
      this.#refresh();
    }
  }

  /** The schema in the form; undefined, and marked, where it is no JSON. */
  #schema() {
    const field = $("schema");
    try {
      const schema = JSON.parse(field.value);
      if (typeof schema === "object" && schema !== null && !Array.isArray(schema)) return schema;
      field.setCustomValidity(TEXTS.object);
    } catch (/** @type {any} */ error) {
      field.setCustomValidity(TEXTS.broken);
      field.title = error.message;
    }
    field.reportValidity();
    return undefined;
  }

  /**
   * @param {string} text
   * @param {any} schema
   */
  #judge(text, schema) {
    /** @type {any} */
    let value;
    try {
      value = JSON.parse(text);
    } catch {
      return this.#report(TEXTS.broken, "bad");
    }
    write($("answer"), readable(value));
    try {
      const found = problems(value, schema);
      if (found.length > 0) this.#report(`${found.join(". ")}.`, "bad");
      else this.#report(TEXTS.valid, "good");
    } catch (/** @type {any} */ error) {
      this.#report(fill(TEXTS.unchecked, { why: error.message }));
    }
  }

  /**
   * @param {string} text
   * @param {string} [kind]
   * @param {string} [details] in the engine's words
   */
  #report(text, kind = "", details = "") {
    write($("verdict"), text);
    if (details) $("verdict").append(" ", html("small", { lang: "en" }, details));
    $("verdict").className = kind;
    // On a phone it is below the form.
    if (text) $("verdict").scrollIntoView({ block: "nearest" });
  }

  #refresh() {
    const busy = this.#answering !== null;
    $("play-run").disabled = !this.#loader.current;
    $("play-run").hidden = busy;
    $("play-stop").hidden = !busy;
  }
}

/**
 * What an error says of the schema, not of the grammar around it, or else of what went wrong.
 *
 * @param {any} error
 * @returns {[text: string, kind: string, details?: string]}
 */
function reasonOf(error) {
  const { code, message } = error;
  const refused = code === "invalid_request";
  if (!refused || !message.startsWith("structured_outputs.grammar")) {
    return [sentenceOf({ code: refused ? "" : code }), "bad", message];
  }
  const line = message.split("\n")[0].replace(/^structured_outputs\.grammar(?:: at .* JSON schema(?=:))?/, "schema");
  const [, path, keyword] = /(\S+): found (\S+), expected only keywords that/.exec(line) ?? [];
  if (keyword) return [fill(TEXTS.unsupported, { path, keyword }), "bad"];
  return [TEXTS.refused, "bad", line.replace(/^schema: /, "")];
}

/**
 * A value as JSON on several lines, with short lists on one.
 *
 * @param {any} value
 */
function readable(value) {
  return JSON.stringify(value, null, 2).replace(
    /\[\s+([^[\]{}]{1,72}?)\s+\]/g,
    (_, inside) => `[${inside.replace(/\n\s+/g, " ")}]`,
  );
}
