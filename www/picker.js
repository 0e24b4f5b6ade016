// Chooses the model: the built-in one, one that is kept, one of Hugging Face, or the visitor's own.
import { sentenceOf } from "./tabloom/element/parts.js";
import { Engine } from "./tabloom/index.js";
import { refusal, sourceOf } from "./addresses.js";
import { $, button, html, write } from "./dom.js";
import { formatBytes, percent } from "./format.js";
import { costs, suggestions } from "./better.js";
import { isSaved } from "./exchange.js";
import { BUILT_IN, modelName } from "./loader.js";
import { fill, texts } from "./texts.js";

const TEXTS = texts.picker;

/** Files that a model has, and nothing else; its others are texts. */
const WEIGHTS = /\.(?:gguf|safetensors)$/i;

/** The dialog in which visitors choose a model. */
export class Picker {
  #loader;
  #chat;
  #conversations;
  #dialog = $("picker");

  /**
   * @param {import("./loader.js").Loader} loader
   * @param {import("./chat.js").Chat} chat
   * @param {import("./conversations.js").Conversations} conversations
   */
  constructor(loader, chat, conversations) {
    this.#loader = loader;
    this.#chat = chat;
    this.#conversations = conversations;
    for (const type of ["change", "progress"]) loader.addEventListener(type, () => this.#name());
    $("choose").addEventListener("click", () => this.#open());
    const again = () => this.#dialog.open && this.#list();
    loader.addEventListener("change", again);
    for (const type of ["online", "offline"]) addEventListener(type, again);
    $("close-picker").addEventListener("click", () => this.#dialog.close());
    $("by-address").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#enter(sourceOf($("address").value));
    });
    $("address").addEventListener("input", () => refuse(""));
    for (const picker of [$("file"), $("folder")]) {
      picker.addEventListener("change", () => {
        const files = /** @type {File[]} */ (Array.from(picker.files));
        // The same can be chosen again.
        picker.value = "";
        if (files.length > 0) this.#use(files);
      });
    }
    document.addEventListener("dragover", (event) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    });
    // Before the chat, which would take models for texts.
    document.addEventListener("drop", (event) => this.#drop(event), { capture: true });
    this.#name();
  }

  /** @param {DragEvent} event */
  async #drop(event) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    const given = await dropped(event.dataTransfer);
    const isModel = given.some(({ name, webkitRelativePath }) => webkitRelativePath || WEIGHTS.test(name));
    if (isModel) return this.#use(given);
    this.#dialog.close();
    const saved = await Promise.all(given.map(isSaved));
    const [conversations, texts] = [true, false].map((is) => given.filter((_, i) => saved[i] === is));
    // In this order: what is imported has a composer of its own.
    if (conversations.length > 0) {
      $("tab-chat").click();
      await this.#conversations.import(conversations);
    }
    if (texts.length > 0) this.#chat.attach(texts);
  }

  /** @param {string} source a name or an address; what can be none is told beside it */
  #enter(source) {
    const why = refusal(source);
    refuse(why);
    if (!why) this.#use(source);
  }

  /** @param {import("./tabloom/index.js").ModelSource} source */
  #use(source) {
    this.#dialog.close();
    this.#chat.use(source);
  }

  /** Shows the present model, or the one that is loaded, and how far it is. */
  #name() {
    const { current, name, next, progress } = this.#loader;
    const { stage, loaded = 0, total = 0 } = progress ?? {};
    const part = total > 0 ? fill(TEXTS.part, { part: percent(loaded / total) }) : TEXTS.loading;
    const loading = stage === "compile" ? TEXTS.preparing : part;
    write($("model-name"), next ?? name);
    write($("model-size"), progress || next ? loading : current ? formatBytes(current.info.weightBytes) : "");
  }

  #open() {
    this.#dialog.showModal();
    this.#list();
  }

  async #list() {
    const [kept, storage, { all, best, onCpu }] = await Promise.all([
      Engine.store.list(),
      Engine.store.size(),
      suggestions(this.#loader),
    ]);
    const { usage = 0, quota } = storage;
    const room =
      quota === undefined ? TEXTS.unknownRoom : fill(TEXTS.room, { bytes: formatBytes(Math.max(0, quota - usage)) });
    const { memory, memoryOnCpu } = TEXTS;
    write($("room"), [room, onCpu ? memoryOnCpu : memory, navigator.onLine ? "" : TEXTS.offline].join(" "));

    const address = new URL(BUILT_IN, location.href).href;
    const others = kept.filter(({ model }) => model !== address);
    const { source, current, name } = this.#loader;
    const builtIn = entry(texts.loader.builtIn, TEXTS.withPage, () => this.#use(BUILT_IN), source === BUILT_IN);
    const present = current?.info.model;
    const listed = [address, ...others.map(({ model }) => model), ...all.map(({ address }) => address)];
    const bytes = formatBytes(current?.info.weightBytes ?? 0);
    const alone =
      present === undefined || listed.includes(present) ? [] : [entry(name, fill(TEXTS.notKept, { bytes }))];
    $("kept").replaceChildren(
      builtIn,
      ...alone,
      ...others.map((model) => this.#kept(model, model.model === present, model.model === best?.address)),
    );

    const here = new Set(others.filter(({ complete }) => complete).map(({ model }) => model));
    const rest = all.filter(({ address }) => !here.has(address));
    const online = navigator.onLine;
    $("suggested").replaceChildren(
      ...rest.map((model) => {
        const { name, address, fit } = model;
        const text = `${costs(model, this.#loader.rate)} ${fit}`;
        const marked = online && address === best?.address ? fill(TEXTS.recommended, { about: text }) : text;
        const item = entry(name, marked, () => this.#use(address), address === present);
        if (!online) for (const load of item.querySelectorAll("button")) load.disabled = true;
        return item;
      }),
    );
  }

  /**
   * @param {import("./tabloom/index.js").StoredModel} model
   * @param {boolean} present
   * @param {boolean} best
   */
  #kept({ model, bytes, sharedBytes, prefixBytes, complete }, present, best) {
    const name = modelName(model);
    const size = fill(complete ? TEXTS.kept : TEXTS.keptInPart, {
      bytes: formatBytes(bytes + sharedBytes + prefixBytes),
    });
    const about = best ? fill(TEXTS.recommended, { about: size }) : size;
    const item = entry(name, about, () => this.#use(model), present);
    const remove = async () => {
      try {
        await Engine.store.delete(model);
        await this.#list();
        $("close-picker").focus();
      } catch (/** @type {any} */ error) {
        console.warn(error);
        write($("room"), sentenceOf(error));
        $("room").title = error.message;
      }
    };
    item.append(button(TEXTS.delete, remove, { "aria-label": fill(TEXTS.deleteIt, { name }) }));
    return item;
  }
}

/** @param {string} why what is entered is none; empty where it may be one */
function refuse(why) {
  write($("refusal"), why);
  // It may say the same.
  $("about-address").hidden = why === $("about-address").textContent;
  $("address").setAttribute("aria-invalid", `${why !== ""}`);
}

/**
 * @param {string} name
 * @param {string} about
 * @param {() => void} [onClick]
 * @param {boolean} [present] whether it is the model that is used now
 */
function entry(name, about, onClick = () => {}, present = true) {
  const said = present ? fill(TEXTS.inUse, { about }) : about;
  const text = html("div", {}, html("strong", {}, name), html("p", {}, said));
  const load = button(TEXTS.load, onClick, { "aria-label": fill(TEXTS.loadIt, { name }) });
  load.disabled = present;
  const item = html("li", {}, text, load);
  item.setAttribute("aria-current", `${present}`);
  return item;
}

/**
 * The files that were dropped on the page, or those of a folder, each with its path in it.
 *
 * @param {DataTransfer} transfer
 * @returns {Promise<File[]>}
 */
async function dropped({ items, files }) {
  // After the event it is empty.
  const given = Array.from(files);
  const folder = Array.from(items, (item) => item.webkitGetAsEntry()).find((entry) => entry?.isDirectory);
  return folder ? filesOf(folder) : given;
}

/**
 * The files of a folder, with the paths that they would have if it were chosen.
 *
 * @param {any} entry of the folder, or of what is in it
 * @returns {Promise<File[]>}
 */
async function filesOf(entry) {
  try {
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      return [Object.defineProperty(file, "webkitRelativePath", { value: entry.fullPath.slice(1) })];
    }
    const reader = entry.createReader();
    const files = [];
    for (;;) {
      const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (entries.length === 0) return files.flat();
      files.push(...(await Promise.all(entries.map(filesOf))));
    }
  } catch (error) {
    // What cannot be read is missing.
    console.warn(error);
    return [];
  }
}
