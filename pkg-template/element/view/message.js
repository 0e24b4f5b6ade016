import { html, icon } from "../dom.js";
import { AGAIN, COPY, PENCIL } from "../icons.js";
import { Rendered } from "../prose/render.js";
import { TEXTS } from "../texts.js";

/** A question or an answer, as it is shown. */
export class Message {
  /** What was said. */
  content = "";
  /** @readonly */
  element;
  #text;
  #actions = html("div", { class: "actions", part: "actions" });
  /** @type {Rendered | null} */
  #rendered = null;
  /** @type {HTMLElement | null} what stands for an answer that has not begun */
  #dots = null;
  #growing = false;
  #frame = 0;
  /** @type {(text: string) => void} told what can be read out, in pieces that stay as they are */
  #onFinal;

  /**
   * @param {"user" | "assistant"} role
   * @param {(text: string) => void} [onFinal]
   */
  constructor(role, onFinal = () => {}) {
    this.#onFinal = onFinal;
    this.#text = html("div", { class: "text", part: "text", dir: "auto" });
    this.element = html("article", { class: `message ${role}`, part: `message ${role}` }, this.#text);
    this.element.setAttribute("aria-label", TEXTS[role]);
    if (role === "assistant") {
      // Read out in whole pieces, elsewhere.
      this.#text.setAttribute("aria-live", "off");
      this.#rendered = new Rendered(this.#text);
    }
    const actions = role === "user" ? [["edit", PENCIL]] : [["copy", COPY]];
    for (const [name, path] of [...actions, ["again", AGAIN]]) this.#actions.append(action(name, path));
    this.element.append(this.#actions);
  }

  /**
   * Shows all of a text.
   *
   * @param {string} content
   */
  set(content) {
    this.content = content;
    this.#show();
  }

  /** An answer is about to come. */
  begin() {
    this.#growing = true;
    this.#actions.hidden = true;
    this.#dots = html("div", { class: "dots", part: "waiting", "aria-hidden": "true" });
    this.#dots.append(html("i"), html("i"), html("i"));
    this.#text.before(this.#dots);
  }

  /**
   * Goes on with an answer; what comes within a frame is shown together.
   *
   * @param {string} piece
   * @param {() => void} onShow
   */
  add(piece, onShow) {
    this.content += piece;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#show();
      onShow();
    });
  }

  /** The answer has ended. */
  end() {
    cancelAnimationFrame(this.#frame);
    this.#growing = false;
    this.#actions.hidden = false;
    this.#dots?.remove();
    this.#show();
  }

  /**
   * Adds what was not said.
   *
   * @param {string} text
   */
  note(text) {
    this.#text.after(html("p", { class: "note", part: "note" }, text));
  }

  /**
   * Tells whether the message is the last question, or its answer, and what can be done to it.
   *
   * @param {boolean} recent
   * @param {{edit: boolean, again: boolean}} possible
   */
  mark(recent, possible) {
    this.element.classList.toggle("recent", recent);
    const shown = { copy: true, ...possible };
    for (const button of /** @type {Iterable<HTMLElement>} */ (this.#actions.children)) {
      button.hidden = !shown[/** @type {keyof typeof shown} */ (button.dataset.do)];
    }
  }

  #show() {
    if (this.content) this.#dots?.remove();
    if (!this.#rendered) return void (this.#text.textContent = this.content);
    const final = this.#rendered.show(this.content, this.#growing);
    if (final) this.#onFinal(final);
  }
}

/**
 * @param {string} name
 * @param {string} path
 */
function action(name, path) {
  const label = TEXTS[/** @type {"copy" | "again" | "edit"} */ (name)];
  const attributes = { type: "button", class: "icon", part: `action ${name}`, "data-do": name };
  return html("button", { ...attributes, "aria-label": label, title: label }, icon(path));
}
