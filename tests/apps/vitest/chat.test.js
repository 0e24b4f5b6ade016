import { expect, test } from "vitest";
import "tabloom/element";

test("a chat shows what its engine says", async () => {
  const chat = document.createElement("tabloom-chat");
  chat.engine = /** @type {any} */ ({
    info: { context: 4096 },
    countTokens: async () => 1,
    chat: { completions: { create: async () => said("Hello") } },
  });
  document.body.append(chat);
  await chat.send("Hi");
  expect(chat.messages.at(-1)).toEqual({ role: "assistant", content: "Hello" });
  expect(chat.shadowRoot.querySelector("[part~=assistant] [part~=text]").textContent).toBe("Hello");
});

async function* said(/** @type {string} */ content) {
  yield { choices: [{ delta: { content }, finish_reason: "stop" }] };
}
