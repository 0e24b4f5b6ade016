// The demo page: loads the small model that ships with it, or one from the visitor's disk, and chats.
// ?model=ADDRESS loads another, ?device=cpu does without WebGPU, ?temperature=0 always answers alike,
// ?host=shared, leader or private says what the engine runs in.

import { Engine } from "./tabloom/index.js";
import { Answer } from "./answer.js";
import { html } from "./dom.js";
import { formatBytes, Speed } from "./format.js";
import { Panel } from "./panel.js";

const SUGGESTIONS = [
  "Tell me a story about a fox.",
  "What is the capital of France?",
  "What is 17 + 25?",
  "What is the opposite of hot?",
];

/** Errors after which an engine, which survives a lost worker or device by itself, has given up. */
const GONE = ["engine_crashed", "no_gpu", "closed"];

// The page requires Trusted Types, so the worker's address comes from a policy that knows no other.
const workerUrl = globalThis.trustedTypes
  ?.createPolicy("worker", { createScriptURL: () => `${new URL("tabloom/worker.js", location.href)}` })
  .createScriptURL("");

const query = new URLSearchParams(location.search);
const temperature = query.has("temperature") ? Number(query.get("temperature")) : undefined;
const host = /** @type {any} */ (query.get("host") ?? "auto");

/** @param {string} id */
const $ = (id) => /** @type {any} */ (document.getElementById(id));
const [messages, prompt, send, stop, clear] = ["messages", "prompt", "send", "stop", "clear"].map($);
const panel = new Panel($("panel"));

/** @type {import("./tabloom/index.js").ModelSource} */
let model = query.get("model") ?? "model/";
/** @type {Engine | null} */
let engine = null;
/** @type {AbortController | null} */
let loading = null;
/** @type {{role: "user" | "assistant", content: string}[]} */
let conversation = [];
/** @type {AbortController | null} */
let answering = null;

/** @type {"auto" | "cpu"} */
let device = query.get("device") === "cpu" ? "cpu" : "auto";

async function load() {
  loading?.abort();
  loading = new AbortController();
  const { signal } = loading;
  $("problem").hidden = true;
  $("loading").hidden = false;
  try {
    engine = await Engine.load(model, { device, host, workerUrl, onProgress: showProgress, signal });
  } catch (/** @type {any} */ error) {
    if (signal.aborted) return;
    const noGpu = error.code === "no_gpu";
    showProblem(noGpu ? "This browser offers no WebGPU" : "The model could not be loaded", error);
    return;
  } finally {
    if (!signal.aborted) $("loading").hidden = true;
  }
  panel.watch(engine);
  const { adapter, device: used, software } = engine.info;
  const note = software ? "No graphics hardware found: a software adapter stands in for it. " : "";
  $("adapter").textContent =
    used === "cpu"
      ? "Running on the processor, without WebGPU: expect it to be slow."
      : `${note}${adapter}`;
  $("suggestions").hidden = conversation.length > 0;
  setBusy(false);
  prompt.focus();
}

/**
 * Goes over to another model, with a new conversation.
 *
 * @param {import("./tabloom/index.js").ModelSource} source
 */
function use(source) {
  engine?.close();
  engine = null;
  panel.watch(null);
  model = source;
  forget();
  $("suggestions").hidden = true;
  setBusy(false);
  load();
}

/** Ends the conversation. */
function forget() {
  answering?.abort();
  conversation = [];
  messages.replaceChildren();
  $("speed").textContent = "";
  $("suggestions").hidden = false;
}

/**
 * What was dropped on the page: a folder's handle, where browsers give one, or files.
 *
 * @param {DataTransfer} transfer
 */
async function dropped({ items, files }) {
  // Later there is nothing in it any more.
  const given = Array.from(files);
  const handle = await /** @type {any} */ (items[0]).getAsFileSystemHandle?.();
  return handle?.kind === "directory" ? handle : given;
}

/** @param {import("./tabloom/index.js").Progress} progress */
function showProgress({ stage, file, loaded, total, rate }) {
  const bar = $("loading-bar");
  if (total > 0) [bar.max, bar.value] = [total, loaded];
  else bar.removeAttribute("value");
  $("loading-label").textContent =
    stage === "download" ? "Loading the model…" : "Preparing the GPU kernels…";
  $("loading-detail").textContent =
    stage === "download"
      ? `${file}: ${formatBytes(loaded)} of ${formatBytes(total)}, ${formatBytes(rate)}/s`
      : `${loaded} of ${total}`;
}

/**
 * @param {string} title
 * @param {any} error
 */
function showProblem(title, error) {
  $("problem-title").textContent = title;
  $("problem-text").textContent = error.message;
  $("use-cpu").hidden = error.code !== "no_gpu";
  $("problem").hidden = false;
  $(error.code === "no_gpu" ? "use-cpu" : "retry").focus();
}

/** @param {boolean} busy */
function setBusy(busy) {
  prompt.disabled = send.disabled = clear.disabled = !engine;
  send.hidden = busy;
  stop.hidden = !busy;
}

/**
 * @param {"user" | "assistant"} role
 * @param {...Node} children
 */
function addMessage(role, ...children) {
  const item = html("li", { class: role }, ...children);
  messages.append(item);
  scrollToEnd();
  return item;
}

function scrollToEnd() {
  window.scrollTo(0, document.documentElement.scrollHeight);
}

/** Whether the end is in view: who has scrolled up to read is left there. */
function atEnd() {
  const { scrollHeight, scrollTop, clientHeight } = document.documentElement;
  return scrollHeight - scrollTop - clientHeight < 64;
}

/** @param {string} text */
async function ask(text) {
  if (!engine || answering) return;
  $("suggestions").hidden = true;
  conversation.push({ role: "user", content: text });
  addMessage("user", html("p", { class: "text" }, text));
  const item = addMessage("assistant");
  const answer = new Answer(item);
  item.classList.add("waiting");
  // A screen reader should hear the whole answer, not every piece of it.
  $("log").setAttribute("aria-busy", "true");

  answering = new AbortController();
  const { signal } = answering;
  const asked = conversation;
  setBusy(true);
  const speed = new Speed(performance.now());
  try {
    const chunks = await engine.chat.completions.create(
      {
        messages: conversation,
        stream: true,
        stream_options: { include_usage: true },
        temperature,
        speculative_decoding: $("guess").checked,
      },
      { signal },
    );
    for await (const chunk of chunks) {
      const { delta, drafted } = chunk.choices[0] ?? {};
      const piece = delta?.content ?? "";
      if (piece) speed.token(performance.now());
      const follow = atEnd();
      answer.add(piece, drafted);
      if (chunk.usage) {
        speed.finish(chunk.usage.completion_tokens);
        answer.count(chunk.usage);
      }
      $("speed").textContent = speed.text();
      if (follow) scrollToEnd();
    }
  } catch (/** @type {any} */ error) {
    if (signal.aborted) {
      if (!answer.content) answer.note("(stopped)");
    } else {
      item.classList.add("failed");
      answer.note(error.message);
    }
    if (GONE.includes(error.code)) {
      engine.close();
      engine = null;
      panel.watch(null);
      showProblem("The model has stopped", error);
    }
  } finally {
    item.classList.remove("waiting");
    $("log").removeAttribute("aria-busy");
    // A question without an answer would only confuse the next one.
    if (answer.content) asked.push({ role: "assistant", content: answer.content });
    else asked.pop();
    answering = null;
    setBusy(false);
    if (engine) prompt.focus();
  }
}

$("composer").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  const text = prompt.value.trim();
  if (!text || answering) return;
  prompt.value = "";
  ask(text);
});

prompt.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
});

stop.addEventListener("click", () => answering?.abort());

document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") answering?.abort();
});

clear.addEventListener("click", () => {
  forget();
  prompt.focus();
});

for (const picker of ["file", "folder"].map($)) {
  picker.addEventListener("change", () => picker.files.length > 0 && use(Array.from(picker.files)));
}
document.addEventListener("dragover", (event) => {
  if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
});
document.addEventListener("drop", async (event) => {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  use(await dropped(event.dataTransfer));
});

$("retry").addEventListener("click", load);
$("use-cpu").addEventListener("click", () => {
  device = "cpu";
  load();
});

for (const text of SUGGESTIONS) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", () => ask(text));
  $("suggestions").append(button);
}

load();
