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
        "hide-gpu.js": `
          const shared = "SharedWorkerGlobalScope" in globalThis;
          if (shared) Object.defineProperty(navigator, "gpu", { value: undefined });`,
        "no-shared-gpu.js": `import "./hide-gpu.js"; import "./tabloom/worker.js";`,
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

/** What a promise in the page is rejected with, or "no failure". */
const ask = (page, params = {}) =>
  page.evaluate((params) => failure(engine.chat.completions.create({ messages: [], ...params })), params);

for (const host of RUNGS) {
  describe(`host ${host}`, () => {
    test("answers", async () => {
      fates.chat = [{ count: 3 }, { count: 100 }];
      const page = await open({ host });
      assert.equal(await page.evaluate(() => engine.host), host);
      const [hello] = reported("hello");
      assert.match(hello.version, /^\d+\.\d+\.\d+$/);
      assert.deepEqual([hello.protocol, hello.visible, hello.isolation], [1, true, "shared"]);
      const whole = await page.evaluate(() => engine.chat.completions.create({ messages: [] }));
      assert.equal(whole.choices[0].message.content, "0 1 2 ");
      assert.deepEqual(numbers(await read(page)), upTo(100));
    });

    for (const fate of ["trap", "reject", "close", "device_lost"]) {
      test(`a stream goes on after: ${fate}`, async () => {
        fates.chat = [{ fate, at: 37, count: 80 }, { fate, at: 50, count: 80 }, { count: 80 }];
        const page = await open({ host });
        assert.deepEqual(numbers(await read(page)), upTo(80));
        const [first, second, third] = reported("chat");
        const received = (count) => [{ tokens: upTo(count), started: true, ended: null }];
        assert.deepEqual([first, second, third].map((call) => call.resume), [null, received(37), received(50)]);
        assert.deepEqual([second.moment, third.moment], [first.moment, first.moment]);
        assert.equal(reported("load").length, 3);
      });
    }

    test("what has no pieces is asked again", async () => {
      fates.chat = [{ fate: "close" }, { count: 2 }];
      fates.embed = [{ fate: "trap" }];
      const page = await open({ host });
      const [content, embedded] = await page.evaluate(async () => {
        const messages = [{ role: "user", content: "as it was" }];
        const asked = engine.chat.completions.create({ messages });
        messages[0].content = "changed";
        const { choices } = await asked;
        return [choices[0].message.content, await engine.embeddings.create({ input: "text" })];
      });
      assert.equal(content, "0 1 ");
      assert.deepEqual(embedded, { asked: { input: "text" } });
      const [first, second] = reported("chat");
      assert.deepEqual(second.request, { messages: [{ role: "user", content: "as it was" }] });
      assert.deepEqual([second.moment, second.request], [first.moment, first.request]);
      assert.equal(reported("embed").length, 2);
    });

    test("a request that three hosts die of fails alone; the next is answered", async () => {
      const [fate, at] = ["close", 3];
      fates.chat = [{ fate, at }, { fate, at: 0 }, { fate, at }];
      const page = await open({ host });
      const failed = await ask(page);
      assert.ok(failed.typed);
      assert.equal(failed.code, "engine_crashed");
      assert.match(failed.message, /again and again over this request.*Reload the page/);
      assert.equal(reported("chat").length, 3);
      assert.equal(await ask(page), "no failure");
    });

    test("loading fails when hosts die of it, and with what the host says", async () => {
      const page = await open(null);
      const attempt = () => page.evaluate((host) => failure(Engine.load("model/", { host })), host);
      fates.load = ["trap", "close", "device_lost"].map((fate) => ({ fate }));
      const crashed = await attempt();
      assert.equal(crashed.code, "engine_crashed");
      assert.match(crashed.message, /while loading.*device_lost, says the host/);
      assert.equal(reported("load").length, 3);
      fates.load = [{ fate: "no_gpu" }];
      assert.equal((await attempt()).code, "no_gpu");
      fates.hello = [{ fate: "version_mismatch" }];
      assert.equal((await attempt()).code, "version_mismatch");
      assert.equal(reported("load").length, 4);
      fates.load = [{ fate: "close" }];
      await load(page, { host });
      assert.equal(reported("load").length, 6);
    });

    test("a reader that stops gets no more than the window; all of it comes in the end", async () => {
      fates.chat = [{ count: 200, at: 31, fate: "close" }, { count: 200 }];
      const page = await open({ host });
      await page.evaluate(async () => {
        globalThis.chunks = await engine.chat.completions.create({ messages: [], stream: true });
      });
      await until("chat", 2);
      // The role and 31 numbers wait in the page.
      assert.deepEqual(reported("chat").map((call) => call.credit), [32, 0]);
      const seen = await page.evaluate(async () => {
        const seen = [];
        for (let i = 0; i < 20; i++) seen.push((await chunks.next()).value);
        return seen;
      });
      await until("credit", 1);
      assert.deepEqual(reported("credit").map((message) => message.chunks), [16]);
      const rest = await page.evaluate(async () => {
        const rest = [];
        for await (const chunk of chunks) rest.push(chunk);
        return rest;
      });
      assert.deepEqual(numbers([...seen, ...rest]), upTo(200));
      assert.ok(reported("credit").every((message) => message.chunks === 16));
    });

  });
}

describe("requests", () => {
  test("several choices and the usage go on where they were", async () => {
    const params = { n: 2, stream_options: { include_usage: true } };
    // The second choice has ended, the first has not: it meets its fate at its last chunk.
    fates.chat = [{ fate: "close", at: 6, count: 6 }, { fate: "close", at: 7, count: 6 }, { count: 6 }];
    const page = await open({ host: "private" });
    const chunks = await read(page, params);
    for (const index of [0, 1]) assert.deepEqual(numbers(chunks, index), upTo(6));
    assert.deepEqual(chunks.filter((chunk) => chunk.usage).map((chunk) => chunk.usage), [{ completion_tokens: 12 }]);
    const all = { tokens: upTo(6), started: true };
    const resumed = reported("chat").map((call) => call.resume);
    assert.deepEqual(resumed[1], [{ ...all, ended: null }, { ...all, ended: null }]);
    assert.deepEqual(resumed[2], [{ ...all, ended: 6 }, { ...all, ended: 6 }]);
  });

  test("a stream that lacks nothing is not asked again", async () => {
    fates.chat = [{ fate: "close", at: 5, count: 4 }];
    const page = await open({ host: "private" });
    assert.deepEqual(numbers(await read(page)), upTo(4));
    assert.equal(reported("chat").length, 1);
  });

  test("hosts that die too often end everything, until the next request", async () => {
    const page = await open({ host: "private" });
    for (let deaths = 1; deaths <= 5; deaths++) {
      fates.chat = [{ fate: "close" }];
      assert.equal(await ask(page), "no failure");
    }
    fates.chat = [{ fate: "close" }];
    const failed = await ask(page);
    assert.equal(failed.code, "engine_crashed");
    assert.match(failed.message, /within a minute/);
    assert.equal(await ask(page), "no failure");
  });

  test("a signal aborts while the engine connects, streams and recovers", async () => {
    const page = await open({ host: "private" });
    fates.chat = [{ count: 1000 }, { fate: "close", at: 2 }];
    const [streaming, recovering] = await page.evaluate(async () => {
      const start = async (controller) => {
        const { signal } = controller;
        const chunks = await engine.chat.completions.create({ messages: [], stream: true }, { signal });
        await chunks.next();
        return chunks;
      };
      const first = new AbortController();
      const chunks = await start(first);
      first.abort();
      const streaming = await failure(
        (async () => {
          for await (const _ of chunks);
        })(),
      );
      const second = new AbortController();
      const lost = await start(second);
      await lost.next();
      await lost.next();
      const next = lost.next();
      // The host takes its time to die.
      await new Promise((resolve) => setTimeout(resolve, 300));
      second.abort(new Error("changed my mind"));
      return [streaming, await failure(next)];
    });
    assert.equal(streaming.name, "AbortError");
    assert.equal(recovering.message, "changed my mind");
    await until("cancel", 1);
  });

  test("a reader that leaves cancels", async () => {
    const page = await open({ host: "private" });
    fates.chat = [{ count: 1000 }];
    await page.evaluate(async () => {
      for await (const _ of await engine.chat.completions.create({ messages: [], stream: true })) break;
    });
    await until("cancel", 1);
  });

  test("loading can be aborted at any time", async () => {
    const page = await open(null);
    const results = await page.evaluate(async () => {
      const results = [];
      for (const after of [0, 1, 5, 30, 60]) {
        const controller = new AbortController();
        const loading = failure(Engine.load("model/", { signal: controller.signal }));
        await new Promise((resolve) => setTimeout(resolve, after));
        controller.abort();
        results.push(await loading);
      }
      await Engine.load("model/");
      return results;
    });
    for (const { name } of results) assert.equal(name, "AbortError");
  });

  test("an engine can be closed while it recovers", async () => {
    const page = await open({ host: "private" });
    fates.chat = [{ fate: "close", at: 2 }];
    await begin(page);
    const failed = await page.evaluate(async () => {
      while (read.length < 3) await new Promise((resolve) => setTimeout(resolve));
      engine.close();
      return reading;
    });
    assert.equal(failed.code, "closed");
    assert.equal((await ask(page)).code, "closed");
  });
});

describe("tabs", () => {
  for (const host of ["shared", "leader"]) {
    test(`share the ${host} host, which learns that they are gone`, async () => {
      const pages = [await open({ host }), await open({ host }), await open({ host })];
      assert.equal(reported("boot").length, 1);
      const tabs = () => pages.at(-1).evaluate(async () => (await engine.metrics()).tabs);
      assert.equal(await tabs(), 3);
      await pages[1].evaluate(() => engine.close());
      await until("left", 1);
      // The first may be the leader, the last not.
      await pages[1].close();
      assert.equal(await tabs(), 2);
      const devtools = await context.newCDPSession(pages[0]);
      devtools.send("Page.crash").catch(() => {});
      while ((await tabs()) !== 1);
    });

    test(`go on when the ${host} host is lost with the tab that started it`, async () => {
      const pages = [await open({ host }), await open({ host }), await open({ host })];
      fates.chat = [{ count: 1000 }, { count: 1000 }];
      await Promise.all(pages.slice(1).map((page) => begin(page)));
      const devtools = await context.newCDPSession(pages[0]);
      devtools.send("Page.crash").catch(() => {});
      fates.chat = [{ count: 300 }, { count: 300 }];
      const answers = await Promise.all(pages.slice(1).map(end));
      for (const chunks of answers) assert.deepEqual(numbers(chunks), upTo(300));
      assert.equal(reported("boot").length, 2);
    });
  }

  test("a stream survives any number of leaders that leave", async () => {
    const pages = [];
    for (let i = 0; i < 5; i++) pages.push(await open({ host: "leader" }));
    const last = pages.pop();
    fates.chat = Array.from({ length: pages.length }, () => ({ count: 100_000 }));
    await begin(last);
    for (const [i, page] of pages.entries()) {
      await until("chat", i + 1);
      const count = 500 + (await last.evaluate(() => read.length));
      if (i === pages.length - 1) fates.chat = [{ count }];
      await page.evaluate(() => engine.close());
    }
    const chunks = await end(last);
    assert.deepEqual(numbers(chunks), upTo(chunks.length - 2));
    assert.equal(reported("boot").length, 5);
  });

  test("another tab leads when the leader's engine is closed", async () => {
    const pages = [await open({ host: "leader" }), await open({ host: "leader" })];
    fates.chat = [{ count: 1000 }, { count: 100 }];
    await begin(pages[1]);
    await pages[0].evaluate(() => engine.close());
    assert.deepEqual(numbers(await end(pages[1])), upTo(100));
    assert.equal(reported("boot").length, 2);
    await load(pages[0], { host: "leader" });
    assert.equal(reported("boot").length, 2);
  });
});

describe("a host that stands still", () => {
  test("is replaced where it is private", async () => {
    const page = await open({ host: "private" });
    fates.chat = [{ fate: "freeze", at: 5, count: 10 }, { count: 10 }];
    assert.deepEqual(numbers(await read(page)), upTo(10));
    assert.equal(reported("boot").length, 2);
  });

  test("loses the office to a tab that is seen", async () => {
    const pages = [await open({ host: "leader" }), await open({ host: "leader" }), await open({ host: "leader" })];
    for (const page of pages) await see(page, page === pages[1]);
    fates.chat = [{ fate: "freeze", at: 5, count: 10 }, { count: 1000 }];
    await begin(pages[0]);
    await until("chat", 1);
    fates.chat = [{ count: 10 }, { count: 10 }];
    // The host no longer listens, but this call is asked again of the next.
    await begin(pages[2]);
    for (const page of [pages[0], pages[2]]) assert.deepEqual(numbers(await end(page)), upTo(10));
    assert.equal(reported("boot").length, 2);
    // Who leads now is the tab that is seen: without it there must be another.
    await pages[1].evaluate(() => engine.close());
    assert.equal(await ask(pages[0]), "no failure");
    assert.equal(reported("boot").length, 3);
  });
});

/** Shows or hides a page, which a headless browser cannot. */
const see = (page, visible) =>
  page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, visible ? "visible" : "hidden");

describe("pages", () => {
  test("tell whether they are seen", async () => {
    const page = await open();
    await see(page, false);
    await until("visible", 1);
    await see(page, true);
    await until("visible", 2);
    assert.deepEqual(reported("visible").map((message) => message.visible), [false, true]);
    await see(page, false);
    fates.chat = [{ fate: "close" }];
    await ask(page);
    assert.deepEqual(reported("hello").map((message) => message.visible), [true, false]);
  });

  for (const host of RUNGS) {
    test(`leave and come back (${host})`, async () => {
      const page = await open({ host });
      fates.chat = [{ count: 100_000 }];
      await begin(page);
      await page.waitForFunction(() => read.length > 10);
      await page.goto(`${server.url}elsewhere.html`);
      if (host === "shared") await until("left", 1);
      fates.chat = [{ count: 600 }];
      // Whether a page from the cache "loads" is told to nobody.
      await page.evaluate(() => void setTimeout(() => history.back()));
      await page.waitForFunction(() => globalThis.reading);
      assert.deepEqual(numbers(await end(page)), upTo(600));
    });
  }
});

describe("a page takes the first place there is", () => {
  /** The place of an engine, or why there is none. */
  const place = (page, options) =>
    page.evaluate(async (options) => {
      const engine = await Engine.load("model/", options);
      await engine.chat.completions.create({ messages: [] });
      const { host } = engine;
      engine.close();
      return host;
    }, options);

  const refused = (page, options) =>
    page.evaluate((options) => failure(Engine.load("model/", options)), options);

  test("a SharedWorker, if it has WebGPU", async () => {
    const page = await open(null);
    assert.equal(await place(page), "shared");
    assert.equal(reported("boot").at(-1).scope, "SharedWorkerGlobalScope");
    const workerUrl = "no-shared-gpu.js";
    assert.equal(await place(page, { workerUrl }), "leader");
    assert.equal(reported("boot").at(-1).scope, "DedicatedWorkerGlobalScope");
    assert.equal(reported("boot").length, 2);
    assert.equal(await place(page, { workerUrl, device: "cpu" }), "shared");
    assert.equal(await place(page, { workerUrl, host: "shared" }), "shared");
  });

  test("the leader's worker", async () => {
    await context.addInitScript(() => delete globalThis.SharedWorker);
    const page = await open(null);
    assert.equal(await place(page), "leader");
    const failed = await refused(page, { host: "shared" });
    assert.equal(failed.code, "no_host");
    assert.match(failed.message, /shared engine.*no SharedWorker.*"auto"/);
    assert.match(failed.details.reason, /SharedWorker/);
  });

  test("its own worker, without locks", async () => {
    await context.addInitScript(() => {
      LockManager.prototype.query = async () => {
        throw new DOMException("denied", "SecurityError");
      };
    });
    const page = await open(null);
    assert.equal(await place(page), "private");
    for (const host of ["shared", "leader"]) {
      const failed = await refused(page, { host });
      assert.equal(failed.code, "no_host");
      assert.match(failed.message, /denies Web Locks/);
    }
  });

  test("its own worker, in a sandboxed frame", async () => {
    const page = await context.newPage();
    await page.goto(`${server.url}frame.html`);
    const frame = page.frames()[1];
    await frame.waitForFunction(() => globalThis.Engine);
    assert.equal(await frame.evaluate(() => origin), "null");
    assert.equal(await place(frame), "private");
    assert.equal(reported("hello")[0].tab, null);
    assert.equal((await refused(frame, { host: "leader" })).code, "no_host");
    // A host that dies is noticed without locks as well.
    await frame.evaluate(async () => {
      globalThis.engine = await Engine.load("model/");
    });
    fates.chat = [{ fate: "trap", at: 9, count: 20 }, { count: 20 }];
    assert.deepEqual(numbers(await read(frame)), upTo(20));
  });

  test("and none that it does not know", async () => {
    const failed = await refused(await open(null), { host: "cloud" });
    assert.equal(failed.code, "invalid_request");
    assert.equal(failed.param, "host");
    assert.match(failed.message, /"cloud".*auto, shared, leader, private/);
  });

  for (const host of ["auto", ...RUNGS]) {
    test(`unless there is nothing to be had there (${host})`, async () => {
      const page = await open(null);
      const missing = await refused(page, { host, workerUrl: "nowhere.js" });
      assert.equal(missing.code, "engine_crashed");
      assert.match(missing.message, /worker failed.*could not be loaded.*Reload the page/);
      fates.boot = [{ fate: "not a module" }];
      const broken = await refused(page, { host });
      assert.equal(broken.code, "start_failed");
      assert.match(broken.message, /WebAssembly module did not start.*not a module/);
      assert.equal(await place(page), "shared");
    });
  }
});
