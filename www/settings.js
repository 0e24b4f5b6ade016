// The visitor's settings, kept for the next visit.

const KEY = "tabloom-settings";

/** A number is null where the model's own is used. */
const DEFAULTS = { system: "", temperature: null, top_p: null, max_tokens: null, speculation: true };

/** Settings, as a form shows them. Dispatches `change` when they change. */
export class Settings extends EventTarget {
  #form;
  #given;
  /** @type {{system: string, temperature: number | null, top_p: number | null, max_tokens: number | null, speculation: boolean}} */
  values = { ...DEFAULTS };

  /**
   * @param {HTMLFormElement} form
   * @param {Partial<Settings["values"]>} given by the page's address, and not kept
   */
  constructor(form, given) {
    super();
    this.#form = form;
    this.#given = given;
    this.values = { ...DEFAULTS, ...kept(), ...given };
    this.#fill();
    form.addEventListener("input", ({ target }) => this.#take(/** @type {HTMLInputElement} */ (target)));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      this.set({ ...DEFAULTS });
    });
    addEventListener("storage", ({ key }) => key === KEY && this.#change({ ...DEFAULTS, ...kept() }));
  }

  /** The parameters of a request. */
  get params() {
    const { temperature, top_p, max_tokens, speculation } = this.values;
    return {
      ...(temperature !== null && { temperature }),
      ...(top_p !== null && { top_p }),
      ...(max_tokens !== null && { max_completion_tokens: max_tokens }),
      speculative_decoding: speculation,
    };
  }

  /** @param {Partial<Settings["values"]>} values */
  set(values) {
    this.#change({ ...this.values, ...values });
    try {
      const others = Object.entries(this.values).filter(
        ([name, value]) => this.#given[/** @type {"system"} */ (name)] !== value,
      );
      localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(others)));
    } catch {
      // Denied or full: they are used for this visit only.
    }
  }

  /**
   * Shows what a field left empty stands for.
   *
   * @param {import("./tabloom/index.js").EngineInfo["sampling"]} sampling the model's own
   */
  suggest(sampling) {
    const own = { temperature: sampling?.temperature, top_p: sampling?.topP };
    for (const [name, value] of Object.entries(own)) {
      const field = /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name));
      field.placeholder = value === undefined ? "the model’s own" : `${value}, the model’s own`;
    }
  }

  /** @param {Settings["values"]} values */
  #change(values) {
    this.values = values;
    this.#fill();
    this.dispatchEvent(new Event("change"));
  }

  /** @param {HTMLInputElement} field */
  #take(field) {
    const { name, type, value, checked } = field;
    // What is out of range is marked by the browser, and not used.
    if (!field.validity.valid) return void field.reportValidity();
    this.set({
      [name]: type === "checkbox" ? checked : type !== "number" ? value : value === "" ? null : Number(value),
    });
  }

  #fill() {
    for (const [name, value] of Object.entries(this.values)) {
      const field = /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name));
      if (field.type === "checkbox") field.checked = Boolean(value);
      // The field that the visitor types into is left alone.
      else if (document.activeElement !== field || !value) field.value = `${value ?? ""}`;
    }
  }
}

/** What an earlier visit has kept, as far as its types are right. */
function kept() {
  try {
    const values = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    const entries = Object.entries(DEFAULTS).map(([name, value]) => {
      const kind = value === null ? "number" : typeof value;
      return typeof values[name] === kind ? [name, values[name]] : [name, value];
    });
    return Object.fromEntries(entries);
  } catch {
    return {};
  }
}
