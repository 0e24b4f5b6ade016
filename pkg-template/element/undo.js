import { html } from "./dom.js";
import { ALL as TEXTS } from "./view/later.js";

/** @import { Conversation } from "./conversation.js" */
/** @import { TabloomChatMessage } from "./types.js" */
/** @import { View } from "./view/view.js" */

/**
 * The chat whose conversation is deleted.
 *
 * @typedef {object} Chat
 * @property {View} view
 * @property {Conversation} conversation
 * @property {() => void} clear
 * @property {() => void} update shows the state, and what another tab has asked
 * @property {(messages: TabloomChatMessage[]) => void} show
 */

/**
 * Deletes the conversation, and offers it, with what was not asked yet, until something is asked.
 *
 * @param {Chat} chat
 */
export function clear(chat) {
  const { view, conversation } = chat;
  const { messages } = conversation;
  const { content } = view;
  if (messages.length === 0) return;
  chat.clear();
  const back = html("button", { type: "button", class: "plain", part: "button undo" }, TEXTS.undo);
  const note = html("p", { class: "editing", part: "cleared", role: "status" }, html("span", {}, TEXTS.cleared), back);
  const { form } = view.input;
  form?.before(note);
  form?.addEventListener("submit", () => note.remove(), { once: true });
  back.addEventListener("click", () => {
    note.remove();
    // What another tab has asked since comes after it.
    chat.update();
    chat.show([...messages, ...conversation.messages]);
    conversation.keep();
    view.content = [content, view.content].filter(Boolean).join("\n\n");
    view.input.focus();
  });
}
