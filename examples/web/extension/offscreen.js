import { Engine } from "./tabloom/index.js";

// The model is a part of the extension, and its files are named: those that a model may lack, too, are
// asked for where only an address is known, and an extension's address fails for files that it lacks.
const FILES = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
const read = async (name) => [name, await (await fetch(`model/${name}`)).blob()];

const loading = Promise.all(FILES.map(read)).then((files) => Engine.load(Object.fromEntries(files)));

chrome.runtime.onMessage.addListener(({ to, question }, _, respond) => {
  if (to !== "engine") return;
  answer(question).then(respond, (error) => respond({ error: error.message }));
  return true; // It answers later.
});

async function answer(content) {
  const engine = await loading;
  const { choices } = await engine.chat.completions.create({ messages: [{ role: "user", content }] });
  return { answer: choices[0].message.content };
}
