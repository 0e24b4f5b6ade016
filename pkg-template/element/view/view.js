import { Attachments } from "./attachments.js";
import { grow, html, icon } from "../dom.js";
import { Follower } from "./follower.js";
import { ARROW_DOWN, ARROW_UP, BUBBLE, CLIP, SQUARE, WEAVE } from "../icons.js";
import { Message } from "./message.js";
import { style } from "./style.js";
import { TEXTS } from "../texts.js";

/** @import { TabloomChatMessage } from "../types.js" */
/** @import { Actions } from "./types.js" */

/** Milliseconds after which an announcement is removed, so that a screen reader finds no text twice. */
const SPOKEN = 4_000;

/** Characters of messages that are shown in a frame, with the message that is longer. */
const ROOM = 2_000;

/** A chat's shadow tree, and the visitor's actions in it. */
export class View {
  /** @readonly */
  input = html("textarea", { id: "input", part: "input", rows: "1", dir: "auto", enterkeyhint: "send" });
  /** @readonly */
  actions;
  #root;
  /** @type {Message[]} */
  #messages = [];
  #busy = false;
  /** @type {object | null} the error that is shown */
  #shown = null;
  /** @type {number | null} the message that is being edited */
  #edited = null;
  #forgotten = html("p", { class: "forgotten", part: "forgotten" }, TEXTS.forgotten);

  #start = button("start", "pill primary start", TEXTS.start);
  #empty = html(
    "div",
    { class: "empty", part: "empty" },
    slot("empty", icon(WEAVE), html("p", { class: "title" }, TEXTS.title), html("p", {}, TEXTS.promise)),
    this.#start,
  );
  #list = html("div", { class: "list" });
  #log = html(
    "div",
    { class: "log", part: "log", role: "log", "aria-live": "polite", "aria-label": TEXTS.conversation, tabindex: "0" },
    this.#empty,
    this.#list,
  );
  #follower = new Follower(this.#log, () => this.#offerLatest());
  #latest = iconButton("latest", "round latest", TEXTS.latest, ARROW_DOWN);
  #status = html(
    "div",
    { class: "status", part: "status", hidden: "" },
    html("div", {}, html("span", { id: "stage" }), html("span"), button("stop", "plain", TEXTS.cancel)),
    html("div", { class: "track", part: "progress", role: "progressbar", "aria-labelledby": "stage" }, html("i")),
  );
  #problem = html(
    "div",
    { class: "problem", part: "error", role: "alert", hidden: "" },
    html("p", { class: "title" }, TEXTS.problem),
    html("p"),
    html("div", { class: "buttons" }, button("retry", "pill", TEXTS.retry)),
  );
  #editing = html(
    "p",
    { class: "editing", part: "editing", hidden: "" },
    html("span", {}, TEXTS.editing),
    button("cancel", "plain", TEXTS.cancel),
  );
  #clear = iconButton("clear", "round pale", TEXTS.clear, BUBBLE);
  #send = iconButton("send", "round primary", TEXTS.send, ARROW_UP, "submit");
  #stop = iconButton("stop", "round primary stop", TEXTS.stop, SQUARE);
  /** What was announced last. */
  #told = "";
  #notice = html("p", { class: "notice", part: "notice", hidden: "" });
  #chat = html("div", { class: "chat", part: "chat" });
  /** @readonly */
  attachments = new Attachments(this, this.#chat);
  #composer = html(
    "form",
    { class: "composer", part: "composer" },
    this.attachments.list,
    this.#clear,
    html("label", { for: "input", class: "unseen" }, TEXTS.input),
    this.input,
    iconButton("attach", "round pale", TEXTS.attach, CLIP),
    this.attachments.picker,
    this.#send,
    this.#stop,
  );
  #voice = html("div", { class: "unseen", "aria-live": "polite" });

  /**
   * @param {ShadowRoot} root
   * @param {Actions} actions
   */
  constructor(root, actions) {
    this.#root = root;
    this.actions = actions;
    root.adoptedStyleSheets = [style()];
    const foot = html("div", { class: "foot", part: "foot" });
    const footer = html("div", {}, slot("footer"));
    foot.append(this.#problem, this.#editing, this.#notice, this.#composer, this.#voice, footer);
    this.#chat.append(slot("header"), html("div", { class: "frame" }, this.#log, this.#status, this.#latest), foot);
    root.append(this.#chat);
    this.placeholder = null;
    this.#listen();
    const { webkitSpeechRecognition, SpeechRecognition = webkitSpeechRecognition } = /** @type {any} */ (globalThis);
    // Elsewhere, browsers send to a server what they hear.
    if (SpeechRecognition?.available) {
      import("./dictation.js").then(({ addDictation }) => addDictation(SpeechRecognition, this));
    }
    this.refresh();
  }

  /** @param {string | null} text */
  set placeholder(text) {
    this.input.placeholder = text ?? TEXTS.placeholder;
  }

  /** @param {boolean} shown whether there is anything to start */
  set startable(shown) {
    const cancelled = shown && this.#start.hidden && !this.#status.hidden;
    this.#start.hidden = !shown;
    // It is where the log ends.
    if (cancelled && !this.last) this.#follower.stayAt(this.#log.scrollHeight);
  }

  /** @param {boolean} busy whether an answer can be stopped */
  set busy(busy) {
    // A page's own suggestions are outside of the shadow tree.
    const focused = this.#root.activeElement ?? this.#root.host.querySelector(":focus");
    this.#busy = busy;
    this.refresh();
    // If the focused button is gone, the input gets the focus, or what opens no keyboard.
    if (focused?.checkVisibility?.({ visibilityProperty: true }) === false) {
      (isTouched() ? this.#log : this.input).focus({ preventScroll: true });
    }
  }

  /** @param {boolean} busy whether there is an answer that grows */
  set answering(busy) {
    this.#log.setAttribute("aria-busy", `${busy}`);
  }

  /** @param {boolean} loading whether the model is being loaded */
  set loading(loading) {
    if (!loading) this.progress(null);
    else if (this.#status.hidden) this.progress({ stage: "", loaded: 0, total: 0 });
  }

  /** The last message that is shown. */
  get last() {
    return /** @type {Message} */ (this.#messages.at(-1));
  }

  /** @param {TabloomChatMessage} said */
  add(said) {
    this.show([said]);
    return this.last;
  }

  /** @param {TabloomChatMessage[]} messages that come after those that are shown */
  show(messages) {
    const added = messages.map((said) => new Message(said, this));
    this.#messages.push(...added);
    // What was said before is not read out; it is there to be read.
    this.#log.ariaLive = messages.length > 1 ? "off" : "polite";
    this.#list.append(...added.map(({ element }) => element));
    this.#draw(added);
  }

  /**
   * Shows what messages say, from the last on: what a frame has time for, then the others.
   *
   * @param {Message[]} messages
   */
  #draw(messages) {
    for (let room = ROOM; room > 0 && messages.length > 0; ) {
      const message = /** @type {Message} */ (messages.pop());
      // It may have been removed meanwhile.
      if (message.element.parentNode) message.show();
      room -= message.said.content.length;
    }
    if (messages.length > 0) requestAnimationFrame(() => this.#draw(messages));
    this.refresh();
  }

  /** @param {number} from the first message to remove */
  cut(from) {
    if (from === 0) {
      this.forgotten = 0;
      this.#told = "";
    }
    this.hush();
    for (const { element } of this.#messages.splice(from)) element.remove();
    this.refresh();
  }

  /** Scrolls to the end, wherever the reader is. */
  toEnd() {
    if (this.last) this.#follower.toEnd();
    else this.#follower.stayAt(0);
  }

  /** @param {{stage: string, loaded: number, total: number} | null} progress null when nothing is being loaded */
  progress(progress) {
    this.#status.hidden = !progress;
    if (progress) {
      import("./amount.js").then(
        ({ showAmount }) => showAmount(this.#status, progress),
        () => {},
      );
    }
  }

  /** @param {any} error null if there is none */
  async problem(error) {
    // Screen readers should read an error once.
    if (error === this.#shown) return;
    this.#shown = error;
    this.#problem.hidden = true;
    if (error) {
      await import("./problems.js").then(
        ({ showProblem }) => showProblem(this.#problem, error),
        () => (this.#problem.children[1].textContent = error.message),
      );
      if (error !== this.#shown) return;
    }
    this.#problem.hidden = !error;
    this.refresh();
  }

  /** @param {number | null} i the question that what is sent is a version of */
  set editing(i) {
    this.#edited = i;
    this.#editing.hidden = i === null;
    this.refresh();
  }

  /** @param {number} count of the first messages that the model no longer sees */
  set forgotten(count) {
    if (count === 0) this.#forgotten.remove();
    else this.#messages[count].element.before(this.#forgotten);
  }

  /** The question as it is in the composer: what is attached, and the text of the input. */
  get content() {
    return this.attachments.content;
  }

  set content(content) {
    this.attachments.content = content;
    this.refresh();
    grow(this.input);
  }

  /** @param {string} [text] for the visitor, above the input, until the next action */
  tell(text = TEXTS.problem) {
    this.#told = text;
    this.refresh();
  }

  /**
   * Tells the visitor where something cannot be done.
   *
   * @param {Promise<unknown>} action for which something is loaded first
   */
  attempt(action) {
    action.catch((error) => {
      console.warn(error);
      this.tell();
    });
  }

  /** Stops reading aloud; says whether anything was read. */
  hush() {
    const reading = this.#list.querySelector("[aria-pressed=true]");
    if (!reading) return false;
    reading.ariaPressed = "false";
    speechSynthesis.cancel();
    return true;
  }

  /** @param {string} text for screen readers */
  announce(text) {
    const said = html("p", {}, text);
    this.#voice.append(said);
    setTimeout(() => said.remove(), SPOKEN);
  }

  /** Updates what depends on what is shown and written. */
  refresh() {
    const last = this.#messages.length - 1;
    const question = this.#messages.findLastIndex(({ said }) => said.role === "user");
    // Voices that are not the device's would send the text to a server.
    const voice = Boolean(globalThis.speechSynthesis?.getVoices().some(({ localService }) => localService));
    for (const [i, message] of this.#messages.entries()) {
      message.mark({ voice, busy: this.#busy, recent: i >= question, last: i === last, edited: i === this.#edited });
    }
    this.#empty.hidden = last >= 0;
    this.#clear.hidden = last < 0;
    const { list, over } = this.attachments;
    const said = `${this.#told} ${over}`.trim();
    if (said && said !== this.#notice.textContent) this.announce(said);
    this.#notice.textContent = said;
    this.#notice.hidden = !said;
    this.#send.disabled = over !== "" || (list.hidden && this.input.value.trim() === "");
    this.#send.hidden = this.#busy && this.#send.disabled;
    this.#stop.hidden = !this.#busy;
    this.#offerLatest();
    this.attachments.refresh();
    this.#chat.classList.toggle("busy", this.#busy);
  }

  #listen() {
    this.#root.addEventListener("click", (event) => this.#clicked(/** @type {MouseEvent} */ (event)));
    this.#composer.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#send.disabled) return;
      this.#told = "";
      this.actions.send();
    });
    // The input keeps the focus, and a phone its keyboard.
    this.#send.addEventListener("mousedown", (event) => event.preventDefault());
    this.input.addEventListener("input", () => {
      this.refresh();
      grow(this.input);
    });
    this.#root.addEventListener("keydown", (event) => this.#pressed(/** @type {KeyboardEvent} */ (event)));
  }

  /** @param {MouseEvent} event */
  #clicked(event) {
    const target = /** @type {Element} */ (event.target).closest("button");
    // Buttons in a slot are the page's.
    if (!target || !this.#root.contains(target) || target.ariaDisabled === "true") return;
    const name = target.dataset.do;
    if (!name) {
      const code = target.closest(".code")?.querySelector("pre")?.textContent;
      if (typeof code === "string") this.#copy(target, code);
      return;
    }
    const i = this.#messages.findIndex(({ element }) => element.contains(target));
    const { versions = [] } = this.#messages[i]?.said ?? {};
    if (name === "read") {
      const pressed = target.ariaPressed === "true";
      this.hush();
      if (!pressed) this.attempt(import("./reader.js").then(({ read }) => read(target, this.#messages[i].text)));
    } else if (name === "copy") {
      this.#copy(target, this.#messages[i].said.content);
    } else if (name === "older" || name === "newer") {
      const { scrollTop } = this.#log;
      const { following } = this.#follower;
      const older = name === "older";
      this.actions.version(i, versions.indexOf(null) + (older ? -1 : 1));
      const message = this.#messages[i];
      message.show();
      if (following && message === this.last) this.toEnd();
      else this.#follower.stayAt(scrollTop);
      // The button was made anew; where it can go no further, its neighbour gets the focus.
      /** @type {NodeListOf<HTMLElement>} */
      const buttons = message.element.querySelectorAll("[data-do$=er]:enabled");
      buttons[older ? 0 : buttons.length - 1].focus();
    } else if (name === "attach") {
      this.attachments.picker.click();
    } else if (name !== "send") {
      if (name === "latest") this.toEnd();
      else this.actions[/** @type {"again"} */ (name)](i);
      if (event.detail === 0 || !isTouched() || name === "edit") this.input.focus({ preventScroll: true });
    }
  }

  /**
   * @param {HTMLElement} button
   * @param {string} text
   */
  #copy(button, text) {
    this.attempt(import("./copy.js").then(({ copy }) => copy(button, text, this)));
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    // A key of an input method; some browsers show that by the old code alone.
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === "Enter" && !event.shiftKey && event.target === this.input) {
      event.preventDefault();
      this.#composer.requestSubmit();
    } else if (event.key === "Escape") {
      if (this.hush()) {
        // That was meant.
      } else if (!this.#editing.hidden) this.actions.cancel();
      else if (this.#busy || !this.#status.hidden) this.actions.stop();
      else return;
      event.stopPropagation();
    }
  }

  #offerLatest() {
    const { following, distance } = this.#follower;
    this.#latest.hidden = following || distance < 1 || !this.last;
  }
}

/** Whether who is here taps, and text is written on a keyboard that takes half of the screen. */
function isTouched() {
  return globalThis.matchMedia?.("(pointer: coarse)").matches;
}

/**
 * @param {string} name
 * @param {...(Node | string)} inside shown unless the page fills the slot
 */
function slot(name, ...inside) {
  return html("slot", { name }, ...inside);
}

/**
 * @param {string} name
 * @param {string} style
 * @param {string} label
 */
function button(name, style, label) {
  return html("button", { type: "button", class: style, part: `button ${name}`, "data-do": name }, label);
}

/**
 * @param {string} name
 * @param {string} style
 * @param {string} label
 * @param {string} path
 * @param {string} [type]
 */
function iconButton(name, style, label, path, type = "button") {
  const attributes = { type, class: style, part: `button ${name}`, "data-do": name };
  const inside = slot(`${name}-label`, icon(path));
  return html("button", { ...attributes, "aria-label": label, title: label }, inside);
}
