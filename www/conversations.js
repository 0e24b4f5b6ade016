// The list of conversations: opens, renames, saves and deletes them.
import { PENCIL, icon } from "./tabloom/element/parts.js";
import { $, button, html, write } from "./dom.js";
import { saveJson } from "./download.js";

/** @typedef {import("./archive.js").Conversation} Conversation */

const DOWNLOAD = "M12 4v11M7 10.5l5 5 5-5M5 20h14";
const BIN = "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13";
/** Which conversation this tab shows, kept while the tab lasts. */
const SHOWN = "tabloom-conversation";

/** The conversations of the archive, of which a chat shows one. */
export class Conversations {
  #archive;
  #chat;
  /** @type {Map<string, Conversation>} what was deleted, the latest last */
  #deleted = new Map();

  /**
   * @param {import("./archive.js").Archive} archive
   * @param {import("./chat.js").Chat} chat
   */
  constructor(archive, chat) {
    this.#archive = archive;
    this.#chat = chat;
    archive.addEventListener("change", () => this.#list());
    chat.addEventListener("change", (event) => this.#keep(/** @type {CustomEvent} */ (event).detail));
    chat.addEventListener("show", () => this.#shown());
    $("clear").addEventListener("click", () => {
      this.#chat.begin();
      $("prompt").focus();
    });
    $("undo").addEventListener("click", () => this.#undo());
    $("show-history").addEventListener("click", () => this.#unfold($("conversations").classList.toggle("open")));
    this.#restore();
  }

  /** Opens the conversation that this tab showed before it was reloaded. */
  async #restore() {
    const id = remembered();
    const all = await this.#list();
    const last = all.find((conversation) => conversation.id === id);
    // A question may have been asked meanwhile.
    if (last && this.#chat.conversation.messages.length === 0) this.#chat.show(last);
  }

  /** @param {Conversation} conversation */
  async #keep(conversation) {
    // An answer may end after its conversation was deleted.
    if (this.#deleted.has(conversation.id)) return;
    await this.#archive.put(conversation);
    await this.#shown();
  }

  /** Notes which conversation is shown. */
  async #shown() {
    try {
      sessionStorage.setItem(SHOWN, this.#chat.conversation.id);
    } catch {
      // Then a reload begins a new one.
    }
    $("deleted").hidden = true;
    await this.#list();
  }

  /** @param {boolean} open where the list has no place of its own */
  #unfold(open) {
    $("conversations").classList.toggle("open", open);
    $("show-history").setAttribute("aria-expanded", `${open}`);
  }

  async #list() {
    const all = await this.#archive.list();
    const list = $("conversation-list");
    // The focus stays on its entry.
    const focused = list.contains(document.activeElement) ? document.activeElement?.closest("li")?.dataset.id : null;
    if (list.querySelector("input")) return all;
    const kept = "Conversations stay in this browser.";
    const lost = "This browser does not let the page keep conversations.";
    write($("nothing-kept"), !(await this.#archive.lasts()) ? lost : all.length === 0 ? kept : "");
    list.replaceChildren(...all.map((conversation) => this.#entry(conversation)));
    if (focused) list.querySelector(`[data-id="${focused}"] button`)?.focus();
    return all;
  }

  /** @param {Conversation} conversation */
  #entry(conversation) {
    const { id, title } = conversation;
    const item = html("li", { "data-id": id });
    const open = button(title, () => this.#open(id), { class: "title" });
    open.setAttribute("aria-current", `${id === this.#chat.conversation.id}`);
    item.append(
      open,
      iconButton(`Rename “${title}”`, PENCIL, () => this.#rename(item, conversation)),
      iconButton(`Save “${title}” as JSON`, DOWNLOAD, () => save(conversation)),
      iconButton(`Delete “${title}”`, BIN, () => this.#delete(conversation)),
    );
    return item;
  }

  /** @param {string} id */
  async #open(id) {
    const found = (await this.#archive.list()).find((conversation) => conversation.id === id);
    if (!found) return;
    this.#unfold(false);
    if (id !== this.#chat.conversation.id) this.#chat.show(found);
  }

  /**
   * @param {HTMLElement} item
   * @param {Conversation} conversation
   */
  #rename(item, conversation) {
    const input = html("input", { "aria-label": "Name of the conversation", maxlength: "80" });
    input.value = conversation.title;
    let done = false;
    const end = async (/** @type {string} */ title) => {
      if (done) return;
      done = true;
      item.remove();
      if (title && title !== conversation.title) {
        const shown = this.#chat.conversation;
        const renamed = shown.id === conversation.id ? shown : conversation;
        Object.assign(renamed, { title, named: true });
        await this.#archive.put(renamed);
      }
      await this.#list();
      $("conversation-list").querySelector(`[data-id="${conversation.id}"] button`)?.focus();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") end(input.value.trim());
      if (event.key === "Escape") end("");
      if (event.key === "Escape") event.stopPropagation();
    });
    input.addEventListener("blur", () => end(input.value.trim()));
    item.replaceChildren(input);
    input.select();
  }

  /** @param {Conversation} conversation */
  async #delete(conversation) {
    const { id, title } = conversation;
    this.#deleted.set(id, conversation);
    if (id === this.#chat.conversation.id) this.#chat.begin();
    await this.#archive.delete(id);
    await this.#list();
    $("deleted").querySelector("span").textContent = `Deleted “${title}”.`;
    $("deleted").hidden = false;
    $("undo").focus();
  }

  async #undo() {
    const last = [...this.#deleted.values()].at(-1);
    if (!last) return;
    this.#deleted.delete(last.id);
    await this.#archive.put(last);
    $("deleted").hidden = true;
    await this.#list();
    $("conversation-list").querySelector("button")?.focus();
  }
}

/** @param {Conversation} conversation */
function save({ title, model, messages, changed }) {
  const name = title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "conversation";
  saveJson(name, { title, model, changed: new Date(changed).toISOString(), messages });
}

/**
 * @param {string} label
 * @param {string} path
 * @param {() => void} onClick
 */
function iconButton(label, path, onClick) {
  const element = button("", onClick, { class: "icon", "aria-label": label, title: label });
  element.append(icon(path));
  return element;
}

function remembered() {
  try {
    return sessionStorage.getItem(SHOWN);
  } catch {
    return null;
  }
}
