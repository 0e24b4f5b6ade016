// Conversations as files: saved as Markdown or JSON, and read from JSON.
import { TEXTS as ROLES, checked } from "./tabloom/element/parts.js";
import { textsOf } from "./archive.js";
import { save, saveJson } from "./download.js";
import { formatBytes } from "./format.js";
import { typed } from "./settings.js";
import { fill, texts } from "./texts.js";

/** @typedef {import("./archive.js").Conversation} Conversation */

/** Most bytes of a file that is read: a longer one would hold up the page. */
const MOST = 20e6;
/** Most messages of a conversation, those of all versions together. */
const MESSAGES = 10_000;
/** Most characters of a title and of a model's name. */
const NAME = 200;

/** @param {Conversation} conversation */
export function saveAsJson(conversation) {
  const { title, model, pinned, messages, changed, settings } = conversation;
  const value = { title, model, pinned, changed: new Date(changed).toISOString(), settings, messages };
  saveJson(fileName(conversation), value);
}

/** @param {Conversation} conversation throws where it is none of this version of the page */
export function saveAsMarkdown(conversation) {
  const { title, messages } = conversation;
  const said = checked(messages).map(({ role, content }) => `**${ROLES[role]}**\n\n${content}\n`);
  save(`${fileName(conversation)}.md`, "text/markdown", [`# ${title}\n`, ...said].join("\n"));
}

/**
 * The conversation in a JSON file; throws an error that says what is wrong with it.
 *
 * @param {File} file
 * @returns {Promise<Conversation>}
 */
export async function readConversation(file) {
  const failure = (/** @type {string} */ why) => new Error(fill(texts.exchange.refused, { file: file.name, why }));
  if (file.size > MOST) throw failure(fill(texts.exchange.large, { limit: formatBytes(MOST) }));
  let value;
  try {
    value = JSON.parse(await file.text());
  } catch {
    throw failure(fill(texts.exchange.noJson, { json: texts.conversations.json }));
  }
  const messages = messagesOf(value);
  if (messages.length === 0) throw failure(fill(texts.exchange.noMessages, { json: texts.conversations.json }));
  if (textsOf(messages).length > MESSAGES) throw failure(fill(texts.exchange.many, { limit: MESSAGES }));
  // All else may be missing.
  const changed = Math.min(new Date(value.changed).getTime() || Date.now(), Date.now());
  const [title, model] = [value.title, value.model].map((text) =>
    (typeof text === "string" ? text : "").slice(0, NAME),
  );
  const settings = typed(value.settings);
  const kept = { named: true, pinned: value.pinned === true, model, changed, settings, messages };
  return { id: crypto.randomUUID(), title: title.trim() || file.name, ...kept };
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
