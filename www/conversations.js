// The list of conversations: opens, finds, renames, pins, saves and deletes them.
import { Engine } from "./tabloom/index.js";
import { icon } from "./tabloom/element/parts.js";
import { ordered, textsOf } from "./archive.js";
import { $, button, html, write } from "./dom.js";
import { readConversations, saveAllAsJson, saveAsJson, saveAsMarkdown } from "./exchange.js";
import { time } from "./format.js";
import { offer } from "./menu.js";
import { fill, texts } from "./texts.js";

/** @typedef {import("./archive.js").Conversation} Conversation */
/** @typedef {import("./archive.js").Entry} Entry */

const DOTS = "M5 12h.01M12 12h.01M19 12h.01";
const TEXTS = texts.conversations;
/** Characters before and after what was found that are listed with it. */
const [BEFORE, AFTER] = [16, 80];
/** How many conversations are listed in a frame. */
const ROWS = 40;
/** Milliseconds between two words of a tab that gets an answer, and without one: it has gone. */
const [PULSE, SILENCE] = [2_000, 5_000];
/** Milliseconds for which the button that deletes all waits for a second click. */
const ARMED = 10_000;
/** Which conversation this tab shows, kept while the tab lasts. */
const SHOWN = "tabloom-conversation";

/** The conversations of the archive, of which a chat shows one. */
export class Conversations {
  #archive;
  #chat;
  /** @type {Entry[]} */
  #entries = [];
  /**
   * How they are listed, by id; `found`: the words that are looked for, and what was said around them.
   *
   * @type {Map<string, {item: HTMLElement, entry: Entry, current: boolean, found: string, key: string}>}
   */
  #items = new Map();
  /** @type {Conversation[]} what was deleted since undo is offered */
  #deleted = [];
  /** @type {Conversation | undefined} the one of them that was shown */
  #closed;
  /** Ids of what is deleted, here or in another tab: an answer that ends later must not bring it back. */
  #gone = new Set();
  /** @type {Map<string, string> | null} where what is looked for was said, by id; null where nothing is looked for */
  #found = null;
  #state = "kept";
  /** @type {object | undefined} the last change by another tab of the conversation that is shown */
  #latest;
  /** The one that was current when the list was scrolled to it. */
  #at = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #silence;
  #frame = 0;
  #menu = $("menu");
  #listed = Promise.resolve();
  /** @type {Promise<void> | null} lists what changes until it begins */
  #next = null;
  /** Settled once the conversation is shown that was before a reload. */
  restored;

  /**
   * @param {import("./archive.js").Archive} archive
   * @param {import("./chat.js").Chat} chat
   */
  constructor(archive, chat) {
    this.#archive = archive;
    this.#chat = chat;
    archive.addEventListener("change", (event) => this.#changed(/** @type {CustomEvent} */ (event).detail));
    chat.addEventListener("change", (event) => this.#keep(/** @type {CustomEvent} */ (event).detail));
    chat.addEventListener("show", (event) => this.#shown(/** @type {CustomEvent} */ (event).detail));
    chat.addEventListener("answered", (event) => {
      const { detail: title } = /** @type {CustomEvent} */ (event);
      if (title === null) this.hush();
      else this.#say(fill(TEXTS.answered, { title }), false);
    });
    $("clear").addEventListener("click", (/** @type {UIEvent} */ event) => {
      this.#unfold(false);
      this.#chat.begin();
      this.#chat.focus(event);
    });
    $("undo").addEventListener("click", () => this.#undo());
    $("keep").addEventListener("click", (/** @type {UIEvent} */ event) => this.#keepLost(event));
    addEventListener("pagehide", () => {
      const kept = this.#chat.growing.filter(({ id }) => !this.#gone.has(id));
      for (const conversation of kept) archive.leave(conversation);
    });
    // Where there is little room their texts are not shown.
    for (const id of ["clear", "show-history"]) $(id).title = $(id).textContent.trim();
    $("show-history").addEventListener("click", () => this.#unfold(!$("conversations").classList.contains("open")));
    $("search").addEventListener("input", () => this.#search());
    $("import-file").addEventListener("change", () => {
      const files = Array.from(/** @type {FileList} */ ($("import-file").files));
      $("import-file").value = "";
      this.import(files);
    });
    $("save-all").addEventListener("click", () => this.#saveAll());
    $("delete-all").addEventListener("click", (/** @type {UIEvent} */ event) => this.#deleteAll(event));
    // From the question on: until the first words come nothing is kept.
    setInterval(() => {
      for (const { id } of this.#chat.growing) archive.grows(id);
    }, PULSE);
    this.restored = this.#restore();
  }

  /** Opens the conversation that this tab showed before it was reloaded. */
  async #restore() {
    const id = remembered();
    await this.#archive.take();
    await this.#list();
    const last = id && (await this.#archive.get(id));
    // A question may have been asked meanwhile.
    if (last && this.#chat.conversation.messages.length === 0) this.#try(last, () => this.#chat.show(last));
  }

  /**
   * @param {{id: string, growing: boolean, deleted?: boolean, same?: boolean}} change made by another tab; growing:
   *   while it is answered there; same: it is as it was
   */
  async #changed(change) {
    const { id, growing, deleted, same } = change;
    const shown = id === this.#chat.conversation.id;
    if (same) return void (shown && !this.#chat.busy && this.#tell(true));
    if (shown) this.#latest = change;
    if (deleted && !shown) this.#chat.drop(id);
    if (deleted) this.#gone.add(id);
    else this.#gone.delete(id);
    await this.#list();
    const own = this.#chat.growing.find((own) => own.id === id);
    const now = (shown || own) && (await this.#archive.get(id));
    // It was renamed or brought back there, and goes on here.
    if (own && now && isEarlier(now, own)) {
      const { title, named, pinned, revision } = now;
      Object.assign(own, { title, named, pinned, revision });
    }
    const { conversation, busy } = this.#chat;
    // Another may have come meanwhile.
    if (change !== this.#latest || id !== conversation.id || busy) return;
    if (now && (now.revision ?? 0) > (conversation.revision ?? 0)) {
      this.#try(now, () => {
        // It has not ended yet.
        if (growing) delete now.messages.at(-1)?.end;
        this.#chat.update(now);
      });
    }
    this.#tell(growing);
  }

  /** @param {boolean} growing whether another tab gets an answer in the conversation that is shown */
  #tell(growing) {
    if (growing) this.#say(TEXTS.growing, false);
    else if (this.#chat.elsewhere) this.hush();
    this.#chat.elsewhere = growing;
    clearTimeout(this.#silence);
    // A tab that is closed reports nothing more.
    if (growing) this.#silence = setTimeout(() => this.#tell(false), SILENCE);
  }

  /** @param {{conversation: Conversation, shown: boolean}} change */
  async #keep({ conversation, shown }) {
    const { id, messages } = conversation;
    // Whoever asks on wants to keep it.
    if (messages.at(-1)?.role === "user") this.#gone.delete(id);
    if (this.#gone.has(id) || messages.length === 0) return;
    if (shown) this.#tell(false);
    const entry = await this.#archive.put(conversation, () => this.#chat.growing.includes(conversation));
    this.#remember();
    if (shown && this.#begun(entry.id)) this.#settle();
    if (entry.id !== id) this.#say(TEXTS.parted, false);
    // A growing answer is kept each second: the others stay as they are listed.
    this.#entries = ordered([entry, ...this.#entries.filter(({ id }) => id !== entry.id)]);
    await this.#update();
  }

  /** @param {string | null} left the title of a conversation that is still answered */
  async #shown(left) {
    this.#remember();
    this.#tell(false);
    this.hush();
    this.#begun(this.#chat.conversation.id);
    if (left !== null) this.#say(fill(TEXTS.goesOn, { title: left }), false);
    await this.#list();
  }

  /**
   * Ends the search where a conversation begins, which it would hide.
   *
   * @param {string} id
   * @returns {boolean} whether it does
   */
  #begun(id) {
    if (this.#entries.some((entry) => entry.id === id)) return false;
    $("search").value = "";
    this.#found = null;
    return true;
  }

  /**
   * Keeps the conversation that is shown, which another tab has deleted.
   *
   * @param {UIEvent} event
   */
  async #keepLost(event) {
    const { conversation } = this.#chat;
    this.#gone.delete(conversation.id);
    await this.#archive.put(conversation, () => this.#chat.busy);
    await this.#list();
    this.#chat.focus(event);
  }

  /** Notes which conversation is shown. */
  #remember() {
    try {
      sessionStorage.setItem(SHOWN, this.#chat.conversation.id);
    } catch {
      // Then a reload begins a new one.
    }
  }

  /**
   * Does something with a conversation that another version of the page, or another script, may have kept.
   *
   * @param {Conversation} conversation
   * @param {() => void} act
   */
  #try({ title }, act) {
    try {
      act();
    } catch {
      this.#say(fill(TEXTS.foreign, { title }), false);
    }
  }

  /** @param {boolean} open where the list has no place of its own */
  #unfold(open) {
    // What was said of the list goes with it.
    if (!open && $("conversations").classList.contains("open")) this.hush();
    $("conversations").classList.toggle("open", open);
    $("show-history").setAttribute("aria-expanded", `${open}`);
  }

  /** Lists the conversations, once what is being listed is; what is asked for meanwhile is done at once. */
  #list() {
    this.#next ??= this.#listed.then(() => {
      this.#next = null;
      return this.#listNow();
    });
    this.#listed = this.#next;
    return this.#next;
  }

  async #listNow() {
    this.#entries = await this.#archive.list();
    await this.#update();
  }

  /** Shows the entries, and what there is to say of how they are kept. */
  async #update() {
    const before = this.#state;
    this.#state = await this.#archive.state();
    const none = this.#entries.length === 0;
    const { kept, lost, newer, blocked } = TEXTS;
    const why = /** @type {Record<string, string>} */ ({ lost, newer, blocked })[this.#state];
    write($("nothing-kept"), why ?? (none ? kept : ""));
    if (this.#state === "full") this.#say(TEXTS.full, false);
    else if (before === "full") this.#settle();
    this.#draw();
  }

  /**
   * Shows the entries. Those that are as before stay, with the focus.
   *
   * @param {number} [from] the first that is not listed yet
   */
  #draw(from = 0) {
    cancelAnimationFrame(this.#frame);
    const list = $("conversation-list");
    const entries = this.#entries.filter(({ id }) => this.#found?.has(id) ?? true);
    const ids = new Set(entries.map(({ id }) => id));
    for (const [id, { item }] of this.#items) if (!ids.has(id)) item.remove();
    for (let i = from; i < Math.min(entries.length, from + ROWS); i++) {
      const item = this.#item(entries[i]);
      if (list.children[i] !== item) list.insertBefore(item, list.children[i] ?? null);
    }
    if (from + ROWS < entries.length) this.#frame = requestAnimationFrame(() => this.#draw(from + ROWS));
    const { id: current } = this.#chat.conversation;
    $("lost").hidden = !this.#gone.has(current);
    const item = this.#items.get(current)?.item;
    if (item?.isConnected && current !== this.#at) {
      this.#at = current;
      item.scrollIntoView({ block: "nearest" });
    }
    const shown = this.#entries.find(({ id }) => id === current);
    write($("whose"), shown?.title ?? texts.chat.untitled);
    write($("nothing-found"), this.#found && entries.length === 0 ? TEXTS.none : "");
    $("search").hidden = this.#entries.length === 0 && !this.#found;
    $("save-all").hidden = this.#entries.length === 0;
    // It would delete what is not listed, too.
    $("delete-all").hidden = this.#entries.length === 0 || this.#found !== null;
  }

  /** @param {Entry} entry */
  #item(entry) {
    const { id, title, pinned, changed } = entry;
    const current = id === this.#chat.conversation.id;
    const known = this.#items.get(id);
    const where = this.#found?.get(id) ?? "";
    const found = where && `${sought()}\n${where}`;
    if (known?.entry === entry && known.current === current && known.found === found) return known.item;
    const when = this.#chat.away(id) ? TEXTS.answering : time(changed);
    const key = JSON.stringify([title, pinned, current, when, found]);
    if (known && (known.key === key || known.item.querySelector("input"))) {
      Object.assign(known, { entry, current, found });
      return known.item;
    }
    const open = button("", (event) => this.#open(id, event), { class: "title", title, "aria-current": `${current}` });
    open.append(html("span", { dir: "auto" }, `${pinned ? "★ " : ""}${title}`), html("time", {}, when));
    if (where) open.append(excerpt(where, sought()));
    const more = button("", () => this.#offer(id, more), {
      class: "icon",
      "aria-label": fill(TEXTS.more, { title }),
      "aria-haspopup": "menu",
    });
    more.append(icon(DOTS));
    if (known) {
      const focused = known.item.contains(document.activeElement);
      const second = document.activeElement?.matches(".icon");
      known.item.replaceChildren(open, more);
      if (focused) (second ? more : open).focus();
      Object.assign(known, { entry, current, found, key });
      return known.item;
    }
    const item = html("li", { "data-id": id }, open, more);
    this.#items.set(id, { item, entry, current, found, key });
    return item;
  }

  /**
   * Shows what can be done with a conversation.
   *
   * @param {string} id
   * @param {HTMLElement} source
   */
  #offer(id, source) {
    const entry = this.#entries.find((entry) => entry.id === id);
    if (!entry) return;
    const saved = (/** @type {(conversation: Conversation) => void} */ save) => async () => {
      const conversation = await this.#archive.get(id);
      if (conversation) this.#try(conversation, () => save(conversation));
    };
    offer(this.#menu, source, [
      [TEXTS.rename, () => this.#rename(id)],
      [entry.pinned ? TEXTS.unpin : TEXTS.pin, () => this.#change(id, { pinned: !entry.pinned })],
      [TEXTS.markdown, saved(saveAsMarkdown)],
      [TEXTS.json, saved(saveAsJson)],
      [TEXTS.delete, () => this.#delete([entry])],
    ]);
  }

  /**
   * @param {string} id
   * @param {UIEvent} event
   */
  async #open(id, event) {
    const found = this.#chat.away(id) ?? (await this.#archive.get(id));
    if (!found) return;
    this.#unfold(false);
    if (id !== this.#chat.conversation.id) this.#try(found, () => this.#chat.show(found));
    if (this.#found) this.#chat.find(sought());
    this.#chat.focus(event);
  }

  /**
   * @param {string} id
   * @param {Partial<Conversation>} change
   */
  async #change(id, change) {
    const shown = this.#chat.conversation;
    const conversation = shown.id === id ? shown : (this.#chat.away(id) ?? (await this.#archive.get(id)));
    if (!conversation) return;
    await this.#archive.put(Object.assign(conversation, change));
    await this.#list();
    this.#items.get(id)?.item.querySelector("button")?.focus();
  }

  /** @param {string} id */
  #rename(id) {
    const entry = this.#entries.find((entry) => entry.id === id);
    const known = this.#items.get(id);
    if (!entry || !known) return;
    const input = html("input", { "aria-label": TEXTS.name, maxlength: "80" });
    input.value = entry.title;
    let done = false;
    const end = async (/** @type {string} */ title) => {
      if (done) return;
      done = true;
      input.remove();
      known.key = "";
      await this.#change(id, title && title !== entry.title ? { title, named: true } : {});
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") end(input.value.trim());
      if (event.key === "Escape") end("");
      if (event.key === "Escape") event.stopPropagation();
    });
    input.addEventListener("blur", () => end(input.value.trim()));
    known.item.replaceChildren(input);
    input.select();
  }

  /** Saves all as one file, the first in the list last: an import shows that. */
  async #saveAll() {
    saveAllAsJson((await this.#all()).toReversed());
  }

  /** Conversations as they are kept, by default all. */
  async #all(ids = this.#entries.map(({ id }) => id)) {
    const all = await Promise.all(ids.map((id) => this.#archive.get(id)));
    return all.filter((conversation) => conversation !== undefined);
  }

  /**
   * Deletes all once its button has asked: what was deleted can be brought back only until a reload.
   *
   * @param {UIEvent} event
   */
  #deleteAll({ detail: clicks }) {
    const all = $("delete-all");
    const { textContent: before } = all;
    if (before === TEXTS.deleteAll) {
      // The second half of a double click answers nothing.
      if (clicks > 1) return;
      all.blur();
      this.#delete(this.#entries);
      return;
    }
    write(all, TEXTS.deleteAll);
    // Some browsers give buttons no focus.
    all.focus();
    const disarm = () => {
      clearTimeout(timer);
      write(all, before);
    };
    const timer = setTimeout(disarm, ARMED);
    all.onblur = disarm;
    all.onkeydown = (/** @type {KeyboardEvent} */ { key }) => key === "Escape" && disarm();
  }

  /** @param {Entry[]} entries */
  async #delete(entries) {
    const ids = entries.map(({ id }) => id);
    // Of those that are being answered more is shown than is kept.
    const growing = this.#chat.growing.filter(({ id }) => ids.includes(id));
    await Promise.all(growing.map((conversation) => this.#archive.put(conversation, () => true)));
    const deleted = await this.#all(ids);
    // What can be brought back now still can afterwards.
    if ($("said").hidden || $("undo").hidden) [this.#deleted, this.#closed] = [[], undefined];
    this.#deleted.push(...deleted);
    for (const id of ids) this.#gone.add(id);
    for (const id of ids) this.#chat.drop(id);
    const closed = deleted.find(({ id }) => id === this.#chat.conversation.id);
    this.#closed = closed ?? this.#closed;
    if (closed) this.#chat.begin();
    // What is stored of them beside the model does not tell which is which.
    await Promise.all([...ids.map((id) => this.#archive.delete(id)), Engine.store.deletePrefixes()]);
    await this.#list();
    const { length: count, 0: first = entries[0] } = this.#deleted;
    this.#say(count < 2 ? fill(TEXTS.deleted, { title: first.title }) : fill(TEXTS.deletedAll, { count }), true);
    $("undo").focus();
  }

  async #undo() {
    const [first] = this.#deleted;
    for (const conversation of this.#deleted) {
      this.#gone.delete(conversation.id);
      // Another tab that shows it may have kept it.
      if (!(await this.#archive.get(conversation.id))) await this.#archive.put(conversation);
    }
    this.#deleted = [];
    this.#settle();
    await this.#list();
    const closed = this.#closed && (await this.#archive.get(this.#closed.id));
    if (closed) this.#try(closed, () => this.#chat.show(closed));
    (this.#items.get(first.id)?.item ?? $("conversation-list")).querySelector("button")?.focus();
  }

  /** Shows the conversations whose title or messages have what is looked for. */
  async #search() {
    this.hush();
    const words = sought();
    const has = (/** @type {string} */ text) => text.toLowerCase().includes(words);
    this.#found = words ? new Map() : null;
    const found = this.#found;
    for (const { id, title } of this.#entries) if (has(title)) found?.set(id, "");
    this.#draw();
    if (!found) return;
    for (const { id } of this.#entries) {
      if (found.has(id)) continue;
      const conversation = await this.#archive.get(id);
      if (this.#found !== found) return;
      const text = textsOf(conversation?.messages).find(has);
      if (text !== undefined) found.set(id, text);
    }
    this.#draw();
  }

  /** @param {File[]} files */
  async import(files) {
    const { read, added, failures } = await readConversations(files, await this.#all());
    for (const conversation of added) await this.#archive.put(conversation);
    const last = read.at(-1);
    if (last && last.id !== this.#chat.conversation.id) this.#chat.show(last);
    await this.#list();
    const { length: count, 0: first } = added;
    const all = count > 1 ? fill(TEXTS.importedAll, { count }) : "";
    const imported = all || (first && fill(TEXTS.imported, { title: first.title }));
    const there = read.length - count;
    const same = there > 0 && fill(TEXTS.there, { count: there });
    const full = this.#state === "full" && TEXTS.full;
    this.#say([...failures, imported, same, full].filter(Boolean).join(" "), false);
    // What is said takes room of the list, where the one that is shown should stay in sight.
    this.#items.get(this.#chat.conversation.id)?.item.scrollIntoView({ block: "nearest" });
    // Where the list has no place of its own, it would cover what was imported.
    if (read.length === 1 && failures.length === 0 && $("conversations").classList.contains("open")) {
      $("show-history").focus();
      this.#unfold(false);
    }
  }

  /** Takes back what was said, unless it still holds: what was deleted can be brought back until something is asked. */
  hush() {
    if ($("undo").hidden) this.#settle();
  }

  /** The same where nothing can be brought back any more. */
  #settle() {
    if (this.#state !== "full") $("said").hidden = true;
  }

  /**
   * @param {string} text
   * @param {boolean} undo whether it can be undone
   */
  #say(text, undo) {
    write($("said").querySelector("span"), text);
    $("undo").hidden = !undo;
    $("said").hidden = false;
  }
}

/**
 * Whether a conversation, as it is kept, says nothing that another has not.
 *
 * @param {Conversation} kept
 * @param {Conversation} own
 */
function isEarlier({ messages }, own) {
  return messages.every(({ role, content }, i) => {
    const said = own.messages[i];
    return said?.role === role && said.content.startsWith(content);
  });
}

/**
 * What was said around words that were found, in a line.
 *
 * @param {string} text
 * @param {string} words in lower case
 */
function excerpt(text, words) {
  const at = text.toLowerCase().indexOf(words);
  const end = at + words.length;
  const from = Math.max(0, at - BEFORE);
  // It begins with a whole word.
  const before = from > 0 ? text.slice(from, at).replace(/^\S*\s/, "…") : text.slice(0, at);
  const mark = html("mark", {}, text.slice(at, end));
  return html("span", { class: "excerpt", dir: "auto" }, before, mark, text.slice(end, end + AFTER));
}

/** What is looked for, in lower case. */
function sought() {
  return $("search").value.trim().toLowerCase();
}

function remembered() {
  try {
    return sessionStorage.getItem(SHOWN);
  } catch {
    return null;
  }
}
