import { html } from "./dom.js";
import { ALL as TEXTS } from "./view/later.js";

/**
 * Begins a new chat, and offers the one before until something is asked.
 *
 * @param {import("./chat.js").Chat} chat
 */
export function clear(chat) {
  const { view } = chat;
  const { messages } = chat.conversation;
  const draft = view.content;
  chat.clear();
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
