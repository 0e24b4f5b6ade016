// Measures the package with the demo's model in headless Chromium and prints rows as JSON;
// `cargo xtask bench` runs it.
import { launch, url } from "./browser.mjs";

/** Runs of which the median is taken, after one to warm up. */
const RUNS = 5;

const browser = await launch();
try {
  const page = await browser.newPage();
  // An empty page of the same origin: the demo's own would load a model of its own.
  const blank = `${url}blank`;
  await page.route(blank, (route) => route.fulfill({ contentType: "text/html", body: "" }));
  await page.goto(blank);
  const measured = await page.evaluate(measure, RUNS);
  const on = `Chromium ${browser.version()}, built-in model, ${measured.adapter}`;
  const row = ([name, value, unit]) => ({ on, name, value, unit });
  console.log(JSON.stringify(measured.rows.map(row), null, 2));
} finally {
  await browser.close();
}

/** Runs in the page. */
async function measure(runs) {
  const start = performance.now();
  const { Engine } = await import("/tabloom/index.js");
  const engine = await Engine.load("/model/");
  const loaded = performance.now() - start;
  const heap = async () => (await engine.metrics()).wasm_heap_bytes / 2 ** 20;
  const heapLoaded = await heap();

  async function chat() {
    const start = performance.now();
    const stream = await engine.chat.completions.create({
      messages: [{ role: "user", content: "Tell me a story about a fox." }],
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
    });
    let first;
    let tokens = 0;
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) first ??= performance.now();
      tokens = chunk.usage?.completion_tokens ?? tokens;
    }
    // The first token is the prompt's.
    const rate = ((tokens - 1) / (performance.now() - first)) * 1000;
    return { first: first - start, rate };
  }
  const { first: cold } = await chat();
  const chats = [];
  for (let run = 0; run < runs; run++) chats.push(await chat());
  const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

  const rows = [
    ["load, until ready to chat", loaded / 1000, "s"],
    ["first token of the first answer", cold, "ms"],
    ["first token", median(chats.map((chat) => chat.first)), "ms"],
    ["decode, batch 1", median(chats.map((chat) => chat.rate)), "tokens/s"],
    ["wasm heap once loaded", heapLoaded, "MiB"],
    ["wasm heap, peak", await heap(), "MiB"],
  ];
  return { adapter: engine.info.adapter, rows };
}
