// A server behind the device: who opts in gets answers that say where they are from; nobody else's
// requests leave the page. The server is the native one.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, beforeEach, test } from "node:test";
import { start } from "../serve/server.mjs";
import { launch } from "./browser.mjs";
import { goldens, openPackage } from "./package.mjs";

const { messages, answer } = goldens[0];
const MODEL = "remote";
const KEY = "short-lived";

let server;
let session;
/** A page without WebGPU. */
let without;
/** A server that answers as `respond` says, and what it was asked. */
let scripted;
let respond;
let asked;

before(async () => {
  server = await start("--name", MODEL, "--cors", "*", "--api-key", KEY);
  session = await openPackage();
  const browser = await launch({ webgpu: false });
  without = await browser.newPage();
  await without.goto(`${session.server.url}bare.html`);
  await without.waitForFunction(() => globalThis.Engine);
  scripted = createServer(async (request, response) => {
    response.setHeader("access-control-allow-origin", "*");
    response.setHeader("access-control-allow-headers", "*");
    if (request.method === "OPTIONS") return response.writeHead(204).end();
    const body = [];
    for await (const piece of request) body.push(piece);
    const { url, headers } = request;
    asked.push({ url, key: headers.authorization, body: JSON.parse(Buffer.concat(body).toString()) });
    respond(response);
  });
  await new Promise((resolve) => scripted.listen(0, "127.0.0.1", resolve));
});

beforeEach(() => {
  asked = [];
});

after(async () => {
  scripted?.closeAllConnections();
  scripted?.close();
  await without?.context().browser().close();
  await session?.close();
  await server?.stop();
});

const remote = () => ({ baseURL: `${server.url}/v1`, apiKey: KEY, model: MODEL });
const fake = () => ({ baseURL: `http://127.0.0.1:${scripted.address().port}/api/v1/`, model: "fake" });

/** Loads an engine whose requests go to `fallback`, into a page. */
const load = (page, fallback, options = {}) =>
  page.evaluate(
    async ([fallback, options]) => {
      globalThis.engine?.close();
      globalThis.engine = await Engine.load("model/", { host: "private", fallback, ...options });
      return engine.info;
    },
    [fallback, options],
  );

const json = (status, value) => (response) => {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(typeof value === "string" ? value : JSON.stringify(value));
};
const failing = (params = {}) =>
  without.evaluate((params) => failure(engine.chat.completions.create({ messages: [], ...params })), params);

test("without the option there is no engine, and nothing is asked of anybody", async () => {
  const failed = await without.evaluate(() => failure(Engine.load("model/", { host: "private" })));
  assert.deepEqual([failed.typed, failed.code], [true, "no_gpu"]);
});

test("where there is no WebGPU the server answers, and says so", async () => {
  const info = await load(without, remote());
  assert.equal(info.device, "none");
  assert.deepEqual(info.fallback, { baseURL: `${server.url}/v1`, model: MODEL, reason: "no_gpu" });
  const { completion, chunks, text, vectors, host, models } = await without.evaluate(async (messages) => {
    const params = { messages, temperature: 0 };
    const stream_options = { include_usage: true };
    const chunks = [];
    const stream = await engine.chat.completions.create({ ...params, stream: true, stream_options });
    for await (const chunk of stream) chunks.push(chunk);
    return {
      chunks,
      completion: await engine.chat.completions.create(params),
      text: await engine.completions.create({ prompt: "a fox", max_tokens: 2 }),
      vectors: await engine.embeddings.create({ input: "a fox" }),
      models: (await engine.models.list()).data,
      host: engine.host,
    };
  }, messages);
  assert.equal(completion.choices[0].message.content, answer);
  const pieces = chunks.flatMap(({ choices }) => choices).map(({ delta }) => delta.content ?? "");
  assert.equal(pieces.join(""), answer);
  assert.ok(pieces.length > 3 && chunks.at(-1).usage.completion_tokens > 3);
  const all = [completion, ...chunks, text, vectors];
  assert.ok(all.every(({ served_by }) => served_by === "fallback"));
  assert.ok(all.every(({ model }) => model === MODEL));
  assert.equal(vectors.data[0].object, "embedding");
  assert.equal(host, null);
  assert.deepEqual(
    models.map(({ id }) => id),
    [info.model],
  );
});

test("engine.fetch and long streams go the same way", async () => {
  const { whole, events, count } = await without.evaluate(async (messages) => {
    const ask = (body) => engine.fetch("/v1/chat/completions", { method: "POST", body: JSON.stringify(body) });
    const whole = await (await ask({ messages, temperature: 0 })).json();
    const events = await (await ask({ messages, stream: true, temperature: 0 })).text();
    // More than a reader gets without reading, though a piece may be of eight tokens.
    const params = { messages, stream: true, max_tokens: 600, ignore_eos: true };
    let count = 0;
    for await (const { choices } of await engine.chat.completions.create(params)) count += choices.length;
    return { whole, events, count };
  }, messages);
  assert.deepEqual([whole.served_by, whole.choices[0].message.content], ["fallback", answer]);
  const data = events.split("\n\n").map((event) => event.slice("data: ".length));
  assert.equal(data.at(-2), "[DONE]");
  assert.ok(data.slice(0, -2).every((event) => JSON.parse(event).served_by === "fallback"));
  assert.ok(count > 64, `${count} pieces`);
});

test("responses are made of a server's chats, with what the model thought", async () => {
  const message = { role: "assistant", content: "Yes.", reasoning_content: "Hm." };
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
  const head = { id: "chatcmpl-1", created: 5, model: "fake" };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  const deltas = [{ reasoning_content: "Hm." }, { content: "Yes." }];
  const chunks = deltas.map((delta) => ({ ...head, choices: [{ index: 0, delta, finish_reason: null }] }));
  respond = (response) => {
    if (!asked.at(-1).body.stream) return json(200, { ...head, object: "chat.completion", choices, usage })(response);
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const chunk of [...chunks, { ...head, choices: [], usage }])
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    response.end("data: [DONE]\n\n");
  };
  await load(without, fake());
  const { whole, events } = await without.evaluate(async () => {
    const ask = (stream) =>
      engine.fetch("/v1/responses", { method: "POST", body: JSON.stringify({ input: "Is it?", stream }) });
    return { whole: await (await ask(false)).json(), events: await (await ask(true)).text() };
  });
  const [reasoning, said] = whole.output;
  assert.deepEqual(reasoning.content, [{ type: "reasoning_text", text: "Hm." }]);
  assert.deepEqual([said.content[0].text, whole.served_by, whole.model], ["Yes.", "fallback", "fake"]);
  assert.deepEqual([whole.usage.input_tokens, whole.usage.output_tokens_details.reasoning_tokens], [3, 0]);
  const told = events.split("\n\n").slice(0, -1);
  for (const event of told) assert.match(event, /^event: (response\.[a-z_.]+)\ndata: \{"type":"\1",.*\}$/);
  const last = told.at(-1).split("\ndata: ");
  assert.equal(last[0], "event: response.completed");
  assert.deepEqual(JSON.parse(last[1]).response, whole);
  assert.deepEqual(
    [asked.length, asked[0].url, asked[1].body.messages[0].content],
    [2, "/api/v1/chat/completions", "Is it?"],
  );
});

test("what is of the device alone fails as it does without", async () => {
  const { failures, availability } = await without.evaluate(async () => {
    const model = engine.languageModel();
    const calls = [engine.tokenize("a"), engine.metrics(), model.create()];
    calls.push(engine.chat.completions.create({ messages: [] }, { fallback: false }));
    return { failures: await Promise.all(calls.map(failure)), availability: await model.availability() };
  });
  const [tokens, metrics, created, kept] = failures;
  assert.deepEqual([tokens.code, metrics.code, kept.code], ["no_gpu", "no_gpu", "no_gpu"]);
  assert.deepEqual([created.name, availability], ["NotSupportedError", "unavailable"]);
});

test("the element promises that nothing leaves the device", async () => {
  await load(without, fake());
  const failed = await without.evaluate(async () => {
    await import("./tabloom/element.js");
    const chat = document.createElement("tabloom-chat");
    chat.engine = engine;
    document.body.append(chat);
    const error = new Promise((resolve) =>
      chat.addEventListener("tabloom-error", ({ detail }) => resolve(detail.error)),
    );
    chat.send("Hello?");
    const { code } = await error;
    chat.remove();
    return code;
  });
  assert.equal(failed, "no_gpu");
  assert.deepEqual(asked, []);
});

test("a device that can answer does, and says so", async () => {
  const info = await load(session.page, fake());
  assert.equal(info.device, "gpu");
  assert.deepEqual(info.fallback, { ...fake(), baseURL: fake().baseURL.slice(0, -1), reason: null });
  const served = await session.page.evaluate(async (messages) => {
    const params = { messages, temperature: 0, max_tokens: 2 };
    const answers = [await engine.chat.completions.create(params)];
    for await (const chunk of await engine.chat.completions.create({ ...params, stream: true })) answers.push(chunk);
    answers.push(await engine.embeddings.create({ input: "a" }), await engine.completions.create({ prompt: "a" }));
    return answers.map(({ served_by }) => served_by);
  }, messages);
  assert.ok(served.length > 4 && served.every((by) => by === "device"), served.join());
  assert.deepEqual(asked, []);
});

test("a queue that is full, or a model that is too big, is a reason where the page says so", async () => {
  const { page } = session;
  const choices = [{ index: 0, text: "far", finish_reason: "stop" }];
  respond = json(200, { id: "1", object: "text_completion", model: "fake", choices });
  const fill = () =>
    page.evaluate(() => {
      const prompt = Array.from({ length: 128 }, (_, i) => `${i}`);
      const ask = () => engine.completions.create({ prompt, max_tokens: 1, speculative_decoding: false });
      const told = ({ served_by, code }) => served_by ?? code;
      return Promise.all(Array.from({ length: 6 }, () => ask().then(told, told)));
    });
  await load(page, { ...fake(), when: ["queue_full"] });
  const served = await fill();
  assert.ok(served.includes("device") && served.includes("fallback"), served.join());
  assert.equal(asked.length, served.filter((by) => by === "fallback").length);
  const { url, body } = asked[0];
  assert.deepEqual([url, body.model, body.prompt.length], ["/api/v1/completions", "fake", 128]);
  assert.equal("speculative_decoding" in body, false);

  await load(page, { ...fake(), when: ["no_gpu"] });
  asked = [];
  assert.ok((await fill()).includes("queue_full"));
  const budget = { budgetBytes: 1000 };
  const options = [
    { host: "private", ...budget, fallback: { ...fake(), when: ["no_gpu"] } },
    { host: "private", ...budget },
  ];
  for (const refused of options) {
    const failed = await page.evaluate((options) => failure(Engine.load("model/", options)), refused);
    assert.equal(failed.code, "over_budget");
  }
  assert.deepEqual(asked, []);
  assert.equal((await load(page, fake(), budget)).fallback.reason, "over_budget");
  const reasons = await page.evaluate(async (fallback) => {
    const reasons = [];
    const when = (reason) => reasons.push(reason) && false;
    await Engine.load("model/", { host: "private", budgetBytes: 1000, fallback: { ...fallback, when } }).catch(
      () => {},
    );
    return reasons;
  }, fake());
  assert.deepEqual(reasons, ["over_budget"]);
});

test("a model that is wrong is no reason", async () => {
  const failed = await without.evaluate(
    (fallback) => failure(Engine.load("nowhere/", { host: "private", fallback })),
    fake(),
  );
  assert.equal(failed.code, "fetch");
  assert.deepEqual(asked, []);
});

test("keys may be had anew for each request", async () => {
  respond = json(200, { object: "chat.completion", choices: [] });
  const failed = await without.evaluate(async (fallback) => {
    globalThis.engine?.close();
    let i = 0;
    const apiKey = async () => {
      if (i === 2) throw new TypeError("no more keys");
      return `key ${++i}`;
    };
    globalThis.engine = await Engine.load("model/", { host: "private", fallback: { ...fallback, apiKey } });
    const ask = () => engine.chat.completions.create({ messages: [] });
    await ask();
    await ask();
    return failure(ask());
  }, fake());
  assert.deepEqual(
    asked.map(({ key }) => key),
    ["Bearer key 1", "Bearer key 2"],
  );
  assert.equal(failed.message, "no more keys");
});

test("errors of the server are passed on in OpenAI's shape", async () => {
  await load(without, { ...remote(), apiKey: "wrong" });
  const wrong = await failing();
  assert.deepEqual(
    [wrong.typed, wrong.code, wrong.details],
    [true, "invalid_api_key", { status: 401, served_by: "fallback" }],
  );
  await load(without, remote());
  const hot = await failing({ temperature: "hot" });
  assert.deepEqual([hot.code, hot.param], ["invalid_request", "temperature"]);

  await load(without, fake());
  assert.equal(await without.evaluate(() => engine.info.fallback.reason), "no_gpu");
  for (const [answer, code, message] of /** @type {[(response: any) => void, string, RegExp][]} */ ([
    [json(400, { error: { message: "no", type: "BadRequestError", code: 400 } }), "BadRequestError", /^no$/],
    [json(502, "<html>"), "fetch", /502.*<html>/],
    [json(200, "<html>"), "malformed", /<html>.*expected/],
    [(response) => response.destroy(), "fetch", /could not be reached/],
  ])) {
    respond = answer;
    const failed = await failing();
    assert.deepEqual([failed.typed, failed.code, failed.details.served_by], [true, code, "fallback"]);
    assert.match(failed.message, message);
  }
});

const chunk = (fields) => `data: ${JSON.stringify({ object: "chat.completion.chunk", ...fields })}\n\n`;
const piece = (content, finish_reason = null) => chunk({ choices: [{ index: 0, delta: { content }, finish_reason }] });
const events =
  (...parts) =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const part of parts) response.write(part);
    response.end();
  };
const reading = () =>
  without.evaluate(async () => {
    let text = "";
    const read = async () => {
      const stream = await engine.chat.completions.create({ messages: [], stream: true });
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
    };
    const failed = await failure(read());
    return { text, code: failed.code ?? failed, message: failed.message };
  });

test("streams are read however they are cut, and may break", async () => {
  const euro = Buffer.from(piece("€"));
  for (const [parts, text, code] of [
    [
      [
        ": wait\r\n\r\n",
        piece("a").replaceAll("\n", "\r\n"),
        euro.subarray(0, 75),
        euro.subarray(75),
        "data:[DONE]\n\n",
      ],
      "a€",
      "no failure",
    ],
    [[piece("a"), piece("b", "stop").trimEnd()], "ab", "no failure"],
    [[piece("a")], "a", "truncated"],
    [[piece("a"), `data: {"error": {"message": "full", "code": "overloaded"}}\n\n`], "a", "overloaded"],
    [["data: {\n\n"], "", "malformed"],
    [[piece("a"), chunk({ choices: {} })], "a", "malformed"],
    [[piece("a"), chunk({})], "a", "malformed"],
  ]) {
    respond = events(...parts);
    const read = await reading();
    assert.deepEqual([read.text, read.code], [text, code]);
  }
});

test("who aborts, leaves or closes ends the request at the server", async () => {
  const ended = [];
  respond = (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(piece("a"));
    ended.push(new Promise((resolve) => response.on("close", resolve)));
  };
  const failures = await without.evaluate(async () => {
    const params = { messages: [], stream: true };
    const controller = new AbortController();
    const aborted = await engine.chat.completions.create(params, controller);
    await aborted.next();
    const next = failure(aborted.next());
    controller.abort(new Error("changed my mind"));
    for await (const _ of await engine.chat.completions.create(params)) break;
    const early = failure(
      engine.chat.completions.create(params, { signal: AbortSignal.abort("early") }).catch((reason) => {
        throw new Error(reason);
      }),
    );
    const closed = await engine.chat.completions.create(params);
    await closed.next();
    const last = failure(closed.next());
    engine.close();
    const late = failure(engine.chat.completions.create(params));
    return Promise.all([next, early, last, late]);
  });
  assert.deepEqual(
    failures.map(({ code, message }) => code ?? message),
    ["changed my mind", "early", "closed", "closed"],
  );
  await Promise.all(ended);
  assert.equal(ended.length, 3);
});

test("a server that is silent for minutes has failed", async () => {
  await without.clock.install();
  await load(without, fake());
  const heard = new Promise((resolve) => (respond = resolve));
  const failed = failing();
  await heard;
  await without.clock.fastForward("05:01");
  const { code, message } = await failed;
  assert.equal(code, "fetch");
  assert.match(message, /silent/);
});

test("options that make no sense are refused by name", async () => {
  for (const [field, fallback] of [
    ["baseURL", { model: "a" }],
    ["baseURL", { baseURL: "ftp://a/", model: "a" }],
    ["model", { baseURL: "/v1" }],
    ["apiKey", { baseURL: "/v1", model: "a", apiKey: 5 }],
    ["when", { baseURL: "/v1", model: "a", when: ["bad weather"] }],
    ["when", { baseURL: "/v1", model: "a", when: "no_gpu" }],
  ]) {
    const failed = await without.evaluate(
      (fallback) => failure(Engine.load("model/", { host: "private", fallback })),
      fallback,
    );
    assert.deepEqual([failed.code, failed.param], ["invalid_request", `fallback.${field}`]);
  }
});
