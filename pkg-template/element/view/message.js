import { html, icon } from "../dom.js";
import { AGAIN, COPY, PENCIL } from "../icons.js";
import { Rendered } from "../prose/render.js";
import { TEXTS } from "../texts.js";

/** A question or an answer. */
export class Message {
  content = "";
  /** @readonly */
  element;
  #text;
  #actions = html("div", { class: "actions", part: "actions" });
  /** @type {Rendered | null} */
  #rendered = null;
  /** @type {HTMLElement | null} shown until an answer begins */
  #dots = null;
  #growing = false;
  #frame = 0;
  /** @type {(text: string) => void} called with blocks that are final, for screen readers */
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
      // Screen readers get whole blocks, elsewhere.
      this.#text.setAttribute("aria-live", "off");
      this.#rendered = new Rendered(this.#text);
    }
    const actions = role === "user" ? [["edit", PENCIL]] : [["copy", COPY]];
    for (const [name, path] of [...actions, ["again", AGAIN]]) this.#actions.append(action(name, path));
    this.element.append(this.#actions);
  }

  /** @param {string} content the whole text */
  set(content) {
    this.content = content;
    this.#show();
  }

  /** Waits for an answer. */
  begin() {
    this.#growing = true;
    this.#actions.hidden = true;
    this.#dots = html("div", { class: "dots", part: "waiting", "aria-hidden": "true" });
    this.#dots.append(html("i"), html("i"), html("i"));
    this.#text.before(this.#dots);
  }

  /**
   * Adds a piece of an answer; the pieces of one frame are shown together.
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

  /** Ends the answer. */
  end() {
    cancelAnimationFrame(this.#frame);
    this.#growing = false;
    this.#actions.hidden = false;
    this.#dots?.remove();
    this.#show();
  }

  /** @param {string} text shown below the message */
  note(text) {
    this.#text.after(html("p", { class: "note", part: "note" }, text));
  }

  /**
   * Marks the last question and its answer, and shows the buttons of what is possible.
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
