// Measures the longest task of the main thread while the demo page and the element alone do what could hold
// them up, in headless Chromium, at full speed and at a quarter of it; prints a table. A scripted host stands
// in for the engine (fake-host.js), which answers at 100 tokens a second whatever the machine. Counted is
// the time on the CPU: what else the machine does meanwhile is none of the page's. With TABLOOM_URL and
// TABLOOM_CHROMIUM set as for the tests, all of it or what is named, the best of some runs:
//   node tests/e2e/tasks.mjs [--runs=3] [answer|list|search|open|element-answer|element-open]...
import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { launch } from "./browser.mjs";
import { keep, loaded, open } from "./demo.mjs";
import { serve } from "./server.mjs";

/** Milliseconds between two tokens. */
const PAUSE = 10;
/** Divisors of the CPU's speed. */
const SLOWER = [1, 4];
const CONVERSATIONS = 500;
const LONG = "A long conversation";

const ANSWER = answer(7);
const conversation = Array.from({ length: 200 }, (_, i) =>
  i % 2 ? { role: "assistant", content: answer(1) } : { role: "user", content: `Question ${i}: what is it?` },
);

/** What is measured, in a context where all conversations are kept: the most milliseconds, and how. */
const CASES = {
  answer: [50, (run) => run(quiet, (page) => asked(page))],
  list: [100, (run) => run(null, (page) => listed(page))],
  search: [
    100,
    (run) =>
      run(listed, async (page) => {
        await page.locator("#search").pressSequentially("number 17", { delay: 80 });
        await page.waitForFunction(() => document.querySelectorAll("#conversation-list li").length < 100);
        await page.locator("#search").press("Control+A");
        await page.locator("#search").press("Delete");
        await listed(page);
      }),
  ],
  open: [
    100,
    (run) =>
      run(quiet, async (page) => {
        await page.locator("#conversation-list .title", { hasText: LONG }).click();
        await settled(page);
      }),
  ],
  "element-answer": [50, (run) => run(quiet, (page) => asked(page, "tabloom-chat"), "chat.html")],
  "element-open": [100, (run) => run(null, (page) => settled(page, "tabloom-chat"), "kept.html")],
};

const names = process.argv.slice(2).filter((name) => name in CASES);
const runs = Number(/--runs=(\d+)/.exec(process.argv.join(" "))?.[1] ?? 3);
const fates = {
  load: { info: { context: 32_768, weightBytes: 5e6, adapter: "a scripted host" } },
  chat: {
    pieces: ANSWER.match(/\s*[^\s]{1,5}|\s+/g),
    pause: PAUSE,
    usage: {
      total_tokens: 5_000,
      completion_tokens_details: { accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
    },
  },
};
const html = (attributes) => `<!doctype html><meta charset="utf-8"><title>A chat</title>
<script type="module" src="tabloom/element.js"></script><tabloom-chat model="model/" ${attributes}></tabloom-chat>`;
const server = await serve({
  "": {
    "chat.html": html(`storage="session"`),
    "kept.html": html(`id="kept" storage="local"`),
    fate: async (response) => {
      const body = [];
      for await (const piece of response.req) body.push(piece);
      response.end(JSON.stringify(fates[JSON.parse(Buffer.concat(body).toString()).type] ?? {}));
    },
  },
  "tabloom/wasm/": { "tabloom.js": readFileSync(new URL("fake-host.js", import.meta.url), "utf8") },
});
const browser = await launch();
try {
  const context = await browser.newContext({ serviceWorkers: "block" });
  await fill(context);
  const words = ANSWER.split(/\s+/).length;
  console.log(`Chromium ${browser.version()}, ${cpus().length} × ${cpus()[0].model}, best of ${runs}`);
  console.log(`an answer of ${words} words, ${CONVERSATIONS} conversations, one of ${conversation.length} messages`);
  console.log("\nlongest task, ms | limit | full speed | a quarter | in it\n---|---|---|---|---");
  for (const name of names.length > 0 ? names : Object.keys(CASES)) {
    const [limit, what] = CASES[name];
    const cells = [];
    for (const slower of SLOWER) {
      const found = [];
      for (let i = 0; i < runs; i++)
        found.push(await what((prepare, act, file) => longest(context, slower, prepare, act, file)));
      cells.push(found.sort((a, b) => a.ms - b.ms)[0]);
    }
    const [full, quarter] = cells.map(({ ms }) => ms.toFixed(0));
    console.log([name, limit, full, quarter, cells.at(-1).inside].join(" | "));
  }
} finally {
  await browser.close();
  await server.close();
}

/**
 * The longest task of a page's main thread, and what took longest in it.
 *
 * @param {import("playwright-core").BrowserContext} context
 * @param {number} slower
 * @param {((page: import("playwright-core").Page) => Promise<unknown>) | null} prepare null to measure how it opens
 * @param {(page: import("playwright-core").Page) => Promise<unknown>} act
 * @param {string} [file]
 */
async function longest(context, slower, prepare, act, file = "") {
  const page = await context.newPage();
  page.setDefaultTimeout(240_000);
  const devtools = await context.newCDPSession(page);
  await devtools.send("Emulation.setCPUThrottlingRate", { rate: slower });
  const goto = () => page.goto(server.url + file);
  if (prepare) {
    await goto();
    await prepare(page);
  }
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline", "blink.user_timing"] });
  if (!prepare) await goto();
  await act(page);
  await page.evaluate(() => performance.mark("measured"));
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  await page.close();
  const { pid, tid } = traceEvents.find(({ name }) => name === "measured");
  const events = traceEvents.filter((event) => event.pid === pid && event.tid === tid && event.dur > 0);
  const tasks = events.filter(({ name }) => name.endsWith("RunTask")).sort((a, b) => b.tdur - a.tdur);
  const [{ ts, dur, tdur }] = tasks;
  const inside = events
    .filter((event) => event.ts >= ts && event.ts + event.dur <= ts + dur && !event.name.endsWith("RunTask"))
    .sort((a, b) => b.tdur - a.tdur)
    .slice(0, 6)
    .map(({ name, tdur }) => `${name} ${(tdur / 1000).toFixed(0)}`);
  return { ms: tdur / 1000, inside: inside.join(", ") };
}

/** Keeps conversations for the page, and one for the element. */
async function fill(context) {
  const { page } = await open(context, server.url);
  await loaded(page);
  const all = Array.from({ length: CONVERSATIONS - 1 }, (_, i) => ({
    title: `Conversation number ${i}`,
    messages: [
      { role: "user", content: `Question ${i}` },
      { role: "assistant", content: answer(1) },
    ],
  }));
  await keep(page, [...all, { title: LONG, messages: conversation }]);
  await page.evaluate((kept) => localStorage.setItem("tabloom-chat:kept", kept), JSON.stringify(conversation));
  await page.close();
}

async function listed(page) {
  await page
    .locator("#conversation-list li")
    .nth(CONVERSATIONS - 1)
    .waitFor();
  await quiet(page);
}

/** Waits until the page has nothing to do. */
async function quiet(page) {
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(1000);
}

/** Waits until all messages are shown. */
async function settled(page, place = "#conversation") {
  await page
    .locator(`${place} article`)
    .nth(conversation.length - 1)
    .waitFor();
  await quiet(page);
}

/** Asks, and waits for the end of the answer. */
async function asked(page, place = "#conversation") {
  await page.locator(`${place} textarea`).fill("Go");
  await page.locator(`${place} textarea`).press("Enter");
  await page.locator(`${place} article`).nth(1).waitFor();
  await page.locator(`${place} [part~=send]`).waitFor();
  await quiet(page);
}

/**
 * An answer with all kinds of blocks.
 *
 * @param {number} parts
 */
function answer(parts) {
  const words = "the quick brown fox jumps over **a lazy dog** and looks for `something` to eat in *the* wood ";
  const code = Array.from({ length: 24 }, (_, i) => `  const value${i} = compute(${i}, "text"); // why`).join("\n");
  const rows = Array.from({ length: 10 }, (_, i) => `| row ${i} | **${i * 17}** | \`f(${i})\` |`).join("\n");
  const items = Array.from({ length: 12 }, (_, i) => `- item ${i} of the list, with *words*\n  1. inside ${i}`).join(
    "\n",
  );
  return Array.from({ length: parts }, (_, i) =>
    [
      `## Part ${i + 1}`,
      `${words.repeat(3)}.`,
      items,
      `\`\`\`js\n${code}\n\`\`\``,
      `| a | b | c |\n|---|:-:|--:|\n${rows}`,
      `> ${words}`,
    ].join("\n\n"),
  ).join("\n\n");
}
