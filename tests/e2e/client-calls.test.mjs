// What becomes of requests when hosts die, readers dawdle and callers change their minds.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  RUNGS,
  ask,
  begin,
  context,
  delayMessages,
  fates,
  load,
  numbers,
  open,
  read,
  reported,
  until,
  upTo,
} from "./client.mjs";

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
        const resumed = [first, second, third].map((call) => call.resume);
        assert.deepEqual(resumed, [null, received(37), received(50)]);
        assert.deepEqual([second.moment, third.moment], [first.moment, first.moment]);
        assert.equal(reported("load").length, 3);
      });
    }

    test("a stream may outlive any number of hosts that carry it on", async () => {
      fates.chat = [10, 20, 30, 40].map((at) => ({ fate: "close", at, count: 50 }));
      fates.chat.push({ count: 50 });
      assert.deepEqual(numbers(await read(await open({ host }))), upTo(50));
      assert.equal(reported("chat").length, 5);
    });

    test("no listener is left of hosts that are gone", async () => {
      await context.addInitScript(() => {
        const listeners = [];
        const { addEventListener } = EventTarget.prototype;
        EventTarget.prototype.addEventListener = function (type, listener, options) {
          const until = typeof options === "object" ? options?.signal : undefined;
          if (this === document || this instanceof AbortSignal) listeners.push({ of: this, type, until });
          return addEventListener.call(this, type, listener, options);
        };
        globalThis.listening = () =>
          listeners.filter(({ of, until }) => !until?.aborted && !(of instanceof AbortSignal && of.aborted)).length;
      });
      const page = await open({ host });
      const listening = [];
      for (const deaths of [1, 1, 3]) {
        fates.chat = Array.from({ length: deaths }, (_, at) => ({ fate: "close", at: at + 1, count: 9 }));
        fates.chat.push({ count: 9 });
        assert.deepEqual(numbers(await read(page)), upTo(9));
        listening.push(await page.evaluate(() => globalThis.listening()));
      }
      assert.deepEqual(listening, Array(3).fill(listening[0]));
    });

    test("a stream of text completions goes on, each of its answers", async () => {
      fates.complete = [{ fate: "close", at: 7, count: 9 }, { count: 9 }];
      const page = await open({ host });
      const chunks = await page.evaluate(async () => {
        const chunks = [];
        const request = { prompt: ["a", [5, 6]], n: 1, stream: true };
        for await (const chunk of await engine.completions.create(request)) chunks.push(chunk);
        return chunks;
      });
      assert.deepEqual(numbers(chunks), upTo(9));
      const [first, second] = reported("complete");
      assert.deepEqual([first.resume, second.moment], [null, first.moment]);
      const untold = { tokens: [], started: false, ended: null };
      assert.deepEqual(second.resume, [{ ...untold, tokens: upTo(7), started: true }, untold]);
    });

    test("a stream loses nothing that comes late", async () => {
      await delayMessages();
      fates.chat = [{ fate: "trap", at: 37, count: 80 }, { count: 80 }];
      assert.deepEqual(numbers(await read(await open({ host }))), upTo(80));
      assert.deepEqual(reported("chat")[1].resume, [{ tokens: upTo(37), started: true, ended: null }]);
    });

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
      fates.chat = [
        { fate, at },
        { fate, at: 0 },
        { fate, at },
      ];
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
      assert.deepEqual(
        reported("chat").map((call) => call.credit),
        [32, 0],
      );
      const seen = await page.evaluate(async () => {
        const seen = [];
        for (let i = 0; i < 20; i++) seen.push((await chunks.next()).value);
        return seen;
      });
      await until("credit", 1);
      assert.deepEqual(
        reported("credit").map((message) => message.chunks),
        [16],
      );
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
    const usages = chunks.map((chunk) => chunk.usage).filter(Boolean);
    assert.deepEqual(usages, [{ completion_tokens: 12 }]);
    const all = { tokens: upTo(6), started: true };
    const resumed = reported("chat").map((call) => call.resume);
    assert.deepEqual(resumed[1], [
      { ...all, ended: null },
      { ...all, ended: null },
    ]);
    assert.deepEqual(resumed[2], [
      { ...all, ended: 6 },
      { ...all, ended: 6 },
    ]);
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

  test("one that cannot be sent is refused, and not in the way of others", async () => {
    const page = await open({ host: "private" });
    const refused = await page.evaluate(() => failure(engine.tokenize("x", { addSpecialTokens: 1n })));
    assert.deepEqual([refused.code, refused.param], ["invalid_request", "add_special_tokens"]);
    fates.chat = [{ fate: "close" }];
    const answered = await page.evaluate(() => {
      const signal = AbortSignal.timeout(5000);
      return failure(engine.chat.completions.create({ messages: [] }, { signal }));
    });
    assert.equal(answered, "no failure");
  });

  test("one that the browser does not post fails alone, also when it is asked again", async () => {
    const page = await open({ host: "private" });
    fates.embed = [{ fate: "close" }];
    const ends = await page.evaluate(() => {
      const { postMessage } = MessagePort.prototype;
      let posted = 0;
      MessagePort.prototype.postMessage = function (message, ...rest) {
        if (message.type === "embed" && posted++ > 0) throw new DOMException("no clone", "DataCloneError");
        return postMessage.call(this, message, ...rest);
      };
      const calls = [engine.embeddings.create({ input: "x" }), engine.chat.completions.create({ messages: [] })];
      return Promise.all(calls.map(failure));
    });
    assert.deepEqual([ends[0].code, ends[0].param, ends[1]], ["invalid_request", "request", "no failure"]);
    assert.match(ends[0].message, /cannot be sent \(no clone\)/);
    assert.equal(await ask(page), "no failure");
  });

  test("a signal aborts a stream, and what waits for another host", async () => {
    const page = await open({ host: "private" });
    fates.chat = [{ count: 1000 }, { fate: "close", at: 2 }];
    /** Begins to read what `controller` can abort. */
    const start = () =>
      page.evaluate(async () => {
        globalThis.controller = new AbortController();
        const { signal } = controller;
        const request = { messages: [], stream: true };
        const chunks = await engine.chat.completions.create(request, { signal });
        await chunks.next();
        globalThis.reading = failure(
          (async () => {
            for await (const _ of chunks);
          })(),
        );
      });
    const abort = () =>
      page.evaluate(() => {
        controller.abort(new Error("changed my mind"));
        return reading;
      });
    await start();
    assert.equal((await abort()).message, "changed my mind");
    await until("cancel", 1);
    // The next host never gets as far as to take calls.
    fates.load = [{ fate: "stick" }];
    await start();
    await until("load", 2);
    assert.equal((await abort()).message, "changed my mind");
    const early = page.evaluate(
      (params) => {
        const signal = AbortSignal.timeout(50);
        return failure(engine.chat.completions.create(params, { signal }));
      },
      { messages: [] },
    );
    assert.equal((await early).name, "TimeoutError");
    assert.equal(reported("chat").length, 2);
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
    // No host gets to the end of it.
    fates.load = Array.from({ length: 6 }, () => ({ fate: "stick" }));
    for (const after of [0, 1, 5, 30, 100, 500]) {
      const failed = await page.evaluate(
        (after) => failure(Engine.load("model/", { host: "private", signal: AbortSignal.timeout(after) })),
        after,
      );
      assert.equal(failed.name, "TimeoutError");
    }
    fates.load = [];
    await load(page, { host: "private" });
  });

  describe("loading can be aborted while the page", () => {
    /** Begins to load; {@link abort} gives what becomes of it. */
    const start = (page, options) =>
      page.evaluate((options) => {
        globalThis.controller = new AbortController();
        globalThis.loading = failure(Engine.load("model/", { ...options, signal: controller.signal }));
      }, options);
    const abort = (page) =>
      page.evaluate(() => {
        controller.abort(new Error("changed my mind"));
        return Promise.race([loading, new Promise((late) => setTimeout(late, 5000, "late"))]);
      });

    test("fetches a module", async () => {
      const page = await open(null);
      const fallback = { baseURL: "https://example.org/v1", model: "m" };
      const asked = new Promise((asked) => page.route("**/host/fallback.js", asked));
      await start(page, { host: "private", fallback });
      const route = await asked;
      assert.equal((await abort(page)).message, "changed my mind");
      await route.continue();
      await page.waitForTimeout(300);
      assert.deepEqual(reported("load"), []);
    });

    test("hashes files, after the piece at hand", async () => {
      const page = await open(null);
      await page.evaluate(() => {
        const digest = crypto.subtle.digest.bind(crypto.subtle);
        const held = new Promise((release) => Object.assign(globalThis, { release, hashed: 0 }));
        crypto.subtle.digest = async (...args) => {
          globalThis.hashed += 1;
          await held;
          return digest(...args);
        };
        globalThis.controller = new AbortController();
        const files = {
          "config.json": new Blob(["{}"]),
          "model.safetensors": new Blob([new Uint8Array(33 * 2 ** 20)]),
        };
        globalThis.loading = failure(Engine.load(files, { host: "private", signal: controller.signal }));
      });
      await page.waitForFunction(() => globalThis.hashed === 1);
      const aborted = abort(page);
      await page.evaluate(() => globalThis.release());
      assert.equal((await aborted).message, "changed my mind");
      assert.equal(await page.evaluate(() => globalThis.hashed), 1);
      assert.deepEqual(reported("load"), []);
    });

    test("notes that the model was used", async () => {
      const page = await open(null);
      fates.load = [{ info: { stored: true } }];
      await page.evaluate(() => {
        caches.open = () => {
          globalThis.noting = true;
          return new Promise(() => {});
        };
      });
      await start(page, { host: "shared" });
      await page.waitForFunction(() => globalThis.noting === true);
      assert.equal((await abort(page)).message, "changed my mind");
      await until("left", 1);
    });
  });

  for (const host of ["shared", "leader"]) {
    test(`an engine that is released says so, one that is closed does not (${host})`, async () => {
      // The tab that has the worker.
      await open({ host });
      const page = await open({ host });
      const failed = await page.evaluate(() => {
        engine.release();
        engine.close();
        return failure(engine.metrics());
      });
      assert.equal(failed.code, "closed");
      await until("left", 1);
      await load(page, { host });
      await page.evaluate(() => engine.close());
      await until("left", 2);
      assert.deepEqual(
        reported("left").map(({ free }) => free),
        [true, undefined],
      );
    });

    test(`a released engine's model is freed although its last message comes late (${host})`, async () => {
      await open({ host });
      const page = await open({ host });
      await page.evaluate(() => {
        for (const { prototype } of [MessagePort, BroadcastChannel]) {
          const { postMessage, close } = prototype;
          const late = (call) => setTimeout(call, 30);
          prototype.postMessage = function (message) {
            if (message.type === "bye") late(() => postMessage.call(this, message));
            else postMessage.call(this, message);
          };
          prototype.close = function () {
            late(() => close.call(this));
          };
        }
        engine.release();
      });
      await until("left", 1);
      assert.equal(reported("left")[0].free, true);
    });
  }

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
