import { html } from "./dom.js";
import { ALL as TEXTS } from "./view/later.js";

/** @import { Conversation } from "./conversation.js" */
/** @import { TabloomChatMessage } from "./types.js" */
/** @import { View } from "./view/view.js" */

/**
 * The chat whose conversation was deleted.
 *
 * @typedef {object} Chat
 * @property {View} view
 * @property {Conversation} conversation
 * @property {(messages: TabloomChatMessage[]) => void} show
 */

/**
 * Offers a conversation that was deleted, with what was not asked yet, until something is asked.
 *
 * @param {Chat} chat
 * @param {TabloomChatMessage[]} messages
 * @param {string} draft
 */
export function offer(chat, messages, draft) {
  const { view } = chat;
  const back = html("button", { type: "button", class: "plain", part: "button undo" }, TEXTS.undo);
  const note = html("p", { class: "editing", part: "cleared", role: "status" }, html("span", {}, TEXTS.cleared), back);
  const { form } = view.input;
  form?.before(note);
  form?.addEventListener("submit", () => note.remove(), { once: true });
  back.addEventListener("click", () => {
    note.remove();
    chat.show(messages);
    chat.conversation.keep();
    view.content = [draft, view.content].filter(Boolean).join("\n\n");
    view.input.focus();
  });
}
