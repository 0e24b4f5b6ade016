// Conversations as files: saved as Markdown or JSON, and read from JSON.
import { TEXTS as ROLES, checked } from "./tabloom/element/parts.js";
import { save, saveJson } from "./download.js";
import { typed } from "./settings.js";
import { fill, texts } from "./texts.js";

/** @typedef {import("./archive.js").Conversation} Conversation */

/** @param {Conversation} conversation */
export function saveAsJson(conversation) {
  const { title, model, messages, changed, settings } = conversation;
  const value = { title, model, changed: new Date(changed).toISOString(), settings, messages };
  saveJson(fileName(conversation), value);
}

/** @param {Conversation} conversation */
export function saveAsMarkdown(conversation) {
  const { title, messages } = conversation;
  const said = messages.map(({ role, content }) => `**${ROLES[role]}**\n\n${content}\n`);
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
  let value;
  try {
    value = JSON.parse(await file.text());
  } catch {
    throw failure(texts.exchange.noJson);
  }
  try {
    const messages = checked(value?.messages);
    const changed = Date.parse(value.changed) || Date.now();
    const [title, model] = [value.title, value.model].map((text) => `${text ?? ""}`);
    const settings = typed(value.settings);
    return { id: crypto.randomUUID(), title: title || file.name, named: true, model, changed, settings, messages };
  } catch (/** @type {any} */ error) {
    throw failure(error.message);
  }
}

/** @param {Conversation} conversation */
function fileName({ title }) {
  return title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "conversation";
}
