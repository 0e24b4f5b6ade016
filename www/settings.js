// The visitor's settings: those of the conversation that is shown, with which a new one begins.

import { titleOf } from "./tabloom/element/parts.js";
import { $, html, write } from "./dom.js";
import { fill, number, texts } from "./texts.js";

/** @import { Engine } from "./tabloom/index.js" */

const KEY = "tabloom-settings";

/** Most stop strings of a request. */
const STOPS = 16;

/** A number is null where the model's own is used. */
const DEFAULTS = {
  system: "",
  temperature: null,
  top_p: null,
  top_k: null,
  min_p: null,
  repetition_penalty: null,
  frequency_penalty: null,
  presence_penalty: null,
  stop: "",
  seed: null,
  max_tokens: null,
  speculation: true,
  marks: false,
};

/**
 * @typedef {{[Name in Exclude<keyof typeof DEFAULTS, "system" | "stop" | "speculation" | "marks">]: number | null}
 *   & {system: string, stop: string, speculation: boolean, marks: boolean}} Values
 */

/** Settings, as a form shows them. Dispatches `change` when the visitor changes them. */
export class Settings extends EventTarget {
  #form;
  #given;
  #undo = $("undo-reset");
  /** Says what could be entered instead of what is not used. */
  #unused = html("p", { role: "alert" });
  /** @type {Engine | null} what counts tokens */
  #engine = null;
  /** @type {Values} what is kept: all but what the page's address says */
  own = { ...DEFAULTS };
  /** @type {Values} what is used */
  values = { ...DEFAULTS };

  /**
   * @param {HTMLFormElement} form
   * @param {Partial<Values>} given by the page's address, and not kept
   */
  constructor(form, given) {
    super();
    this.#form = form;
    this.#given = given;
    this.#unused.classList.add("hint", "bad");
    this.use({});
    this.suit(null);
    // One is in the engine's view.
    for (const field of /** @type {Iterable<HTMLInputElement>} */ (/** @type {unknown} */ (form.elements))) {
      field.addEventListener("input", () => this.#take(field));
      field.addEventListener("blur", () => field.validity.valid || this.#fill());
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      const before = this.own;
      this.set({ ...DEFAULTS });
      this.#undo.hidden = false;
      this.#undo.onclick = () => {
        this.#undo.hidden = true;
        /** @type {HTMLElement} */ (form.querySelector("[type=reset]")).focus();
        this.set(before);
      };
    });
  }

  /** The parameters of a request. */
  get params() {
    const { system, stop, speculation, marks, max_tokens, ...sampling } = this.values;
    const stops = linesOf(stop);
    const all = { ...sampling, max_completion_tokens: max_tokens, stop: stops.length > 0 ? stops : null };
    const given = Object.entries(all).filter(([, value]) => value !== null);
    return { ...Object.fromEntries(given), speculative_decoding: speculation };
  }

  /**
   * Takes a conversation's settings, and no other's: what it has none of is the default.
   *
   * @param {Partial<Values>} values
   */
  use(values) {
    this.#undo.hidden = true;
    this.#unused.remove();
    // A file from elsewhere may have more than can be entered.
    const most = (/** @type {string} */ name, /** @type {string} */ text = "") =>
      text.slice(0, /** @type {HTMLTextAreaElement} */ (this.#form.elements.namedItem(name)).maxLength);
    const given = typed(values);
    this.own = { ...DEFAULTS, ...given, system: most("system", given.system), stop: most("stop", given.stop) };
    this.values = { ...this.own, ...this.#given };
    this.#fill();
    // Out of range, as in a file from elsewhere.
    for (const { name } of /** @type {NodeListOf<HTMLInputElement>} */ (this.#form.querySelectorAll("input:invalid"))) {
      Object.assign(this.own, { [name]: null });
      Object.assign(this.values, { [name]: null });
    }
    this.#fill();
  }

  /** @param {Partial<Values>} values */
  set(values) {
    this.own = { ...this.own, ...values };
    this.values = { ...this.values, ...values };
    this.#fill();
    try {
      sessionStorage.setItem(KEY, JSON.stringify({ ...latest(), ...values }));
    } catch (error) {
      // Denied or full: a reload drops those of a conversation that has not begun.
      console.warn(error);
    }
    this.dispatchEvent(new Event("change"));
  }

  /**
   * Shows what a field left empty stands for, and how much of the context the system prompt takes.
   *
   * @param {Engine | null} engine
   */
  suit(engine) {
    this.#engine = engine;
    this.#measure();
    const sampling = engine?.info.sampling;
    const own = {
      temperature: sampling?.temperature,
      top_p: sampling?.topP,
      top_k: sampling?.topK,
      min_p: sampling?.minP,
      repetition_penalty: sampling?.repetitionPenalty,
      frequency_penalty: sampling ? 0 : undefined,
      presence_penalty: sampling ? 0 : undefined,
    };
    for (const [name, value] of Object.entries(own)) {
      const field = /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name));
      field.placeholder = value === undefined ? texts.settings.own : fill(texts.settings.ownValue, { value });
    }
  }

  /** @param {HTMLInputElement} field */
  #take(field) {
    this.#unused.remove();
    // What is out of range is marked by the browser, and not used.
    if (!field.validity.valid) return this.#refuse(field);
    this.#undo.hidden = true;
    this.set({ [field.name]: entered(field) });
  }

  /** @param {HTMLInputElement} field */
  #refuse({ value, min: least, max: most, step, parentElement: label }) {
    const { unused, unusedWhole } = texts.settings;
    // What is no number at all, browsers do not tell.
    write(this.#unused, fill(step === "1" ? unusedWhole : unused, { value: value || "…", least, most }));
    label?.after(this.#unused);
  }

  /** Shows how much of the model's context the system prompt takes. */
  async #measure() {
    const { system } = this.values;
    const engine = this.#engine;
    const context = engine?.info.context ?? 0;
    const tokens = (system && (await engine?.countTokens(system, { addSpecialTokens: false }).catch(() => 0))) || 0;
    // Another may have been written meanwhile.
    if (system !== this.values.system || engine !== this.#engine) return;
    const over = tokens >= context;
    const { length, tooLong } = texts.settings;
    write($("system-length"), tokens ? fill(over ? tooLong : length, { tokens, context }) : "");
    $("system-length").classList.toggle("bad", over);
  }

  /** Tells what differs from the defaults: a new chat is asked with it without another word. */
  #tell() {
    const list = Object.entries(this.own)
      .filter(([name, value]) => value !== Object(DEFAULTS)[name] && `${value}`.trim())
      .map(([name, value]) => described(this.#form.elements.namedItem(name), value))
      .join(texts.charts.comma);
    $("changed").hidden = !list;
    write($("changed").querySelector("span"), fill(texts.settings.changed, { list }));
  }

  #fill() {
    this.#measure();
    this.#tell();
    for (const [name, value] of Object.entries(this.values)) {
      const field = /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name));
      // What the visitor types is left as it is written.
      if (field.validity.valid && entered(field) === value) continue;
      if (field.type === "checkbox") field.checked = Boolean(value);
      else field.value = `${value ?? ""}`;
    }
  }
}

/**
 * A setting in words.
 *
 * @param {any} field that it is entered in
 * @param {string | number | boolean | null} value
 */
function described({ labels: [label] }, value) {
  const { on, off, quoted } = texts.settings;
  const figure = () => number(Number(value), { maximumFractionDigits: 20, useGrouping: false });
  const text = () => fill(quoted, { text: titleOf(`${value}`) });
  const told = typeof value === "boolean" ? (value ? on : off) : typeof value === "string" ? text() : figure();
  return `${label.textContent.trim()} ${told}`;
}

/**
 * The stop strings in a text, one a line, as many as a request may have.
 *
 * @param {string} text
 */
function linesOf(text) {
  return text.split("\n").filter(Boolean).slice(0, STOPS);
}

/** @param {HTMLInputElement} field */
function entered({ type, value, checked }) {
  if (type === "checkbox") return checked;
  return type !== "number" ? value : value === "" ? null : Number(value);
}

/** The settings as they were set last in this tab: what is not asked yet has them after a reload. */
export function latest() {
  try {
    return typed(JSON.parse(sessionStorage.getItem(KEY) ?? "{}"));
  } catch (error) {
    console.warn(error);
    return {};
  }
}

/**
 * The settings in a value, as far as their types are right.
 *
 * @param {any} values
 * @returns {Partial<Values>}
 */
export function typed(values) {
  const right = Object.entries(DEFAULTS).filter(([name, value]) => {
    const given = values?.[name];
    return value === null ? given === null || typeof given === "number" : typeof given === typeof value;
  });
  return Object.fromEntries(right.map(([name]) => [name, values[name]]));
}
