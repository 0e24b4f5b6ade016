// The demo page: a chat with the small model that ships with it or another, and views of the engine.
// ?model=ADDRESS loads another, ?device=cpu uses no WebGPU, ?temperature=0 always gives the same answer,
// ?host=shared, leader or private says where the engine runs.

import { Archive } from "./archive.js";
import { Benchmark } from "./benchmark.js";
import { Chat } from "./chat.js";
import { Conversations } from "./conversations.js";
import { $, button } from "./dom.js";
import { BUILT_IN, Loader } from "./loader.js";
import { keepOffline } from "./offline.js";
import { Panel } from "./panel.js";
import { Picker } from "./picker.js";
import { Playground } from "./playground.js";
import { adoptProse } from "./prose.js";
import { Settings } from "./settings.js";
import { Tabs } from "./tabs.js";
import { script } from "./trusted.js";

const SUGGESTIONS = [
  "Tell me a story about a fox.",
  "What is the capital of France?",
  "What is 17 + 25?",
  "What is the opposite of hot?",
];

adoptProse();

const query = new URLSearchParams(location.search);
const loader = new Loader(query.get("model") ?? BUILT_IN, {
  device: query.get("device") === "cpu" ? "cpu" : "auto",
  host: /** @type {any} */ (query.get("host") ?? "auto"),
  workerUrl: script("worker"),
});

const settings = new Settings(
  $("set"),
  query.has("temperature") ? { temperature: Number(query.get("temperature")) } : {},
);
const speculation = $("speculation");
speculation.checked = settings.values.speculation;
speculation.addEventListener("change", () => settings.set({ speculation: speculation.checked }));
settings.addEventListener("change", () => (speculation.checked = settings.values.speculation));

const chat = new Chat(loader, settings);
new Conversations(new Archive(), chat);
new Playground(loader, settings);
new Benchmark(loader);
new Picker(loader);

const panel = new Panel($("panel"));
const tabs = new Tabs($("tabs"));
const look = () => (panel.open = tabs.current === "engine");
tabs.addEventListener("change", look);
look();

loader.addEventListener("change", () => {
  const { engine } = loader;
  panel.watch(engine);
  settings.suggest(engine?.info.sampling ?? null);
  if (!engine) return;
  const { adapter, device, software } = engine.info;
  const note = software ? "No graphics hardware found: a software adapter stands in for it. " : "";
  $("adapter").textContent =
    device === "cpu" ? "Running on the processor, without WebGPU: expect it to be slow." : `${note}${adapter}`;
  if (document.activeElement === document.body) $("prompt").focus();
});

for (const text of SUGGESTIONS) $("suggestions").append(button(text, () => chat.ask(text)));

await loader.load();
// Only now: the model comes first.
await keepOffline();
