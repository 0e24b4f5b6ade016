import { html, icon } from "../dom.js";
import { AGAIN, CHEVRON_LEFT, CHEVRON_RIGHT, COPY, GO_ON, PENCIL, SPEAKER } from "../icons.js";
import { Rendered } from "../prose/render.js";
import { TEXTS } from "../texts.js";
import { QUOTED } from "./attachments.js";

/** @import { TabloomChatMessage } from "../types.js" */
/** @import { Owner } from "./types.js" */

/** A question or an answer. */
export class Message {
  /** @readonly */
  said;
  /** @readonly */
  element;
  /** @readonly */
  text = html("div", { class: "text", part: "text", dir: "auto" });
  #note = html("p", { class: "note", part: "note" });
  #version = html("span");
  #versions = html("span", { class: "versions", part: "versions" });
  #actions = html("div", { class: "actions", part: "actions" });
  /** @type {Rendered | null} */
  #rendered = null;
  /** @type {HTMLElement | null} shown until an answer begins */
  #dots = null;
  #growing = false;
  #frame = 0;
  #view;

  /**
   * @param {TabloomChatMessage} said
   * @param {Pick<Owner, "actions" | "announce">} [view] what it is in, and has it show its text
   */
  constructor(said, view) {
    const { role } = said;
    this.said = said;
    this.#view = view;
    const attributes = { class: `message ${role}`, part: `message ${role}`, "aria-label": TEXTS[role] };
    this.element = html("article", attributes, this.text);
    if (role === "assistant") {
      // Screen readers get whole blocks, elsewhere.
      this.text.ariaLive = "off";
      this.#rendered = new Rendered(this.text);
    }
    if (!view) this.show();
  }

  /** Waits for an answer, or for more of it. */
  begin() {
    this.#growing = true;
    this.#actions.hidden = this.#note.hidden = true;
    this.#dots = html("div", { class: "dots", part: "waiting", "aria-hidden": "true" });
    this.#dots.append(html("i"), html("i"), html("i"));
    this.text.after(this.#dots);
  }

  /** Shows what the message says more than before; the pieces of one frame are shown together. */
  grow() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#dots?.remove();
      this.#tell();
    });
  }

  /** Ends the answer. */
  end() {
    cancelAnimationFrame(this.#frame);
    this.#growing = false;
    this.#actions.hidden = false;
    this.#dots?.remove();
    this.#tell();
  }

  /**
   * Shows what is possible and what is so, beside the text.
   *
   * @param {{recent: boolean, last: boolean, edited: boolean, voice: boolean, busy: boolean}} place recent: the
   *   last question and its answer; voice: whether there is one to read it; busy: whether an answer is awaited
   */
  mark({ recent, last, edited, voice, busy }) {
    const { role, end, versions = [null] } = this.said;
    this.element.classList.toggle("recent", recent);
    this.element.classList.toggle("edited", edited);
    this.#note.hidden = this.#growing || !end;
    this.#note.textContent = TEXTS[/** @type {"full"} */ (end)];
    const at = versions.indexOf(null);
    this.#versions.hidden = versions.length < 2;
    this.#version.textContent = `${at + 1}/${versions.length}`;
    const possible = {
      older: at > 0,
      newer: at < versions.length - 1,
      read: voice,
      continue: last && Boolean(end),
      again: role === "assistant" || last,
    };
    for (const [name, is] of Object.entries(possible)) {
      const button = /** @type {HTMLButtonElement | null} */ (this.#actions.querySelector(`[data-do=${name}]`));
      if (!button) continue;
      button[button.parentNode === this.#versions ? "disabled" : "hidden"] = !is;
      if (name === "read") continue;
      button.ariaDisabled = `${busy}`;
      button.title = busy ? TEXTS.thinking : /** @type {string} */ (button.ariaLabel);
    }
  }

  #tell() {
    // Screen readers get blocks that are final.
    // biome-ignore lint/performance/useDomNodeTextContent: what is read out is what is shown
    const final = this.show().map((node) => /** @type {HTMLElement} */ (node).innerText);
    if (final.length) this.#view?.announce(final.join("\n"));
  }

  /**
   * Shows the text, and with it what can be done.
   *
   * @returns {Element[]} what has become final
   */
  show() {
    const { content } = this.said;
    if (!this.#actions.parentNode) this.#offer();
    if (this.#rendered) return this.#rendered.show(content, this.#growing);
    if (QUOTED.test(content)) {
      import("./folded.js").then(
        ({ showFolded }) => showFolded(this.text, content, this.#view?.actions.engine()),
        () => (this.text.textContent = content),
      );
    } else this.text.textContent = content;
    return [];
  }

  #offer() {
    this.#versions.append(
      action("older", CHEVRON_LEFT, TEXTS.older),
      this.#version,
      action("newer", CHEVRON_RIGHT, TEXTS.newer),
    );
    this.#actions.append(
      this.#versions,
      action("copy", COPY, this.#rendered ? TEXTS.copy : TEXTS.copyQuestion),
      ...(this.#rendered
        ? [action("read", SPEAKER, TEXTS.read), action("continue", GO_ON, TEXTS.continue)]
        : [action("edit", PENCIL, TEXTS.edit)]),
      action("again", AGAIN, TEXTS.again),
    );
    this.element.append(this.#note, this.#actions);
  }
}

/**
 * @param {string} name
 * @param {string} path
 * @param {string} label
 */
function action(name, path, label) {
  const attributes = { type: "button", class: "icon", part: `action ${name}`, "data-do": name };
  return html("button", { ...attributes, "aria-label": label, title: label }, icon(path));
}
