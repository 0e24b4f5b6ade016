// Where a page finds a host.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { RUNGS, context, delayMessages, fates, hurry, numbers, open, read, reported, server, upTo } from "./client.mjs";

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

  const refused = (page, options) => page.evaluate((options) => failure(Engine.load("model/", options)), options);

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

  test("not a SharedWorker that is given no adapter", async () => {
    const page = await open(null);
    fates.load = [{ fate: "no_gpu" }];
    assert.equal(await place(page), "leader");
    for (const [host, workers] of /** @type {const} */ ([
      ["shared", 1],
      ["auto", 2],
    ])) {
      const before = reported("load").length;
      fates.load = [{ fate: "no_gpu" }, { fate: "no_gpu" }];
      assert.equal((await refused(page, { host })).code, "no_gpu");
      assert.equal(reported("load").length, before + workers);
    }
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
      assert.equal(missing.code, "no_host");
      assert.match(missing.message, /its script nowhere\.js could not be loaded\. Serve worker\.js .*workerUrl/);
      const wrong = await refused(page, { host, workerUrl: "elsewhere.html" });
      assert.equal(wrong.code, "no_host");
      assert.match(wrong.message, /its script elsewhere\.html could not be loaded/);
      const forbidden = await refused(await open(null, "strict.html"), { host });
      assert.equal(forbidden.code, "no_host");
      assert.match(forbidden.message, /tabloom\/worker\.js.*content security policy.*workerUrl/i);
      fates.boot = [{ fate: "not a module" }];
      const broken = await refused(page, { host });
      assert.equal(broken.code, "start_failed");
      assert.match(broken.message, /WebAssembly module did not start.*not a module/);
      assert.equal(await place(page), "shared");
    });
  }

  for (const host of RUNGS) {
    test(`and waits for a script that is slow, not for ever for its module (${host})`, async () => {
      await hurry(20);
      const page = await open(null);
      const load = (options) =>
        page.evaluate(async (options) => {
          const stages = [];
          const onProgress = ({ stage }) => stages.push(stage);
          const failed = await failure(Engine.load("model/", { ...options, onProgress }));
          return { failed, stages };
        }, options);
      // As if it took 16 seconds: the SharedWorker may be another's, which is stuck.
      const workerUrl = host === "shared" ? undefined : "slow.js";
      const before = server.requests.length;
      fates.boot = [{ fate: "stall" }];
      const { failed, stages } = await load({ host, workerUrl });
      assert.equal(failed, "no failure");
      assert.deepEqual(stages, ["start", "start", "download", "download"]);
      assert.equal(reported("boot").length, 2);
      const asked = server.requests.slice(before).filter((path) => path === "slow.js").length;
      assert.equal(asked, host === "shared" ? 0 : 2);
    });

    test(`and learns why it failed, though late (${host})`, async () => {
      await delayMessages();
      fates.boot = [{ fate: "not a module" }];
      const broken = await refused(await open(null), { host });
      assert.equal(broken.code, "start_failed");
    });
  }

  test("by addresses with the version, so that no cache has another version's for them", async () => {
    const page = await open(null);
    const asked = [];
    page.on("request", (request) => asked.push(new URL(request.url())));
    await place(page, { host: "private" });
    const [{ version }] = reported("hello");
    for (const file of ["worker.js", "wasm/tabloom.js"]) {
      const found = asked.filter(({ pathname }) => pathname === `/tabloom/${file}`);
      assert.deepEqual(
        found.map(({ search }) => search),
        [`?tabloom=${version}`],
        file,
      );
    }
    // The package with its own modules, that of constraints among them.
    await page.evaluate(async () => {
      const { Engine } = await import(/** @type {any} */ ("./packages/real/index.js"));
      const engine = await Engine.load("model/", { host: "private", device: "cpu" });
      const messages = [{ role: "user", content: "Hi" }];
      await engine.chat.completions.create({ messages, structured_outputs: { choice: ["yes", "no"] } });
      engine.close();
    });
    const folder = "/packages/real/wasm/";
    const modules = asked.filter(({ pathname }) => pathname.startsWith(folder));
    assert.deepEqual(
      modules.map(({ pathname, search }) => pathname.replace(folder, "") + search).sort(),
      ["grammar.js", "grammar_bg.wasm", "tabloom.js", "tabloom_bg.wasm"].map((file) => `${file}?tabloom=${version}`),
    );
  });
});
