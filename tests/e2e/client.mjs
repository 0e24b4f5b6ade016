// Pages with the package and a scripted host in the WebAssembly module's place (fake-host.js). Whoever
// imports this gets a browser for the file's tests, and a context, without any tabs, for each of them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, afterEach, before, beforeEach } from "node:test";
import { hurried, launch } from "./browser.mjs";
import { HTML } from "./package.mjs";
import { serve } from "./server.mjs";

export const RUNGS = ["shared", "leader", "private"];

let browser;
export let server;
export let context;
/** What hosts report, in order. */
let reports;
/** A request that is answered when the test says so. */
let held;
/** What is to happen to the next calls of a type, but for those that bring a `fate` of their own. */
export let fates;

before(async () => {
  const allow = { "access-control-allow-origin": "*" };
  server = await serve(
    {
      "": {
        "bare.html": HTML,
        "hide-gpu.js": `
          const shared = "SharedWorkerGlobalScope" in globalThis;
          if (shared) Object.defineProperty(navigator, "gpu", { value: undefined });`,
        "no-shared-gpu.js": `import "./hide-gpu.js"; import "./tabloom/worker.js";`,
        "strict.html": HTML.replace(
          "<title>",
          `<meta http-equiv="content-security-policy" content="worker-src 'none'"><title>`,
        ),
        "slow.js": (response) => {
          const headers = { "content-type": "text/javascript", "cache-control": "no-store" };
          setTimeout(() => response.writeHead(200, headers).end(`import "./tabloom/worker.js";`), 800);
        },
        "bad-values.js": readFileSync(new URL("bad-values.js", import.meta.url), "utf8"),
        "held.txt": (response) => void (held = response),
        "elsewhere.html": "<!doctype html><title>Elsewhere</title>",
        "frame.html": `<!doctype html><iframe sandbox="allow-scripts" src="bare.html"></iframe>`,
        fate,
      },
      "tabloom/wasm/": { "tabloom.js": readFileSync(new URL("fake-host.js", import.meta.url), "utf8") },
    },
    allow,
  );
  browser = await launch({ pageCache: true });
});

after(async () => {
  await browser?.close();
  await server?.close();
});

beforeEach(async () => {
  reports = [];
  fates = {};
  context = await browser.newContext();
});

afterEach(() => context.close());

/** Answers a host that reports. */
async function fate(response) {
  const body = [];
  for await (const piece of response.req) body.push(piece);
  const report = JSON.parse(Buffer.concat(body).toString());
  reports.push(report);
  const next = report.request?.fate ?? fates[report.type]?.shift() ?? {};
  response.writeHead(200, { "content-type": "application/json", "access-control-allow-origin": "*" });
  response.end(JSON.stringify(next));
}

/** The reports of a type. */
export const reported = (type) => reports.filter((report) => report.type === type);

/** Waits until hosts have reported something so often. */
export async function until(type, count) {
  while (reported(type).length < count) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** Lets messages reach pages later than what else they hear of a worker. */
export const delayMessages = () =>
  context.addInitScript(() => {
    for (const { prototype } of [MessagePort, BroadcastChannel]) {
      const { set } = Object.getOwnPropertyDescriptor(prototype, "onmessage");
      Object.defineProperty(prototype, "onmessage", {
        set(listener) {
          set.call(this, (event) => setTimeout(listener, 30, event));
        },
      });
    }
  });

/** Lets pages lose their patience sooner, by this factor. */
export const hurry = (factor) => hurried(context, factor);

/**
 * Lets a page move its SharedWorker, as WebKit does with those of a tab that is closed: it ends, begins anew, and
 * greets at the ports that it had. Where it is `late`, it does so once the page has asked for it again.
 */
export const movable = () =>
  context.addInitScript(() => {
    let script;
    let worker;
    /** What joins a port to the worker that runs, for each that it has. */
    const joins = [];
    let behind = 0;
    const run = () => (worker = new Worker(script, { type: "module" }));
    const greet = () => {
      for (const join of joins.slice(behind)) join();
      behind = joins.length;
    };
    class Movable extends EventTarget {
      constructor(url) {
        super();
        script = url;
        if (!worker) run();
        const { port1, port2 } = new MessageChannel();
        this.port = port1;
        joins.push(() => {
          const { port1: near, port2: far } = new MessageChannel();
          near.onmessage = ({ data }) => port2.postMessage(data);
          port2.onmessage = ({ data }) => near.postMessage(data);
          worker.postMessage({ type: "connect" }, [far]);
        });
        greet();
      }
    }
    globalThis.SharedWorker = /** @type {any} */ (Movable);
    globalThis.move = (late) => {
      worker.terminate();
      run();
      behind = 0;
      if (!late) greet();
    };
  });

/**
 * Stops a page, as if it were frozen.
 *
 * @returns {Promise<() => void>} lets it go on
 */
export async function stop(page) {
  held = null;
  await page.evaluate(() =>
    setTimeout(() => {
      const request = new XMLHttpRequest();
      request.open("GET", "held.txt", false);
      request.send();
    }),
  );
  while (!held) await new Promise((resolve) => setTimeout(resolve, 20));
  return () => held.end();
}

/** A page with the package, and an engine in it unless `options` is null. */
export async function open(options = {}, file = "bare.html") {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(`${server.url}${file}`);
  await page.waitForFunction(() => globalThis.Engine);
  if (options) await load(page, options);
  return page;
}

/** Makes the page's engine. */
export function load(page, options) {
  return page.evaluate(async (options) => {
    globalThis.engine = await Engine.load("model/", options);
  }, options);
}

/** Reads a stream to its end; gives its chunks. */
export function read(page, params = {}) {
  return page.evaluate(async (params) => {
    const chunks = [];
    const request = { messages: [], stream: true, ...params };
    for await (const chunk of await engine.chat.completions.create(request)) chunks.push(chunk);
    return chunks;
  }, params);
}

/** Begins to read a stream; `read` holds what has come, `reading` ends with it. */
export function begin(page, params = {}) {
  return page.evaluate(async (params) => {
    const chunks = await engine.chat.completions.create({ messages: [], stream: true, ...params });
    globalThis.read = [];
    globalThis.reading = failure(
      (async () => {
        for await (const chunk of chunks) globalThis.read.push(chunk);
      })(),
    );
  }, params);
}

/** Waits for the end of what {@link begin} has begun; gives the chunks. */
export async function end(page) {
  assert.equal(await page.evaluate(() => reading), "no failure");
  return page.evaluate(() => read);
}

/** The numbers of one choice, as long as every chunk is the next and of the same answer. */
export function numbers(chunks, index = 0) {
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  const choices = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index);
  assert.equal(choices.filter((choice) => choice.delta.role).length, 1);
  assert.deepEqual(
    choices.filter((choice) => choice.finish_reason),
    choices.slice(-1),
  );
  return choices
    .map((choice) => choice.delta.content ?? "")
    .join("")
    .trim()
    .split(" ")
    .map(Number);
}

/** What {@link numbers} of an answer of `count` tokens are. */
export const upTo = (count) => Array.from({ length: count }, (_, i) => i);

/** Asks for a whole answer; gives what it fails with, or "no failure". */
export function ask(page, params = {}) {
  return page.evaluate((params) => {
    const request = { messages: [], ...params };
    return failure(engine.chat.completions.create(request));
  }, params);
}

/** Shows or hides a page, which a headless browser cannot. */
export const see = (page, visible) =>
  page.evaluate(
    (state) => {
      Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    },
    visible ? "visible" : "hidden",
  );
