// The demo page: a chat with the small model that ships with it or another, and views of the engine.
// ?model=ADDRESS loads another, ?device=cpu uses no WebGPU, ?temperature=0 always gives the same answer,
// ?host=shared, leader or private says where the engine runs, ?lang=de which language the page speaks.

import { Archive } from "./archive.js";
import { Better } from "./better.js";
import { Chat } from "./chat.js";
import { Conversations } from "./conversations.js";
import { $, button, html, write } from "./dom.js";
import { BUILT_IN, Loader, lastLocal, lastUsed } from "./loader.js";
import { keepOffline, offerInstall } from "./offline.js";
import { Picker } from "./picker.js";
import "./renderers.js";
import { Settings } from "./settings.js";
import { offerSite } from "./site.js";
import { Engine } from "./tabloom/index.js";
import { showSwitching } from "./switching.js";
import { Tabs } from "./tabs.js";
import { fill, loadLanguage, texts } from "./texts.js";
import { script } from "./trusted.js";

/** The built-in model knows no other language. */
const ENGLISH = texts.main.suggestions;

await loadLanguage();

const query = new URLSearchParams(location.search);
const local = query.has("model") ? "" : lastLocal();
const loader = new Loader(query.get("model") ?? (await lastUsed()) ?? BUILT_IN, {
  device: query.get("device") === "cpu" ? "cpu" : "auto",
  host: /** @type {any} */ (query.get("host") ?? "auto"),
  workerUrl: script("worker"),
  prefixCache: { storedBytes: 256 * 2 ** 20 },
});
const settings = new Settings(
  $("set"),
  query.has("temperature") ? { temperature: Number(query.get("temperature")) } : {},
);
const chat = new Chat(loader, settings);
const conversations = new Conversations(new Archive(), chat);
new Picker(loader, chat, conversations);
new Better(loader, chat);
showSwitching(loader);
offerSite(loader);
offerInstall();
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", ({ target, clientX, clientY }) => {
    const { left, right, top, bottom } = dialog.getBoundingClientRect();
    const within = clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
    if (target === dialog && !within) dialog.close();
  });
}

tellModel();
// What is known already is told above the suggestions: nothing jumps, and on a phone it is in sight.
const onCpu = query.get("device") === "cpu";
if (onCpu) tellAbove(texts.main.processor);
else if (loader.source === BUILT_IN && !("gpu" in navigator)) tellAbove(texts.main.withoutGpu);

loader.addEventListener("change", () => {
  const { current } = loader;
  settings.suit(current);
  tellModel();
  if (!current) return;
  const { adapter, device, software } = current.info;
  if (device === "cpu") tellAbove(loader.withoutGpu ? texts.main.withoutGpu : texts.main.processor);
  else write($("adapter"), software ? fill(texts.main.software, { adapter }) : adapter);
});

/** @param {string} text on what the model runs, where visitors should know */
function tellAbove(text) {
  const place = $("adapter");
  if (place.nextElementSibling !== $("suggestions")) $("suggestions").before(place);
  write(place, text);
}

/** Says how good the built-in model is, while it is the one in use, and suggests what the model in use can answer. */
function tellModel() {
  const builtIn = loader.source === BUILT_IN;
  for (const note of document.querySelectorAll(".about-built-in")) note.toggleAttribute("hidden", !builtIn);
  const [place, suggested] = [$("suggestions"), builtIn ? ENGLISH : texts.main.suggestions];
  // What stays keeps the focus.
  if (place.firstChild?.textContent === suggested[0]) return;
  place.replaceChildren(...suggested.map((text) => button(text, (event) => chat.ask(text, event))));
  place.lang = builtIn ? "en" : document.documentElement.lang;
}

/**
 * Views that are loaded when they are first shown.
 *
 * @type {Record<string, () => Promise<void>>}
 */
const views = {
  playground: async () => {
    const { Playground } = await import("./playground.js");
    return void new Playground(loader, settings);
  },
  bench: async () => {
    const { Benchmark } = await import("./benchmark.js");
    return void new Benchmark(loader);
  },
  engine: async () => {
    const { Panel } = await import("./panel.js");
    const panel = new Panel($("panel"));
    const watch = () => {
      panel.watch(loader.current);
      panel.open = tabs.current === "engine";
    };
    loader.addEventListener("change", watch);
    tabs.addEventListener("change", watch);
    watch();
    for (const type of ["change", "show"]) chat.addEventListener(type, () => panel.wake());
  },
};

const tabs = new Tabs($("tabs"));
tabs.addEventListener("change", look);
tabs.addEventListener("change", () => conversations.hush());
look();

/** Loads the view that is shown. */
function look() {
  make(tabs.current);
}

/**
 * Loads a view, unless it is there. Where that fails the view says so, and is loaded when it is shown again.
 *
 * @param {string} name
 */
async function make(name) {
  const load = views[name];
  if (!load) return;
  delete views[name];
  const view = $(name);
  view.querySelector("[role=alert]")?.remove();
  try {
    await load();
  } catch (error) {
    console.warn(error);
    views[name] = load;
    view.querySelector("h2").after(html("p", { class: "bad", role: "alert" }, texts.main.notLoaded));
  }
}

// The page is shown before the model is asked for.
await new Promise((resolve) => setTimeout(resolve));
chat.autoload();
chat.focus();
if (local) conversations.restored.then(() => chat.tell(fill(texts.loader.again, { name: local })));
// The model comes first, unless the visitor is asked about it.
if (!Engine.interrupted) await loader.load().catch(() => {});
// Its charts reach back to here.
make("engine");
await keepOffline();
