// Measures the package with the demo's model in headless Chromium and prints rows as JSON;
// `cargo xtask bench` runs it.
import { launch, url } from "./browser.mjs";

/** Runs of which the median is taken, after one to warm up. */
const RUNS = 5;

/** How many tabs chat at once. */
const TABS = [1, 2, 4, 8];

/** Answers of many tabs have this length, so that none ends before the others. */
const LENGTH = { max_tokens: 128, ignore_eos: true };

/** An empty page of the same origin: the demo's own would load a model of its own. */
const BLANK = `${url}blank`;

const browser = await launch();
try {
  const single = await alone();
  const rows = [...single.rows, ...(await together()), await death()];
  const on = `Chromium ${browser.version()}, built-in model, ${single.adapter}`;
  console.log(
    JSON.stringify(
      rows.map(([name, value, unit]) => ({ on, name, value, unit })),
      null,
      2,
    ),
  );
} finally {
  await browser.close();
}

/** One tab, which loads the model and asks one question after the other. */
async function alone() {
  const context = await visitor();
  const page = await open(context);
  const loaded = await page.evaluate(load);
  const heap = () => page.evaluate(async () => (await engine.metrics()).wasm_heap_bytes / 2 ** 20);
  const heapLoaded = await heap();
  const cold = await page.evaluate(chat);
  const chats = await repeat(() => page.evaluate(chat));
  const { adapter } = await page.evaluate(() => engine.info);
  const rows = [
    ["load, until ready to chat", loaded / 1000, "s"],
    ["first token of the first answer", cold.first, "ms"],
    ["first token", median(chats.map(({ first }) => first)), "ms"],
    ["decode, batch 1", median(chats.map(({ rate }) => rate)), "tokens/s"],
    ["wasm heap once loaded", heapLoaded, "MiB"],
    ["wasm heap, peak", await heap(), "MiB"],
  ];
  await context.close();
  return { adapter, rows };
}

/** Tabs that share an engine, of which more and more chat at once. */
async function together() {
  const context = await visitor();
  const pages = [];
  while (pages.length < Math.max(...TABS)) {
    pages.push(await open(context));
    await pages.at(-1).evaluate(load);
  }
  const metrics = () => pages[0].evaluate(() => engine.metrics());
  /** The tokens of all answers by the time until the last one is complete; tokens of a step. */
  const chats = async (tabs) => {
    const before = await metrics();
    const began = performance.now();
    await Promise.all(pages.slice(0, tabs).map((page) => page.evaluate(chat, LENGTH)));
    const seconds = (performance.now() - began) / 1000;
    const after = await metrics();
    const tokens = after.generation_tokens - before.generation_tokens;
    return { rate: tokens / seconds, batch: tokens / (after.steps - before.steps) };
  };
  // Few and many in turn: what else the machine does meanwhile falls on all of them.
  const round = async () => {
    const results = [];
    for (const tabs of TABS) results.push(await chats(tabs));
    return results;
  };
  await round();
  const rounds = await repeat(round);
  const middle = (of) => median(rounds.map(of));
  const rows = TABS.flatMap((tabs, i) => [
    [`${tabs} of ${pages.length} tabs at once`, middle((results) => results[i].rate), "tokens/s"],
    [`${tabs} of ${pages.length} tabs at once, batch`, middle((results) => results[i].batch), "mean"],
  ]);
  rows.push(["8 tabs at once against 1", middle((results) => results.at(-1).rate / results[0].rate), "times"]);
  await context.close();
  return rows;
}

/** The tab in whose process the engine lives crashes, in the middle of another tab's answer. */
async function death() {
  const gaps = await repeat(async () => {
    const context = await visitor();
    const [creator, other] = [await open(context), await open(context)];
    for (const page of [creator, other]) await page.evaluate(load);
    // Nobody waits for the end of it.
    other.evaluate(chat, { ...LENGTH, max_tokens: 900 }).catch(() => {});
    const pieces = (count) => other.waitForFunction((count) => globalThis.times?.length > count, count);
    await pieces(32);
    const crashed = creator.waitForEvent("crash");
    const devtools = await context.newCDPSession(creator);
    // Never answered: who could is gone.
    devtools.send("Page.crash").catch(() => {});
    await crashed;
    const known = await other.evaluate(() => times.length);
    await pieces(known);
    const times = await other.evaluate(() => times);
    await context.close();
    return Math.max(...times.slice(1).map((time, i) => time - times[i]));
  });
  return ["from the death of the engine's tab to the next token", median(gaps), "ms"];
}

async function repeat(run) {
  const results = [];
  while (results.length < RUNS) results.push(await run());
  return results;
}

function median(values) {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

/** Somebody with a browser of their own, who shares no engine with others. */
async function visitor() {
  const context = await browser.newContext();
  await context.route(BLANK, (route) => route.fulfill({ contentType: "text/html", body: "" }));
  return context;
}

async function open(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(BLANK);
  return page;
}

/** Runs in the page: loads the model and gives how long that took, in milliseconds. */
async function load() {
  const start = performance.now();
  const { Engine } = await import("/tabloom/index.js");
  globalThis.engine = await Engine.load("/model/", { host: "shared" });
  return performance.now() - start;
}

/** Runs in the page: the milliseconds to the first token and to each piece, and tokens per second. */
async function chat(more = {}) {
  const start = performance.now();
  const times = (globalThis.times = []);
  const stream = await engine.chat.completions.create({
    messages: [{ role: "user", content: "Tell me a story about a fox." }],
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
    ...more,
  });
  let tokens = 0;
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) times.push(performance.now() - start);
    tokens = chunk.usage?.completion_tokens ?? tokens;
  }
  const [first] = times;
  // The first token is the prompt's.
  const rate = ((tokens - 1) / (performance.now() - start - first)) * 1000;
  return { first, times, rate };
}
