import { Engine } from "./tabloom/index.js";

// The model is a part of the extension.
const loading = Engine.load("model/");

chrome.runtime.onMessage.addListener(({ to, question }, _, respond) => {
  if (to !== "engine") return;
  answer(question).then(respond, (error) => respond({ error: error.message }));
  return true; // It answers later.
});

/** @param {string} content */
async function answer(content) {
  const engine = await loading;
  const { choices } = await engine.chat.completions.create({ messages: [{ role: "user", content }] });
  return { answer: choices[0].message.content };
}
