import { html } from "../dom.js";
import { ALL as TEXTS } from "./later.js";

/** The codes of errors, by the text that says what a visitor can do. */
const CODES = /** @type {const} */ ({
  noGpu: ["no_gpu"],
  interrupted: ["load_interrupted"],
  unfetched: ["fetch"],
  unusable: [
    ...["missing_part", "malformed", "truncated", "integrity", "unsupported_architecture", "invalid_config"],
    ...["missing_tensor", "wrong_tensor", "tokenizer", "numerical"],
  ],
  noChat: ["template"],
  noMemory: ["too_large", "out_of_memory", "over_budget", "device_lost_again"],
  gpuFailed: ["device_lost", "pipeline", "gpu"],
  unstarted: ["no_host", "start_failed"],
  ended: ["engine_crashed", "version_mismatch", "handshake", "closed"],
  outgrown: ["context_length_exceeded"],
  crowded: ["queue_full"],
  refused: ["invalid_request"],
});

/**
 * What visitors are told of an error, in their language: its own words where it puts its `cause` into words.
 *
 * @param {any} error
 * @returns {string}
 */
export function sentenceOf({ code, message, cause }) {
  if (cause) return message;
  const [name = "unexpected"] = Object.entries(CODES).find(([, codes]) => codes.some((one) => one === code)) ?? [];
  return TEXTS[/** @type {keyof typeof CODES | "unexpected"} */ (name)];
}

/**
 * Tells an error in the box for errors.
 *
 * @param {HTMLElement} box
 * @param {any} error
 */
export function showProblem(box, error) {
  const [, text] = box.querySelectorAll("p");
  text.textContent = sentenceOf(error);
  box.querySelector("[data-do=processor]")?.remove();
  if (error.code === "no_gpu") {
    const attributes = { type: "button", class: "pill", part: "button processor", "data-do": "processor" };
    box.querySelector("[data-do=retry]")?.after(html("button", attributes, TEXTS.processor));
  }
  // In its own words, for those who look.
  box.title = (error.cause ?? error).message;
}
