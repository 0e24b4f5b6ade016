import { html, icon } from "../dom.js";
import { fill } from "../fill.js";
import { quote, unquote } from "../quotes.js";
import { ALL as TEXTS } from "./later.js";
import { adoptStyle } from "./quoted-style.js";
import { showTokens, sizeOf, tokensOf } from "./sizes.js";

/** @import { Quote } from "../quotes.js" */
/** @import { Owner } from "./types.js" */

/**
 * Where it is shown what is attached.
 *
 * @typedef {object} Place
 * @property {HTMLElement} list
 * @property {HTMLElement} area where files can be dropped
 * @property {Owner} view
 * @property {string} over what to say of a question that is longer than the model's context
 */

const CROSS = "M7 7l10 10M17 7 7 17";
/** Lines of text, of which the last is short. */
const LINES = "M5 7h14M5 12h14M5 17h8";

/** Most characters, and bytes of files, that are attached together. */
const MOST = 1_000_000;

/** Most sentences on files that are refused. */
const SENTENCES = 3;

/** Shows what is attached, with its length in tokens, and reads what is to be. */
export class Tray {
  #attachments;
  /** @type {Quote[]} */
  #quotes = [];
  /** Stands for the last count. */
  #counting = {};

  /** @param {Place} attachments */
  constructor(attachments) {
    this.#attachments = attachments;
    const { list, area } = attachments;
    adoptStyle(list);
    area.dataset.drop = TEXTS.drop;
    list.ariaLabel = TEXTS.attachments;
    area.addEventListener("dragleave", ({ relatedTarget }) => {
      if (!area.contains(/** @type {Node | null} */ (relatedTarget))) this.drag("leave", []);
    });
    list.addEventListener("keydown", ({ key, target }) => {
      const item = /** @type {Element} */ (target).closest("li");
      if (item && ["Delete", "Backspace"].includes(key)) this.#remove([...list.children].indexOf(item));
    });
  }

  /** The question: what is attached, and the text of the input. */
  get content() {
    return quote(this.#quotes, this.#attachments.view.input.value);
  }

  /** @param {string} content of a question, for the composer */
  write(content) {
    const { quotes, text } = unquote(content);
    this.#attachments.view.input.value = text;
    this.#show(quotes);
  }

  /**
   * @param {string} type of the event
   * @param {File[]} files
   */
  drag(type, files) {
    const { area, view } = this.#attachments;
    area.classList.toggle("dropping", type === "dragover");
    if (files.length === 0) return;
    view.input.focus({ preventScroll: true });
    this.read(files);
  }

  /** @param {File[]} files */
  async read(files) {
    /** @type {string[]} */
    const refused = [];
    for (const file of files) {
      const { name, size } = file;
      try {
        if (!this.#fits(size)) throw new Error(TEXTS.tooLong);
        this.#add(name, textOf(await bytesOf(file), file.type));
      } catch (/** @type {any} */ error) {
        refused.push(fill(error.message, { name, limit: limit() }));
      }
    }
    if (refused.length > SENTENCES) refused.splice(SENTENCES, Infinity, "…");
    this.#attachments.view.tell(refused.join("\n"));
  }

  /** @param {string} text to attach */
  paste(text) {
    const name = TEXTS.pasted;
    if (this.#fits(text.length)) this.#add(name, text);
    else this.#attachments.view.tell(fill(TEXTS.tooLong, { name, limit: limit() }));
  }

  /** @param {Quote[]} quotes that are attached now */
  #show(quotes) {
    const { list, view } = this.#attachments;
    this.#quotes = quotes;
    list.replaceChildren(...quotes.map((quote, i) => this.#chip(quote, i)));
    list.hidden = quotes.length === 0;
    // The newest is in sight.
    list.scrollTop = list.scrollHeight;
    this.#attachments.over = "";
    view.tell("");
  }

  /** Counts the tokens of what is attached, and of all that the model would be told, once there is an engine. */
  async count() {
    const { area, view } = this.#attachments;
    const { content } = this;
    const engine = view.actions.engine();
    const counting = (this.#counting = {});
    if (!engine) return;
    showTokens(area, engine);
    let count = 0;
    const { context } = engine.info;
    try {
      for (const quote of this.#quotes) count += await tokensOf(quote, engine);
      const told = (/** @type {string} */ content) =>
        engine.countTokens(view.actions.prompt([{ role: "user", content }]));
      // What is attached and too much by itself is not read anew with each letter.
      if (count >= context) count += await engine.countTokens(view.input.value, { addSpecialTokens: false });
      else if (content) count = await told(content);
      // What comes with every question may be too much: then a request says so.
      if (count >= context && (await told("x")) >= context) count = 0;
    } catch {
      // Where it fails, a request will say why.
      count = 0;
    }
    if (this.#counting !== counting) return;
    const over = count < context ? "" : fill(TEXTS.over, { count, context });
    if (this.#attachments.over === over) return;
    this.#attachments.over = over;
    view.refresh();
  }

  /** @param {number} length of what is to be attached, too */
  #fits(length) {
    return this.#quotes.reduce((sum, { text }) => sum + text.length, length) <= MOST;
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  #add(name, text) {
    this.#show([...this.#quotes, { name, text: text.replace(/\r\n?/g, "\n") }]);
    this.#attachments.view.announce(fill(TEXTS.attached, { name }));
  }

  /** @param {number} i */
  #remove(i) {
    const { view, list } = this.#attachments;
    const quotes = this.#quotes;
    this.#show(quotes.filter((_, at) => at !== i));
    const next = list.children[Math.min(i, quotes.length - 2)];
    /** @type {HTMLElement} */ (next?.querySelector("[part=detach]") ?? view.input).focus();
  }

  /**
   * Turns a pasted text back into text of the input.
   *
   * @param {number} i
   */
  #write(i) {
    const { input } = this.#attachments.view;
    const { text } = this.#quotes[i];
    this.#remove(i);
    const { value, selectionStart, selectionEnd } = input;
    const [before, after] = [value.slice(0, selectionStart), value.slice(selectionEnd)];
    // It stands in lines of its own.
    const [start, end] = [/[^\n]$/.test(before) ? "\n" : "", /^[^\n]/.test(after) ? "\n" : ""];
    input.setRangeText(`${start}${text}${end}`, selectionStart, selectionEnd, "end");
    input.dispatchEvent(new Event("input"));
    input.focus();
  }

  /**
   * @param {Quote} quote
   * @param {number} i
   */
  #chip(quote, i) {
    const { name } = quote;
    const chip = html("li", { part: "attachment" }, html("b", { dir: "auto", title: name }, name), sizeOf(quote));
    if (name === TEXTS.pasted) chip.append(action("as-text", LINES, TEXTS.asText, () => this.#write(i)));
    chip.append(action("detach", CROSS, fill(TEXTS.detach, { name }), () => this.#remove(i)));
    return chip;
  }
}

/**
 * @param {string} part
 * @param {string} path
 * @param {string} label
 * @param {() => void} onClick
 */
function action(part, path, label, onClick) {
  const button = html("button", { type: "button", class: "icon", part, "aria-label": label, title: label }, icon(path));
  button.addEventListener("click", onClick);
  return button;
}

/** @param {File} file */
async function bytesOf(file) {
  try {
    return await file.arrayBuffer();
  } catch {
    throw new Error(TEXTS.unreadable);
  }
}

/**
 * @param {ArrayBuffer} bytes
 * @param {string} type
 */
function textOf(bytes, type) {
  if (bytes.byteLength === 0) throw new Error(TEXTS.emptyFile);
  const text = unicode(bytes) ?? (type.startsWith("image/") ? "" : western(bytes));
  // One may be written in letters alone.
  if (new TextDecoder().decode(bytes.slice(0, 5)) === "%PDF-") throw new Error(TEXTS.pdf);
  if (text.trim() && !text.includes("\0")) return text;
  throw new Error(type.startsWith("image/") ? TEXTS.picture : TEXTS.noText);
}

/**
 * A text in UTF-8, or in UTF-16 with its mark; undefined where it is neither.
 *
 * @param {ArrayBuffer} bytes
 */
function unicode(bytes) {
  const mark = String(new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength)));
  const encoding = { "255,254": "utf-16le", "254,255": "utf-16be" }[mark] ?? "utf-8";
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * A text as programs write it that know no Unicode; empty where it has what no text has.
 *
 * @param {ArrayBuffer} bytes
 */
function western(bytes) {
  const text = new TextDecoder("windows-1252").decode(bytes);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for them
  return /[\0-\x08\x0e-\x1f]/.test(text) ? "" : text;
}

function limit() {
  return new Intl.NumberFormat(TEXTS.locale, { style: "unit", unit: "megabyte" }).format(MOST / 1e6);
}
