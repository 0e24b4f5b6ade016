// A way from the small built-in model to a good one: the one that this device can be expected to run.
import { unquote } from "./tabloom/element/parts.js";
import { Engine } from "./tabloom/index.js";
import { $, button, html } from "./dom.js";
import { formatBytes } from "./format.js";
import { BUILT_IN } from "./loader.js";
import { LICENCE, SUGGESTED } from "./suggested.js";
import { fill, texts } from "./texts.js";

/** How the built-in model says that something is beyond it. */
const GAVE_UP = /^Sorry, (?:that is too hard|I do not know)/;

/** @import { Probe, ProbedModel } from "./tabloom/index.js" */

/**
 * What this device makes of the suggested models. The best is the largest that fits surely, or else the smallest
 * that may fit; null where none does.
 */
export async function suggestions() {
  const models = SUGGESTED.map(({ address, bytes }) => ({ model: address, bytes }));
  const probe = await Engine.probe({ models });
  const fits =
    (/** @type {string} */ how) =>
    (/** @type {{fits: string}} */ { fits }) =>
      fits === how;
  let i = probe.models.findLastIndex(fits("yes"));
  if (i < 0) i = probe.models.findIndex(fits("perhaps"));
  // The CPU runs the smallest.
  if (!probe.gpu.available || probe.gpu.software) i = 0;
  const all = SUGGESTED.map((model, i) => {
    const probed = probe.models[i];
    return { ...model, memory: probed.neededBytes ?? model.bytes, fit: fit(probed, probe.memory) };
  });
  return { all, best: all[i] ?? null };
}

/**
 * Whether a model is likely to fit, in words.
 *
 * @param {Pick<ProbedModel, "neededBytes" | "storable">} model
 * @param {Probe["memory"]} memory
 */
export function fit({ neededBytes, storable }, { deviceBytes, budgetBytes }) {
  const needed = neededBytes ?? 0;
  if (needed > budgetBytes) return fill(texts.fit.large, { bytes: formatBytes(budgetBytes) });
  if (deviceBytes && needed > deviceBytes / 2) return fill(texts.fit.tight, { memory: deviceBytes / 2 ** 30 });
  if (storable === null) return texts.fit.unknown;
  return storable ? texts.fit.kept : texts.fit.notKept;
}

/**
 * What a model takes, in words.
 *
 * @param {{name: string, bytes: number, memory: number}} model
 */
function costs({ name, bytes, memory }) {
  const { downlink } = /** @type {any} */ (navigator).connection ?? {};
  const minutes = downlink > 0 ? Math.ceil((bytes * 8) / (downlink * 1e6) / 60) : 0;
  const values = { name, bytes: formatBytes(bytes), memory: formatBytes(memory), licence: LICENCE };
  const { costs, costsTime } = texts.better;
  return minutes ? fill(costsTime, { ...values, minutes, speed: downlink }) : fill(costs, values);
}

/** Offers a better model at the welcome, and after an answer in which the built-in one gives up. */
export class Better {
  #loader;
  #chat;
  #place = $("better");

  /**
   * @param {import("./loader.js").Loader} loader
   * @param {import("./chat.js").Chat} chat
   */
  constructor(loader, chat) {
    this.#loader = loader;
    this.#chat = chat;
    loader.addEventListener("change", () => this.#update());
    chat.addEventListener("change", () => this.#update());
    chat.addEventListener("show", () => this.#update());
    for (const type of ["online", "offline"]) addEventListener(type, () => this.#update());
  }

  async #update() {
    const { messages } = this.#chat.conversation;
    const [question, answer] = messages.slice(-2);
    // The built-in model makes nothing of a text that it is asked about.
    const attached = question?.role === "user" && unquote(question.content).quotes.length > 0;
    const gaveUp = answer?.role === "assistant" && (attached || GAVE_UP.test(answer.content)) && !this.#chat.busy;
    const builtIn = this.#loader.source === BUILT_IN && Boolean(this.#loader.current);
    const wanted = builtIn && navigator.onLine && (messages.length === 0 || gaveUp);
    this.#place.hidden = !wanted;
    if (!wanted) return;
    if (!this.#place.hasChildNodes()) await this.#fill();
    if (!this.#place.hasChildNodes()) this.#place.hidden = true;
    if (messages.length === 0) $("suggestions").after(this.#place);
    else $("speed").after(this.#place);
    this.#place.slot = messages.length === 0 ? "" : "footer";
  }

  async #fill() {
    const { best: model } = await suggestions();
    if (!model || this.#place.hasChildNodes()) return;
    const use = () => this.#chat.use(model.address);
    this.#place.append(
      button(texts.better.get, use, { class: "primary", "aria-describedby": "better-costs" }),
      html("span", { id: "better-costs" }, costs(model)),
    );
  }
}
