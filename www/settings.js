// What visitors set, kept for their next visit.

const KEY = "tabloom-settings";

/** Numbers are null where the model's own are taken. */
const DEFAULTS = { system: "", temperature: null, top_p: null, max_tokens: null, guess: true };

/** Settings, as a form shows them. Tells by `change` that they are others. */
export class Settings extends EventTarget {
  #form;
  #given;
  /** @type {{system: string, temperature: number | null, top_p: number | null, max_tokens: number | null, guess: boolean}} */
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

  /** What a request is sent with. */
  get params() {
    const { temperature, top_p, max_tokens, guess } = this.values;
    return {
      ...(temperature !== null && { temperature }),
      ...(top_p !== null && { top_p }),
      ...(max_tokens !== null && { max_completion_tokens: max_tokens }),
      speculative_decoding: guess,
    };
  }

  /** @param {Partial<Settings["values"]>} values */
  set(values) {
    this.#change({ ...this.values, ...values });
    try {
      const others = Object.entries(this.values).filter(([name, value]) => this.#given[/** @type {"system"} */ (name)] !== value);
      localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(others)));
    } catch {
      // Then they hold for this visit.
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
    this.set({ [name]: type === "checkbox" ? checked : type !== "number" ? value : value === "" ? null : Number(value) });
  }

  #fill() {
    for (const [name, value] of Object.entries(this.values)) {
      const field = /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name));
      if (field.type === "checkbox") field.checked = Boolean(value);
      // Who types is not disturbed.
      else if (document.activeElement !== field || !value) field.value = `${value ?? ""}`;
    }
  }
}

/** What an earlier visit has left, as far as it is of the right kinds. */
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
