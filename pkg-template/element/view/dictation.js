// Dictation, where the browser recognises speech on the device; elsewhere it would send it to a server.
import { html, icon } from "../dom.js";
import { language } from "../language.js";
import { ALL as TEXTS } from "./later.js";

/** @import { Owner } from "./types.js" */

const MICROPHONE =
  "M12 3.5a2.7 2.7 0 0 1 2.7 2.7v5.1a2.7 2.7 0 0 1-5.4 0V6.2A2.7 2.7 0 0 1 12 3.5zM6 11a6 6 0 0 0 12 0M12 17v3.5";

/**
 * Adds a button that dictates, unless the browser has to ask a server.
 *
 * @param {any} Recognition the browser's
 * @param {Pick<Owner, "input" | "tell" | "announce">} view
 */
export async function addDictation(Recognition, view) {
  const options = { langs: [language()], processLocally: true };
  const state = await stateOf(Recognition, options);
  if (state === "unavailable") return;
  const attributes = { type: "button", class: "round pale", part: "button dictate", "aria-pressed": "false" };
  const labels = { "aria-label": TEXTS.dictate, title: TEXTS.dictate };
  const button = html(
    "button",
    { ...attributes, ...labels },
    html("slot", { name: "dictate-label" }, icon(MICROPHONE)),
  );
  view.input.after(button);

  const { input } = view;
  const form = /** @type {HTMLFormElement} */ (input.form);
  /** @type {any} what listens */
  let current = null;
  const stop = () => {
    current?.abort();
    current = null;
    button.ariaPressed = "false";
  };
  let failed = false;
  const fail = () => {
    stop();
    view.tell(TEXTS.notHeard);
    failed = true;
  };

  const start = async () => {
    const { selectionStart, selectionEnd, value } = input;
    const [before, after] = [value.slice(0, selectionStart), value.slice(selectionEnd)];
    const recognition = new Recognition();
    Object.assign(recognition, { lang: language(), continuous: true, interimResults: true, processLocally: true });
    current = recognition;
    view.tell("");
    button.ariaPressed = "true";
    recognition.onresult = (/** @type {any} */ { results }) => {
      if (current !== recognition) return;
      if (!button.isConnected) return stop();
      const heard = Array.from(results, ([best]) => best.transcript)
        .join("")
        .trim();
      input.value = `${before}${/\S$/.test(before) ? " " : ""}${heard}${after}`;
      input.selectionStart = input.selectionEnd = input.value.length - after.length;
      input.dispatchEvent(new Event("input"));
    };
    recognition.onend = () => {
      if (current === recognition) stop();
    };
    recognition.onerror = (/** @type {any} */ { error }) => {
      if (current === recognition && error !== "no-speech") fail();
    };
    try {
      if (state !== "available" && !(await Recognition.install(options))) throw new Error(state);
      if (current !== recognition) return;
      recognition.start();
      view.announce(TEXTS.listening);
      input.focus();
    } catch {
      fail();
    }
  };

  button.addEventListener("click", () => (current ? stop() : start()));
  form.addEventListener("submit", stop);
  // Who types has another text in mind.
  input.addEventListener("input", ({ isTrusted }) => {
    if (!isTrusted) return;
    stop();
    if (failed) view.tell("");
    failed = false;
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !current) return;
    stop();
    event.stopPropagation();
  });
}

/**
 * Whether speech is recognised on the device: `available`, or also `downloadable` and `downloading`.
 *
 * @param {any} Recognition
 * @param {{langs: string[], processLocally: boolean}} options
 * @returns {Promise<string>}
 */
async function stateOf(Recognition, options) {
  try {
    return await Recognition.available(options);
  } catch {
    // The page's policy forbids it, or the browser asks in another way.
    return "unavailable";
  }
}
