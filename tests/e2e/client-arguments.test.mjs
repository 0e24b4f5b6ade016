// What pages pass to calls: as JSON would send it, and options by name. All else is refused before a worker starts
// or hears of it.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { context, fates, load, open, reported } from "./client.mjs";

/** Nothing has reached a host, or has started one. */
const nothing = (type) => assert.deepEqual(reported(type), []);

const REACTIVE = `
  globalThis.reactive = (value) => {
    if (!Array.isArray(value) && Object.prototype.toString.call(value) !== "[object Object]") return value;
    return new Proxy(value, { get: (target, key) => reactive(Reflect.get(target, key)) });
  };`;

describe("parameters are sent as JSON would send them", () => {
  test("proxies, functions beside a schema, dates, and what is of another realm", async () => {
    await context.addInitScript(REACTIVE);
    const page = await open({ host: "private" });
    fates.chat = [{ count: 1 }];
    fates.tokens = [{}];
    fates.embed = [{}];
    await page.evaluate(async () => {
      const { reactive } = /** @type {any} */ (globalThis);
      const frame = document.body.appendChild(document.createElement("iframe"));
      const elsewhere = /** @type {any} */ (frame.contentWindow).JSON.parse('[{"role": "user", "content": "Hi"}]');
      const parameters = { type: "object", properties: { at: { const: new Date(0) } } };
      const tool = { type: "function", function: { name: "now", parameters, parse() {} }, execute: async () => 1 };
      await engine.chat.completions.create(
        reactive({ messages: elsewhere, tools: [tool], seed: undefined, temperature: Infinity }),
      );
      await engine.embeddings.create(reactive({ input: ["a"] }));
      engine.tokenize(reactive(elsewhere)).catch(() => {});
    });
    const [chat] = reported("chat");
    const properties = { at: { const: "1970-01-01T00:00:00.000Z" } };
    const parameters = { type: "object", properties };
    assert.deepEqual(chat.request, {
      messages: [{ role: "user", content: "Hi" }],
      tools: [{ type: "function", function: { name: "now", parameters } }],
      temperature: "Infinity",
    });
    assert.deepEqual(reported("embed")[0].request, { input: ["a"] });
  });

  test("options of a load", async () => {
    await context.addInitScript(REACTIVE);
    const page = await open(null);
    await page.evaluate(async () => {
      const { reactive } = /** @type {any} */ (globalThis);
      const options = { host: "private", prefixCache: { hostBytes: 1 }, isolation: { session: "a" }, gpu: {} };
      await Engine.load("model/", reactive(options));
    });
    const [{ options }] = reported("load");
    assert.deepEqual([options.prefixCache, options.gpu], [{ hostBytes: 1 }, {}]);
    assert.deepEqual(reported("hello")[0].isolation, { session: "a" });
  });

  test("an address as a frame's URL", async () => {
    const page = await open(null);
    await page.evaluate(async () => {
      const frame = document.body.appendChild(document.createElement("iframe"));
      const address = new /** @type {any} */ (frame.contentWindow).URL("model/", location.href);
      await Engine.load(address, { host: "private" });
    });
    assert.match(reported("load")[0].url, /^http.*\/model\/$/);
  });

  /** What is no JSON, as the page writes it, and where. */
  const cases = {
    "messages[0].self": `(() => { const messages = [{}]; messages[0].self = messages[0]; return { messages }; })()`,
    "tools[1].function.parameters.maximum": `{ tools: [{}, { function: { parameters: { maximum: 5n } } }] }`,
    "messages[0].content": `{ messages: [{ get content() { throw new Error("gone"); } }] }`,
    metadata: `(() => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return { metadata: proxy }; })()`,
    messages: `{ messages: [] , get messages() { throw new Error("gone"); } }`,
    stop: `{ stop: { toJSON() { throw new Error("gone"); } } }`,
    logit_bias: `{ logit_bias: new Map([[5, 1]]) }`,
    "tools[0].function.parameters.required": `{ tools: [{ function: { parameters: { required: new Set(["a"]) } } }] }`,
    "metadata.bytes": `{ metadata: { bytes: new Uint8Array(2) } }`,
    request: `new Map([["messages", []]])`,
  };

  test("what is no JSON is refused by its place", async () => {
    const page = await open({ host: "private" });
    for (const [param, params] of Object.entries(cases)) {
      const refused = await page.evaluate(`failure(engine.chat.completions.create(${params}))`);
      assert.ok(refused.typed, JSON.stringify(refused));
      assert.deepEqual([refused.code, refused.param], ["invalid_request", param]);
      assert.match(
        refused.message,
        /found what cannot be sent \((an object within|.*BigInt|gone|.*revoked|Map\)|Set\)|Uint8Array\))/,
      );
    }
    const deep = await page.evaluate(() => {
      let schema = {};
      for (let depth = 0; depth < 200_000; depth++) schema = { not: schema };
      return failure(engine.completions.create({ prompt: "a", structured_outputs: { json: schema } }));
    });
    assert.equal(deep.code, "invalid_request");
    assert.match(deep.param, /^structured_outputs\.json\.not\.not/);
    const long = await page.evaluate(() => {
      const content = "a".repeat(20_000_000);
      return failure(engine.chat.completions.create({ messages: [{ role: "user", content }] }));
    });
    assert.deepEqual([long.code, long.param], ["invalid_request", "messages[0].content"]);
    assert.match(long.message, /more than 20000000 characters/);
    for (const type of ["chat", "complete"]) nothing(type);
    const option = await page.evaluate(() => failure(Engine.load("model/", { kvBytes: /** @type {any} */ (1n) })));
    assert.deepEqual([option.code, option.param], ["invalid_request", "kvBytes"]);
  });
});

describe("options are known by name", () => {
  /** What other libraries call it, or people, and what the error says. */
  const NAMES = {
    progress_callback: /Use onProgress/,
    initProgressCallback: /Use onProgress/,
    dtype: /Use quantize/,
    quantise: /Use quantize/,
    workerURL: /Use workerUrl/,
    kv_bytes: /Use kvBytes/,
    n_ctx: /Use context/,
    revision: /org\/name@revision/,
    temperature: /parameter of requests/,
    baseURL: /Use fallback/,
    wings: /Expected some of onProgress, .*quantize/,
  };

  test("of a load, before a worker starts", async () => {
    const page = await open(null);
    for (const [name, advice] of Object.entries(NAMES)) {
      const refused = await page.evaluate((name) => failure(Engine.load("model/", { [name]: 1 })), name);
      assert.ok(refused.typed, JSON.stringify(refused));
      assert.deepEqual([refused.code, refused.param], ["invalid_request", name]);
      assert.match(refused.message, advice);
      assert.match(refused.message, new RegExp(`^${name}: there is no such option\\. `));
    }
    nothing("boot");
    await page.evaluate(() => Engine.load("model/", { host: "private", .../** @type {any} */ ({ wings: undefined }) }));
  });

  test("of a probe, of requests and of calls about tokens; there may be none", async () => {
    const page = await open({ host: "private" });
    const refused = await page.evaluate(async () => {
      const options = /** @type {any} */ ({ timeout: 5000 });
      const misspelt = /** @type {any} */ ({ add_special_tokens: false });
      return [
        await failure(engine.chat.completions.create({ messages: [] }, options)),
        await failure(engine.completions.create({ prompt: "a" }, options)),
        await failure(engine.embeddings.create({ input: "a" }, options)),
        await failure(engine.tokenize("a", misspelt)),
        await failure(Engine.probe(/** @type {any} */ ({ model: "model/" }))),
      ];
    });
    assert.deepEqual(
      refused.map(({ code, param }) => [code, param]),
      ["timeout", "timeout", "timeout", "add_special_tokens", "model"].map((name) => ["invalid_request", name]),
    );
    assert.match(refused[0].message, /Use signal: AbortSignal\.timeout/);
    assert.match(refused[3].message, /Use addSpecialTokens/);
    for (const type of ["chat", "complete", "embed"]) nothing(type);
    fates.chat = [{ count: 1 }, { count: 1 }];
    const answered = await page.evaluate(async () => {
      const { choices } = await engine.chat.completions.create({ messages: [] }, null);
      // A controller has a signal.
      await engine.chat.completions.create({ messages: [] }, new AbortController());
      return choices[0].message.content;
    });
    assert.equal(answered, "0 ");
  });

  /** Options that are wrong, as the page writes them, what is named, and what the error says. */
  const WRONG = /** @type {[string, string, RegExp][]} */ ([
    [
      "{ signal: new AbortController() }",
      "signal",
      /found AbortController, expected an AbortSignal\. Use controller\.signal/,
    ],
    ["{ signal: 5000 }", "signal", /found 5000, expected an AbortSignal/],
    ['{ get signal() { throw new Error("gone"); } }', "signal", /found what cannot be read \(gone\)/],
    ['{ get host() { throw new Error("gone"); } }', "host", /found what cannot be read \(gone\)/],
    [
      "(() => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy; })()",
      "options",
      /cannot be read/,
    ],
  ]);

  test("a signal that is none, and what cannot be read, wherever there are options", async () => {
    const page = await open({ host: "private" });
    for (const [options, param, message] of WRONG) {
      for (const call of [
        `Engine.load("model/", ${options})`,
        `Engine.probe(${options})`,
        `engine.chat.completions.create({ messages: [] }, ${options})`,
        `engine.embeddings.create({ input: "a" }, ${options})`,
        `engine.tokenize("a", ${options})`,
        `engine.detokenize([1], ${options})`,
      ]) {
        const refused = await page.evaluate(`failure(${call})`);
        assert.deepEqual([refused.typed, refused.code, refused.param], [true, "invalid_request", param], call);
        assert.match(refused.message, message);
      }
    }
    for (const type of ["chat", "embed", "tokens"]) nothing(type);
  });

  test("of deleting a model", async () => {
    const page = await open({ host: "private" });
    const [refused, deleted] = await page.evaluate(async () => [
      await failure(Engine.store.delete("model/", /** @type {any} */ ({ dtype: "q4" }))),
      await Engine.store.delete("model/", null),
    ]);
    assert.deepEqual([refused.typed, refused.code, refused.param], [true, "invalid_request", "dtype"]);
    assert.equal(deleted, false);
  });
});

describe("the browser is asked to keep what is stored", () => {
  const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";

  for (const [where, userAgent, options, asked] of /** @type {const} */ ([
    ["where it decides by itself", undefined, {}, 1],
    ["not where it would ask the visitor", FIREFOX, {}, 0],
    ["where the page wants that", FIREFOX, { persist: true }, 1],
    ["not where the page does not", undefined, { persist: false }, 0],
  ])) {
    test(where, async () => {
      await context.addInitScript((userAgent) => {
        globalThis.asked = 0;
        navigator.storage.persist = async () => {
          globalThis.asked += 1;
          return true;
        };
        if (userAgent) Object.defineProperty(navigator, "userAgent", { value: userAgent });
      }, userAgent);
      const page = await open(null);
      fates.load = [{ info: { stored: true } }];
      await load(page, { host: "private", ...options });
      assert.equal(await page.evaluate(() => globalThis.asked), asked);
    });
  }
});
