// A way from the small built-in model to a good one, among those that this device can be expected to run.
import { unquote } from "./tabloom/element/parts.js";
import { Engine } from "./tabloom/index.js";
import { $, html, write } from "./dom.js";
import { duration, formatBytes } from "./format.js";
import { BUILT_IN } from "./loader.js";
import { SUGGESTED } from "./suggested.js";
import { fill, number, texts } from "./texts.js";

/** @import { Probe, ProbedModel } from "./tabloom/index.js" */

/** How the built-in model says that something is beyond it. */
const GAVE_UP = /^Sorry, (?:that is too hard|I do not know)/;

/** From this share of its context on, the built-in model loses the thread. */
const LONG = 0.6;

/**
 * What this device makes of the suggested models, and which of them it can be expected to run. The best is the largest
 * that fits surely, or else the largest that is on the device already, or the smallest; null where none may fit.
 *
 * @param {Pick<import("./loader.js").Loader, "onCpu">} loader
 */
export async function suggestions(loader) {
  const models = SUGGESTED.map(({ address, bytes }) => ({ model: address, bytes }));
  const probe = await Engine.probe({ models });
  const all = SUGGESTED.map((model, i) => {
    const probed = probe.models[i];
    const { neededBytes, fits, stored } = probed;
    return { ...model, memory: neededBytes ?? model.bytes, fit: fit(probed, probe.memory), fits, stored };
  });
  // The probe is of the GPU. The CPU is quick enough for the smallest.
  const onCpu = loader.onCpu || !probe.gpu.available || probe.gpu.software;
  const fitting = all.filter(({ gpu, memory, fits }) =>
    onCpu ? !gpu && memory <= probe.memory.budgetBytes : fits !== "no",
  );
  const surely = onCpu ? undefined : all.findLast(({ fits }) => fits === "yes");
  const best = surely ?? fitting.findLast(({ stored }) => stored) ?? fitting[0] ?? null;
  return { all, fitting, best, onCpu };
}

/**
 * Whether a model is likely to fit, in words.
 *
 * @param {Pick<ProbedModel, "neededBytes" | "storable"> & {stored?: boolean}} model
 * @param {Probe["memory"]} memory
 */
export function fit({ neededBytes, storable, stored }, { deviceBytes, budgetBytes }) {
  const needed = neededBytes ?? 0;
  if (needed > budgetBytes) return fill(texts.fit.large, { bytes: formatBytes(budgetBytes) });
  if (deviceBytes && needed > deviceBytes / 2) return fill(texts.fit.tight, { memory: deviceBytes / 2 ** 30 });
  if (stored) return "";
  if (storable === null) return texts.fit.unknown;
  return storable ? texts.fit.kept : texts.fit.notKept;
}

/**
 * What a model takes, in words.
 *
 * @param {{bytes: number, memory: number, about: keyof typeof texts.models, licence: string, stored: boolean}} model
 * @param {number} rate bytes per second of the last download, or 0
 */
export function costs({ bytes, memory, about, licence, stored }, rate) {
  // Browsers that say so say less than is so.
  const { downlink = 0 } = /** @type {any} */ (navigator).connection ?? {};
  const measured = rate ? (rate * 8) / 1e6 : downlink;
  // More digits would promise too much.
  const speed = Number(measured.toPrecision(2));
  const values = {
    bytes: formatBytes(bytes),
    memory: formatBytes(memory),
    licence,
    about: texts.models[about],
  };
  const { costs, costsTime, costsKept } = texts.better;
  if (stored) return fill(costsKept, values);
  if (!(speed > 0)) return fill(costs, values);
  return fill(costsTime, { ...values, time: duration((bytes * 8) / (speed * 1e6)), speed: number(speed) });
}

/**
 * Offers a better model at the welcome, after an answer in which the built-in one gives up, and in a conversation that
 * is long for it.
 */
export class Better {
  #loader;
  #chat;
  #place = $("better");
  #dialog = $("upgrade");
  /** @type {ReturnType<typeof suggestions> | undefined} */
  #suggestions;

  /**
   * @param {import("./loader.js").Loader} loader
   * @param {import("./chat.js").Chat} chat
   */
  constructor(loader, chat) {
    this.#loader = loader;
    this.#chat = chat;
    loader.addEventListener("change", () => {
      // What was downloaded is on the device now.
      this.#suggestions = undefined;
      this.#update();
    });
    for (const type of ["change", "show", "count"]) chat.addEventListener(type, () => this.#update());
    for (const type of ["online", "offline"]) addEventListener(type, () => this.#update());
    $("get-better").addEventListener("click", () => this.#open());
    $("anew").addEventListener("click", (/** @type {UIEvent} */ { detail }) =>
      $("clear").dispatchEvent(new MouseEvent("click", { detail })),
    );
    $("enough").title = $("enough").ariaLabel = texts.chat.dismiss;
    $("enough").addEventListener("click", (/** @type {UIEvent} */ event) => {
      this.#chat.conversation.enough = true;
      this.#chat.keep();
      this.#chat.focus(event);
    });
    for (const id of ["close-upgrade", "cancel-upgrade"]) $(id).addEventListener("click", () => this.#dialog.close());
    $("upgrade-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#dialog.close();
      this.#chat.use(`${new FormData($("upgrade-form")).get("model")}`);
    });
  }

  async #update() {
    const builtIn = () => this.#loader.source === BUILT_IN && Boolean(this.#loader.current);
    const best = builtIn() ? await this.#best() : null;
    // What is so now, and was not before.
    const { messages, enough } = this.#chat.conversation;
    const [question, answer] = messages.slice(-2);
    // The built-in model makes nothing of a text that it is asked about.
    const attached = question?.role === "user" && unquote(question.content).quotes.length > 0;
    const gaveUp = answer?.role === "assistant" && (attached || GAVE_UP.test(answer.content)) && !this.#chat.busy;
    const welcome = messages.length === 0;
    const long = builtIn() && !welcome && this.#chat.share >= LONG && !enough;
    const loadable = best !== null && (best.stored || navigator.onLine);
    const offered = builtIn() && loadable && (welcome || gaveUp || long);
    $("get-better").hidden = !offered;
    const unreachable = best && welcome && !loadable;
    $("unreachable").hidden = !unreachable;
    write($("unreachable"), unreachable ? texts.picker.offline : "");
    for (const id of ["long", "anew", "enough"]) $(id).hidden = !long;
    const mayBe = welcome && this.#loader.source === BUILT_IN;
    this.#place.hidden = !mayBe && !offered && !long;
    this.#place.slot = welcome ? "" : "offer";
    const before = $(welcome ? "suggestions" : "speed");
    // What stays where it is keeps the focus.
    if (before.nextElementSibling !== this.#place) before.after(this.#place);
  }

  async #best() {
    this.#suggestions ??= suggestions(this.#loader);
    return (await this.#suggestions).best;
  }

  /** Shows what would be loaded, and lets the visitor choose. */
  async #open() {
    const { fitting, best, onCpu } = await suggestions(this.#loader);
    write($("slow"), onCpu ? texts.picker.memoryOnCpu : "");
    const loadable = fitting.filter(({ stored }) => stored || navigator.onLine);
    $("upgrades").replaceChildren(...loadable.map((model) => choice(model, model === best, this.#loader.rate)));
    this.#dialog.showModal();
    $("upgrades").querySelector(":checked")?.focus();
  }
}

/**
 * A model to choose.
 *
 * @param {Awaited<ReturnType<typeof suggestions>>["all"][number]} model
 * @param {boolean} best
 * @param {number} rate
 */
function choice(model, best, rate) {
  const { name, address, fit } = model;
  const radio = html("input", { type: "radio", name: "model", value: address, required: "" });
  radio.checked = best;
  const about = html("span", { class: "hint" }, `${costs(model, rate)} ${fit}`.trim());
  const marked = best ? [html("span", { class: "recommended" }, texts.better.recommended)] : [];
  return html("li", {}, html("label", {}, radio, html("span", {}, html("strong", {}, name), ...marked, about)));
}
