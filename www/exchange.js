// Conversations as files: saved as Markdown or JSON, one or all of them, and read from JSON.
import { TEXTS as ROLES, checked } from "./tabloom/element/parts.js";
import { textsOf } from "./archive.js";
import { save, saveJson } from "./download.js";
import { formatBytes } from "./format.js";
import { typed } from "./settings.js";
import { fill, texts } from "./texts.js";

/** @typedef {import("./archive.js").Conversation} Conversation */

/** Most bytes of a file that is read, which may be all conversations: a longer one would hold up the page. */
const MOST = 40e6;
/** Most messages of a conversation, those of all versions together. */
const MESSAGES = 10_000;
/** Most characters of a title and of a model's name. */
const NAME = 200;

/** @param {Conversation} conversation */
export function saveAsJson(conversation) {
  saveJson(fileName(conversation), fieldsOf(conversation));
}

/** @param {Conversation[]} conversations */
export function saveAllAsJson(conversations) {
  saveJson("conversations", { conversations: conversations.map(fieldsOf) });
}

/** @param {Conversation} conversation */
function fieldsOf({ title, model, pinned, messages, changed, settings }) {
  return { title, model, pinned, changed: new Date(changed).toISOString(), settings, messages };
}

/** @param {Conversation} conversation throws where it is none of this version of the page */
export function saveAsMarkdown(conversation) {
  const { title, messages } = conversation;
  const said = checked(messages).map(({ role, content }) => `**${ROLES[role]}**\n\n${content}\n`);
  save(`${fileName(conversation)}.md`, "text/markdown", [`# ${title}\n`, ...said].join("\n"));
}

/**
 * The conversations in files; one that is kept already, unchanged, is that.
 *
 * @param {File[]} files
 * @param {Conversation[]} kept
 */
export async function readConversations(files, kept) {
  /** @type {string[]} what is wrong with files and conversations */
  const failures = [];
  const refused = (/** @type {Error} */ { message }) => void failures.push(message);
  const values = await Promise.all(files.map((file) => valuesIn(file).catch(refused)));
  const known = new Map(kept.map((conversation) => [contentOf(conversation), conversation]));
  /** @type {Conversation[]} */
  const read = [];
  /** @type {Conversation[]} those of them that are not kept */
  const added = [];
  const all = values.flatMap((values) => values ?? []);
  for (const [i, value] of all.entries()) {
    try {
      // Of those without a date the last is the newest.
      const conversation = conversationIn(value, Date.now() + i - all.length);
      const same = known.get(contentOf(conversation));
      read.push(same ?? conversation);
      if (!same) added.push(conversation);
    } catch (/** @type {any} */ error) {
      refused(error);
    }
  }
  return { read, added, failures };
}

/**
 * What a JSON file holds of each of its conversations; throws an error that says what is wrong with it.
 *
 * @param {File} file
 * @returns {Promise<{name: string, value: any}[]>} what each is called in errors
 */
async function valuesIn(file) {
  const { name } = file;
  if (file.size > MOST) throw failure(name, fill(texts.exchange.large, { limit: formatBytes(MOST) }));
  try {
    const value = JSON.parse(await file.text());
    const { conversations } = Object(value);
    if (!Array.isArray(conversations) || conversations.length === 0) return [{ name, value }];
    return conversations.map((value) => ({ name: textIn(value, "title") || name, value }));
  } catch {
    throw failure(name, fill(texts.exchange.noJson, { json: texts.conversations.json }));
  }
}

/**
 * Whether a file is one of conversations as they are saved here.
 *
 * @param {File} file
 */
export async function isSaved(file) {
  if (!/\.json$/i.test(file.name)) return false;
  const values = await valuesIn(file).catch(() => []);
  return values.some(({ value }) => textIn(value, "title") && messagesOf(value).length > 0);
}

/**
 * The conversation in a value; throws an error that says what is wrong with it.
 *
 * @param {{name: string, value: any}} read
 * @param {number} [latest] when it was changed where it does not say so, and at the latest: milliseconds since 1970
 * @returns {Conversation}
 */
function conversationIn({ name, value }, latest = 0) {
  const messages = messagesOf(value);
  if (messages.length === 0) throw failure(name, fill(texts.exchange.noMessages, { json: texts.conversations.json }));
  if (textsOf(messages).length > MESSAGES) throw failure(name, fill(texts.exchange.many, { limit: MESSAGES }));
  // All else may be missing.
  const changed = Math.min(new Date(value.changed).getTime() || latest, latest);
  const [title, model] = [textIn(value, "title"), textIn(value, "model")];
  const settings = typed(value.settings);
  const kept = { named: true, pinned: value.pinned === true, model, changed, settings, messages };
  return { id: crypto.randomUUID(), title: title || name, ...kept };
}

/**
 * What two conversations share that say the same; empty where one is of another version of the page.
 *
 * @param {Conversation} conversation
 */
function contentOf(conversation) {
  try {
    const { title, settings, messages } = conversationIn({ name: "", value: conversation });
    return JSON.stringify([title, settings, messages]);
  } catch {
    return "";
  }
}

/**
 * A title or a name in a value, where it has one.
 *
 * @param {any} value
 * @param {string} key
 */
function textIn(value, key) {
  const text = value?.[key];
  return typeof text === "string" ? text.slice(0, NAME).trim() : "";
}

/**
 * @param {string} file
 * @param {string} why
 */
function failure(file, why) {
  return new Error(fill(texts.exchange.refused, { file, why }));
}

/**
 * The messages in what a file holds; none where they are of another form.
 *
 * @param {any} value
 */
function messagesOf(value) {
  try {
    return checked(value?.messages).filter(({ content }) => content !== "");
  } catch {
    return [];
  }
}

/** @param {Conversation} conversation */
function fileName({ title }) {
  return title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "conversation";
}
