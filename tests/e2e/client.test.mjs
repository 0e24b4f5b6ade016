// The page's side of the engine, with a scripted host in the module's place: where it looks for a
// host, how it survives one, what it sends.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { launch } from "./browser.mjs";
import { HTML } from "./package.mjs";
import { serve } from "./server.mjs";

const RUNGS = ["shared", "leader", "private"];

let browser;
let server;
let context;
/** What hosts report, in order. */
let reports;
/** What is to happen to the next calls of a type. */
let fates;

before(async () => {
  const allow = { "access-control-allow-origin": "*" };
  server = await serve(
    {
      "": {
        "bare.html": HTML,
        "frame.html": `<!doctype html><iframe sandbox="allow-scripts" src="bare.html"></iframe>`,
        fate,
      },
      "tabloom/wasm/": { "tabloom.js": readFileSync(new URL("fake-host.js", import.meta.url), "utf8") },
    },
    allow,
  );
  browser = await launch();
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
  const report = JSON.parse(Buffer.concat(body));
  reports.push(report);
  const next = fates[report.type]?.shift() ?? {};
  response.writeHead(200, { "content-type": "application/json", "access-control-allow-origin": "*" });
  response.end(JSON.stringify(next));
}

const reported = (type) => reports.filter((report) => report.type === type);

/** Waits until hosts have reported something so often. */
async function until(type, count) {
  while (reported(type).length < count) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** A page with the package, and an engine in it unless `options` is null. */
async function open(options = {}, file = "bare.html") {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(`${server.url}${file}`);
  await page.waitForFunction(() => globalThis.Engine);
  if (options) await load(page, options);
  return page;
}

function load(page, options) {
  return page.evaluate(async (options) => {
    globalThis.engine = await Engine.load("model/", options);
  }, options);
}

/** Reads a stream to its end. */
function read(page, params = {}) {
  return page.evaluate(async (params) => {
    const chunks = [];
    const request = { messages: [], stream: true, ...params };
    for await (const chunk of await engine.chat.completions.create(request)) chunks.push(chunk);
    return chunks;
  }, params);
}

/** Begins to read a stream; `read` holds what has come, `reading` ends with it. */
function begin(page, params = {}) {
  return page.evaluate(async (params) => {
    const chunks = await engine.chat.completions.create({ messages: [], stream: true, ...params });
    globalThis.read = [];
    globalThis.reading = failure(
      (async () => {
        for await (const chunk of chunks) read.push(chunk);
      })(),
    );
  }, params);
}

async function end(page) {
  assert.equal(await page.evaluate(() => reading), "no failure");
  return page.evaluate(() => read);
}

/** The numbers of one choice, as long as every chunk is the next and of the same answer. */
function numbers(chunks, index = 0) {
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  const choices = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index);
  assert.equal(choices.filter((choice) => choice.delta.role).length, 1);
  assert.deepEqual(
    choices.filter((choice) => choice.finish_reason),
    choices.slice(-1),
  );
  return choices.map((choice) => choice.delta.content ?? "").join("").trim().split(" ").map(Number);
}

const upTo = (count) => Array.from({ length: count }, (_, i) => i);

for (const host of RUNGS) {
  describe(`host ${host}`, () => {
    test("answers", async () => {
      fates.chat = [{ count: 3 }, { count: 100 }];
      const page = await open({ host });
      assert.equal(await page.evaluate(() => engine.host), host);
      const whole = await page.evaluate(() => engine.chat.completions.create({ messages: [] }));
      assert.equal(whole.choices[0].message.content, "0 1 2 ");
      assert.deepEqual(numbers(await read(page)), upTo(100));
    });

    for (const fate of ["trap", "reject", "close", "device_lost"]) {
      test(`a stream goes on after: ${fate}`, async () => {
        fates.chat = [{ fate, at: 37, count: 80 }, { count: 80 }];
        const page = await open({ host });
        assert.deepEqual(numbers(await read(page)), upTo(80));
        const [first, second] = reported("chat");
        assert.equal(first.resume, null);
        assert.deepEqual(second.resume, [{ tokens: upTo(37), started: true, ended: null }]);
        assert.deepEqual(second.moment, first.moment);
      });
    }
  });
}
