// Every view and state of the demo page and of the element: what all of them are held to, and what the
// contact sheet shows.
import { launch } from "./browser.mjs";
import { INPUT, MESSAGES, PROBLEM, ask, begin as hold, loaded, open, ready, say } from "./demo.mjs";
import { holdAnswers } from "./hold.mjs";
import { modelFile, serve } from "./server.mjs";

/** @import { Page } from "playwright-core" */

const QUESTION = "What is the capital of France?";
const STORY = "Tell me a story about a fox.";

const user = (content, more = {}) => ({ role: "user", content, ...more });
const assistant = (content, more = {}) => ({ role: "assistant", content, ...more });

const TEXT = `## Prime numbers

A number above 1 is **prime** if only 1 and *itself* divide it; see [the list](https://oeis.org/A000040).

1. Write down the numbers from 2 on.
2. Keep the first, and cross out its multiples:
   - of 2: 4, 6, 8 …
   - of 3: 9, 15, 21 …

> It is enough to go up to the square root, \`Math.sqrt(n)\`.

\`\`\`js
/** Whether a number is prime; for those above 1 only, which is what everybody means by the word. */
function isPrime(n) {
  for (let i = 2; i * i <= n; i++) if (n % i === 0) return false;
  return true; // nothing divides it
}
\`\`\`

About $n / \\ln n$ of the numbers up to $n$ are prime, and

\\[ \\prod_{p} \\frac{1}{1 - p^{-s}} = \\sum_{n=1}^\\infty \\frac{1}{n^s} \\]`;

const TABLE = `Here they are, from the Sun outwards:

| Planet | Diameter | Day | Year | Moons | Known for | First visited by |
|---|--:|--:|--:|--:|---|---|
| Mercury | 4,879 km | 176 days | 88 days | 0 | Its long days and cold nights, as it has next to no air | Mariner 10 (1974) |
| Venus | 12,104 km | 117 days | 225 days | 0 | Clouds of sulphuric acid above the hottest ground of all planets | Mariner 2 (1962) |
| Earth | 12,756 km | 24 hours | 365 days | 1 | You | – |
| Mars | 6,792 km | 24.7 hours | 687 days | 2 | Rust | Mariner 4 (1965) |

| Small | Table |
|---|---|
| a | b |

Shall I go on with the others?`;

const NOTES = `The fox is red. It sleeps by day, and hunts at night.
${"It has been seen near the river and behind the mill. ".repeat(8)}`;
const ATTACHED = `\`notes.txt\`:\n\`\`\`\n${NOTES}\n\`\`\`\n\nWhat colour is the fox?`;

const VERSIONS = [
  user(QUESTION, { versions: [null, [user("What is the capital of Spain?"), assistant("It is Madrid.")]] }),
  assistant("The capital of France is Paris."),
];

const TITLES = [
  STORY,
  QUESTION,
  "Planets and their moons",
  "Donaudampfschifffahrtsgesellschaftskapitän",
  "A letter to the landlord about the heating",
  "日本の首都はどこですか",
  "Prime numbers",
  "17 + 25",
];

const RUNS = [1, 2, 4].flatMap((requests) =>
  [false, true].map((drafts) => ({
    requests,
    drafts,
    first_token_ms: 21.4 * requests,
    tokens_per_second: 96.5 + 31 * requests + (drafts ? 24.8 : 0),
    tokens_per_second_least: 92.5 + 31 * requests,
    tokens_per_second_most: 99.5 + 31 * requests + (drafts ? 24.8 : 0),
    tokens: 48 * requests,
    accepted_tokens: drafts ? 17 * requests : 0,
  })),
);
const REPORT = { name: "Built-in model", device: "cpu", adapter: "", load_ms: 412, date: "2026-03-01", runs: RUNS };

/** Imports conversations, the last of which is shown. */
async function imported(page, ...conversations) {
  const files = conversations.map(({ title, messages }, i) => ({
    name: `${i}.json`,
    mimeType: "application/json",
    buffer: Buffer.from(JSON.stringify({ title, messages, model: "Built-in model", changed: 9e11 - 2e8 * i })),
  }));
  await page.locator("#import-file").setInputFiles(files);
  await page.locator("#conversation-list [aria-current=true]", { hasText: conversations.at(-1).title }).waitFor();
  await page.locator(MESSAGES).first().waitFor();
  if (conversations.at(-1).messages.some(({ content }) => content === TEXT)) await formulas(page);
}

/** What is loaded for them has set formulas, and coloured code. */
async function formulas(page) {
  await page.locator(`${MESSAGES} math`).first().waitFor({ state: "attached" });
  await page.locator(`${MESSAGES} [part=code-keyword]`).first().waitFor();
}

/** The page with a conversation of these messages. */
const conversation =
  (title, ...messages) =>
  (page) =>
    imported(page, { title, messages });

/** The page with a list of conversations, which is folded where there is little room. */
async function list(page) {
  await imported(page, ...TITLES.map((title) => ({ title, messages: [user(title), assistant("It is so.")] })));
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator("#show-history").click();
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** The element with these messages. */
const messages =
  (...messages) =>
  (page) =>
    page.locator("tabloom-chat").evaluate((/** @type {TabloomChat} */ chat, messages) => {
      chat.messages = messages;
    }, messages);

/** The page with another of its views. */
async function view(page, name) {
  await page.locator(`#tab-${name}`).click();
  await page
    .locator(`#${name} :is(#example option, .chart, #bench-peers li, #set)`)
    .first()
    .waitFor({ state: "attached" });
}

/** The playground after a schema was asked for. */
async function play(page, verdict, schema) {
  await view(page, "playground");
  if (schema) await page.locator("#schema").fill(schema);
  await page.locator("#play-run").click();
  await page.locator(`#verdict.${verdict}`).waitFor();
}

/** The picker, from which an address is loaded that there is nothing at. */
async function choose(page, address) {
  await page.locator("#choose").click();
  await page.locator("#suggested li").first().waitFor();
  if (!address) return;
  await page.locator("#address").fill(address);
  await page.keyboard.press("Enter");
  await page.locator(PROBLEM).waitFor();
}

/**
 * Two tabs that ask one engine, one of them with the Engine view.
 *
 * @param {Page} engine
 * @param {Page} chat
 */
export async function share(engine, chat) {
  await ask(engine, QUESTION);
  await say(chat, STORY);
  await say(engine, "Tell me a story about a cat.");
  await view(engine, "engine");
}

/** What a page with an element has beside it. */
const html = (attributes) => `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>A page with a chat</title>
<link rel="icon" href="icon.svg">
<style>:root { color-scheme: light dark; font-family: system-ui } main { max-width: 60rem; margin: auto; padding: 0 1rem }</style>
<script type="module" src="tabloom/element.js"></script>
<main><h1>A site</h1><h2>Questions?</h2><tabloom-chat device="cpu" temperature="0" ${attributes}></tabloom-chat></main>`;

const weights = await modelFile("model.safetensors");
const half = (response) => {
  response.writeHead(200, { "content-length": weights.length });
  response.write(weights.subarray(0, weights.length / 2));
};
const { chat_template: _, ...plain } = JSON.parse(`${await modelFile("tokenizer_config.json")}`);
const FILES = {
  "": {
    "element.html": html(`model="model/"`),
    "slow.html": html(`model="models/slow/" autoload`),
    "broken.html": html(`model="nowhere/"`),
    "gpu.html": html(`model="model/"`).replace('device="cpu"', ""),
    "box.html": html(`model="model/" style="inline-size: 18rem; block-size: 20rem"`),
  },
  "models/slow/": { "model.safetensors": half },
  "models/base/": { "tokenizer_config.json": JSON.stringify(plain) },
};

const element = { loads: false, at: "element.html" };

/**
 * `at`: the address; `loads`: whether the page's model is loaded first; `show`: brings the page to the
 * state; `fails`: whether something is not there, which the console reports too.
 *
 * @typedef {{at?: string, loads?: boolean, show?: (page: Page) => Promise<unknown>, fails?: boolean, webgpu?: boolean}} State
 */

/** @type {Record<string, State>} */
export const STATES = {
  "page: welcome": {},
  "page: loading": {
    at: "?model=models/slow/&device=cpu",
    loads: false,
    show: (page) => page.getByText(/^[\d.]+ \/ [\d.]+ MB$/).waitFor(),
  },
  "page: loading cancelled": {
    at: "?model=models/slow/&device=cpu",
    loads: false,
    show: async (page) => {
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.getByRole("button", { name: "Load the model" }).waitFor();
    },
  },
  "page: no model": {
    at: "?model=nowhere/&device=cpu",
    loads: false,
    fails: true,
    show: (page) => page.locator(PROBLEM).waitFor(),
  },
  "page: not for chats": {
    at: "?model=models/base/&device=cpu",
    show: (page) => page.locator(PROBLEM, { hasText: "not made for chats" }).waitFor(),
  },
  "page: newer version": {
    show: (page) => page.evaluate(() => document.getElementById("update").removeAttribute("hidden")),
  },
  "page: model stays": { fails: true, show: (page) => choose(page, "nowhere/else/") },

  "page: another model": {
    show: async (page) => {
      await choose(page);
      await page.locator("#address").fill("models/slow/");
      await page.keyboard.press("Enter");
      await page.locator("#switching", { hasText: /[kM]B/ }).waitFor();
    },
  },
  "page: with a system prompt": {
    show: async (page) => {
      await view(page, "settings");
      await page.locator("[name=system]").fill("Answer in one short sentence.");
      await page.locator("#tab-chat").click();
      await page.locator("#changed").waitFor();
    },
  },

  "chat: answered": { show: (page) => ask(page, QUESTION) },
  "chat: too hard": { show: (page) => ask(page, "Explain the theory of relativity to me.") },
  "chat: next": {
    show: async (page) => {
      await hold(page, STORY);
      await say(page, "And one about a cat, please, which lives in the house of an old woman by the river.");
      await page.locator("#conversation [part=next]").waitFor();
      await page.locator(INPUT).fill("A draft");
    },
  },
  "chat: long": {
    show: async (page) => {
      await imported(page, {
        title: "Long",
        messages: [user("Say yes. ".repeat(80)), assistant("Yes. ".repeat(120))],
      });
      await page.locator("#long").waitFor();
    },
  },
  "chat: deleted in another tab": {
    show: async (page) => {
      await imported(page, { title: QUESTION, messages: VERSIONS });
      const { page: other } = await ready(page.context(), page.url());
      await other.locator("#delete-all").click();
      await other.locator("#delete-all").click();
      await other.locator("#undo").waitFor();
      await other.close();
      await page.locator("#lost").waitFor();
    },
  },
  "chat: text and code": {
    show: conversation("Primes", user("What is a prime?"), assistant(TEXT, { end: "stopped" })),
  },
  "chat: tables": { show: conversation("Planets", user("Which planets are there?"), assistant(TABLE)) },
  "chat: scrolled up": {
    show: async (page) => {
      await imported(page, {
        title: "Both",
        messages: [user("Both"), assistant(TEXT), user("More"), assistant(TABLE)],
      });
      await page.locator("#conversation .log").evaluate((log) => log.scrollTo(0, 0));
      await page.locator("#conversation [part~=latest]").waitFor();
    },
  },
  "chat: versions": { show: conversation("France", ...VERSIONS) },
  "chat: editing": {
    show: async (page) => {
      await imported(page, { title: "Capitals", messages: VERSIONS });
      await page.getByRole("button", { name: "Edit question" }).click();
    },
  },
  "chat: attaching": {
    show: async (page) => {
      const file = (name) => ({ name, mimeType: "text/plain", buffer: Buffer.from(NOTES) });
      await page
        .locator("#conversation input[type=file]")
        .setInputFiles([file("notes.txt"), file("a-rather-long-name-of-a-file.md")]);
      await page.locator("#conversation [part=attachment]").nth(1).waitFor();
      await page.locator("#conversation input[type=file]").setInputFiles({ ...file("cat.png"), buffer: Buffer.of(0) });
      await page.locator("#conversation [part=notice]").waitFor();
      await page.locator(INPUT).fill("What colour is the fox?");
    },
  },
  "chat: attached": { show: conversation("A fox", user(ATTACHED), assistant("The fox is red.")) },
  "chat: attachment open": {
    show: async (page) => {
      await imported(page, { title: "The fox", messages: [user(ATTACHED), assistant("The fox is red.")] });
      await page.locator("#conversation summary").click();
    },
  },

  "chat: read aloud": {
    show: async (page) => {
      await page.evaluate(() => {
        const speechSynthesis = Object.assign(new EventTarget(), {
          getVoices: () => [{ lang: "en", localService: true }],
          speak() {},
          cancel() {},
        });
        Object.defineProperty(globalThis, "speechSynthesis", { value: speechSynthesis });
        /** @type {any} */ (globalThis).SpeechSynthesisUtterance = EventTarget;
      });
      await imported(page, { title: "Capitals", messages: VERSIONS });
      await page.getByRole("button", { name: "Read aloud" }).click();
      await page.locator("#conversation button[aria-pressed=true]").waitFor();
    },
  },
  "chat: dropping": {
    show: async (page) => {
      await page.locator("#conversation [part=chat]").evaluate((area) => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File(["text"], "notes.txt"));
        area.dispatchEvent(new DragEvent("dragover", { dataTransfer, bubbles: true, cancelable: true }));
      });
      await page.locator("#conversation .dropping").waitFor();
    },
  },
  "chat: another tab answers": {
    show: async (page) => {
      await imported(page, { title: "Capitals", messages: VERSIONS });
      await page.evaluate(() => {
        const tabs = new BroadcastChannel("tabloom-demo");
        const id = sessionStorage.getItem("tabloom-conversation");
        const tell = () => tabs.postMessage({ id, growing: true });
        setInterval(tell, 1_000);
        tell();
      });
      await page.locator("#said", { hasText: "Another tab is getting an answer here." }).waitFor();
    },
  },

  "list: conversations": { show: list },
  "list: storage full": {
    show: async (page) => {
      await page.evaluate(() => {
        IDBObjectStore.prototype.put = () => {
          throw new DOMException("There is no room.", "QuotaExceededError");
        };
      });
      await ask(page, QUESTION);
      await page.locator("#said", { hasText: "storage is full" }).waitFor();
    },
  },
  "list: can be installed": {
    show: async (page) => {
      await list(page);
      await page.evaluate(() => void dispatchEvent(new Event("beforeinstallprompt", { cancelable: true })));
      await page.locator("#install:not([hidden])").waitFor({ state: "attached" });
    },
  },
  "list: menu": {
    show: async (page) => {
      await list(page);
      await page.locator("#conversation-list .icon").first().click();
    },
  },
  "list: renaming": {
    show: async (page) => {
      await list(page);
      await page.locator("#conversation-list .icon").first().click();
      await page.getByRole("menuitem", { name: "Rename" }).click();
      await page.locator("#conversation-list input").waitFor();
    },
  },
  "list: not imported": {
    show: async (page) => {
      await page
        .locator("#import-file")
        .setInputFiles({ name: "rubbish.json", mimeType: "application/json", buffer: Buffer.from("{}") });
      await page.locator("#said", { hasText: "is not a saved conversation" }).waitFor();
    },
  },
  "list: found": {
    show: async (page) => {
      await list(page);
      await page.locator("#search").fill("planets");
    },
  },
  "list: found where it was said": {
    show: async (page) => {
      await list(page);
      await page.locator("#search").fill("it is so");
      await page.locator("#conversation-list .excerpt").first().waitFor();
    },
  },
  "list: nothing found": {
    show: async (page) => {
      await list(page);
      await page.locator("#search").fill("zebra");
      await page.locator("#nothing-found", { hasText: /./ }).waitFor();
    },
  },
  "list: about to delete all": {
    show: async (page) => {
      await list(page);
      await page.locator("#delete-all").click();
    },
  },
  "list: deleted": {
    show: async (page) => {
      await list(page);
      await page.locator("#delete-all").click();
      await page.locator("#delete-all").click();
      await page.locator("#undo").waitFor();
    },
  },

  "dialog: model": { show: choose },
  "dialog: model without a network": {
    show: async (page) => {
      await page.evaluate(() => Object.defineProperty(navigator, "onLine", { value: false }));
      await choose(page);
      await page.locator("#room", { hasText: "There is no network now" }).waitFor();
    },
  },
  "dialog: better model": {
    show: async (page) => {
      await page.locator("#get-better").click();
      await page.locator("#upgrades li").first().waitFor();
    },
  },
  "dialog: site": { show: (page) => page.locator("#chat .embed").click() },

  "playground: before": { show: (page) => view(page, "playground") },
  "playground: answering": {
    show: async (page) => {
      await view(page, "playground");
      await holdAnswers(page, 1);
      await page.locator("#play-run").click();
      await page.locator("#answer", { hasText: /./ }).waitFor();
    },
  },
  "playground: answered": { show: (page) => play(page, "good") },
  "playground: refused": { show: (page) => play(page, "bad", '{"type": "nonsense"}') },
  "engine: idle": { show: (page) => view(page, "engine") },
  "engine: two tabs": { show: async (page) => share(page, (await ready(page.context(), page.url())).page) },
  "engine: no model": {
    at: "?model=nowhere/&device=cpu",
    loads: false,
    fails: true,
    show: async (page) => {
      await page.locator(PROBLEM).waitFor();
      await page.locator("#tab-engine").click();
      await page.locator("#panel", { hasText: "No model is loaded." }).waitFor();
    },
  },
  "bench: before": { show: (page) => view(page, "bench") },
  "bench: running": {
    show: async (page) => {
      await view(page, "bench");
      await holdAnswers(page);
      await page.locator("#bench-run").click();
      await page.locator("#bench-state", { hasText: "Warming up" }).waitFor();
    },
  },
  "bench: after": {
    show: async (page) => {
      await page.evaluate((report) => localStorage.setItem("tabloom-bench", JSON.stringify(report)), REPORT);
      await view(page, "bench");
    },
  },
  "settings: defaults": { show: (page) => view(page, "settings") },
  "settings: changed": {
    show: async (page) => {
      await view(page, "settings");
      await page.locator("[name=system]").fill("Answer in one short sentence.");
      await page.locator("[name=temperature]").fill("7");
    },
  },

  "settings: put back": {
    show: async (page) => {
      await view(page, "settings");
      await page.locator("[name=temperature]").fill("1");
      await page.locator("#set [type=reset]").click();
      await page.locator("#undo-reset").waitFor();
    },
  },

  "element: before": { ...element },
  "element: loading": {
    ...element,
    at: "slow.html",
    show: (page) => page.getByText(/^[\d.]+ \/ [\d.]+ MB$/).waitFor(),
  },
  "element: ready": {
    ...element,
    show: (page) =>
      page.locator("tabloom-chat").evaluate(async (/** @type {TabloomChat} */ chat) => void (await chat.load())),
  },
  "element: answered": {
    ...element,
    show: (page) =>
      page.locator("tabloom-chat").evaluate((/** @type {TabloomChat} */ chat, text) => chat.send(text), QUESTION),
  },
  "element: failed": {
    ...element,
    at: "broken.html",
    fails: true,
    show: async (page) => {
      await page.getByRole("button", { name: "Load" }).click();
      await page.getByRole("alert").waitFor();
    },
  },
  "element: interrupted": {
    ...element,
    at: "slow.html",
    show: async (page) => {
      await page.addInitScript(() => sessionStorage.setItem("tabloom loading", ""));
      await page.reload();
      await page.getByRole("alert").waitFor();
    },
  },
  "element: dictating": {
    ...element,
    show: async (page) => {
      await page.locator("tabloom-chat").evaluate((chat) => {
        /** @type {any} */ (globalThis).SpeechRecognition = class {
          static available = async () => "available";
          start() {}
          abort() {}
        };
        chat.replaceWith(chat.cloneNode());
      });
      await page.locator("[part~=dictate]").click();
      await page.locator("[part~=dictate][aria-pressed=true]").waitFor();
    },
  },
  "element: new chat": {
    ...element,
    show: async (page) => {
      await messages(...VERSIONS)(page);
      await page.getByRole("button", { name: "New chat" }).click();
      await page.getByRole("button", { name: "Undo" }).waitFor();
    },
  },
  "element: text and code": { ...element, show: messages(user("What is a prime?"), assistant(TEXT)) },
  "element: small": { ...element, at: "box.html", show: messages(user(ATTACHED), assistant(TABLE, { end: "length" })) },

  // Last, as it takes another browser.
  "element: without WebGPU": {
    ...element,
    at: "gpu.html",
    webgpu: false,
    show: async (page) => {
      await page.getByRole("button", { name: "Load" }).click();
      await page.getByRole("alert").waitFor();
    },
  },
  "page: without WebGPU": { at: "?temperature=0", webgpu: false },
};

/** Browsers in which states are opened, one after the other. */
export async function begin() {
  const server = await serve(FILES);
  let browser;
  let context;
  let now;

  /** A context with WebGPU or without. */
  async function contextOf(webgpu) {
    if (now !== webgpu) {
      await browser?.close();
      browser = await launch({ webgpu });
      // Nothing moves while it is looked at.
      context = await browser.newContext({ reducedMotion: "reduce", serviceWorkers: "block" });
      now = webgpu;
    }
    for (const page of context.pages()) await page.close();
    return context;
  }

  return {
    /**
     * A fresh page in a state; that before it is closed.
     *
     * @param {string} name
     */
    async bring(name) {
      const { at = "?device=cpu&temperature=0", loads = true, show, webgpu = true } = STATES[name];
      const opened = await open(await contextOf(webgpu), `${server.url}${at}`);
      if (loads) await loaded(opened.page);
      await show?.(opened.page);
      return opened;
    },
    async close() {
      await browser?.close();
      await server.close();
    },
  };
}
