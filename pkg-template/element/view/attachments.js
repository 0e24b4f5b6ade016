import { html } from "../dom.js";

/** @import { Tray } from "./tray.js" */
/** @import { Owner } from "./types.js" */

/** A pasted text of more lines or characters is attached; one that is longer may be too long for the model. */
const LINES = 20;
const CHARACTERS = 2_000;

/** How a question begins that something is attached to. */
export const QUOTED = /^`[^`\n]+`:\n```/;

/** What is attached to the next question: chosen, dropped or pasted. The tray for it is loaded with the first. */
export class Attachments {
  /** @readonly */
  list = html("ul", { class: "attachments", part: "attachments", hidden: "" });
  /** @readonly */
  picker = html("input", { type: "file", multiple: "", hidden: "" });
  /** @readonly */
  view;
  /** @readonly */
  area;
  /** What to say of a question that is longer than the model's context. */
  over = "";
  /** @type {Tray | null} */
  #tray = null;

  /**
   * @param {Owner} view
   * @param {HTMLElement} area where files can be dropped
   */
  constructor(view, area) {
    this.view = view;
    this.area = area;
    const { input } = view;
    this.picker.addEventListener("change", () => {
      this.add([.../** @type {FileList} */ (this.picker.files)]);
      this.picker.value = "";
      input.focus();
    });
    input.addEventListener("paste", (event) => this.#paste(event));
    for (const type of ["dragover", "drop"]) {
      area.addEventListener(type, (event) => this.#drag(/** @type {DragEvent} */ (event)));
    }
  }

  /** The question as it is in the composer. */
  get content() {
    return this.#tray?.content ?? this.view.input.value.trim();
  }

  set content(content) {
    const { input } = this.view;
    input.value = content;
    const { value } = input;
    if (!this.#tray && !QUOTED.test(value)) return;
    this.#open((tray) => {
      // The visitor may have gone on meanwhile.
      if (input.value === value) tray.write(value);
    });
  }

  /** Shows what has changed elsewhere. */
  refresh() {
    const { area, view } = this;
    const counted = this.#tray || view.input.value.length > CHARACTERS || area.querySelector("details");
    if (counted) this.#open((tray) => tray.count());
  }

  /** @param {File[]} files */
  add(files) {
    this.#open((tray) => tray.read(files));
  }

  /** @param {ClipboardEvent} event */
  #paste(event) {
    const { clipboardData } = event;
    const text = clipboardData?.getData("text/plain") ?? "";
    const files = [...(clipboardData?.files ?? [])];
    if (text.length > CHARACTERS || text.split("\n").length > LINES) {
      this.#open((tray) => tray.paste(text));
    } else if (!text && files.length > 0) this.add(files);
    else return;
    event.preventDefault();
  }

  /** @param {DragEvent} event */
  #drag(event) {
    const { type, dataTransfer, defaultPrevented } = event;
    if (!dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    // The page may have a use of its own for what was dropped.
    const files = type === "drop" && !defaultPrevented ? [...dataTransfer.files] : [];
    this.#open((tray) => tray.drag(type, files));
  }

  /** @param {(tray: Tray) => unknown} use */
  #open(use) {
    if (this.#tray) use(this.#tray);
    else
      import("./tray.js").then(
        ({ Tray }) => use((this.#tray ??= new Tray(this))),
        () => this.view.tell(),
      );
  }
}
