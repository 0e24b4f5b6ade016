// `engine.fetch`: OpenAI's API inside the page, by the contract that the native server keeps, and as
// bare requests see it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openClients } from "./bundled-clients.mjs";
import { contract } from "./openai.mjs";

let session;
let page;

before(async () => {
  session = await openClients("openai-page.mjs");
  page = session.page;
});

after(() => session?.close());

test("what responses take is loaded with the first of them", async () => {
  const ask = (path, params) =>
    page.evaluate(
      async ([path, params]) => (await engine.fetch(path, { method: "POST", body: JSON.stringify(params) })).status,
      [path, params],
    );
  const loaded = (name) => session.server.requests.some((path) => path.endsWith(`calls/${name}.js`));
  assert.equal(await ask("/v1/completions", { prompt: "a", max_tokens: 1 }), 200);
  assert.deepEqual([loaded("fetch"), loaded("responses"), loaded("responses-answer")], [true, false, false]);
  assert.equal(await ask("/v1/responses", { input: "a", max_output_tokens: 1 }), 200);
  assert.ok(loaded("responses") && loaded("responses-answer") && loaded("responses-request"));
});

for (const name of Object.keys(contract)) {
  test(`the openai client: ${name}`, () => page.evaluate((name) => clients.check(name, engine), name));
}

test("nothing of this has left the page", () => {
  const strange = session.server.requests.filter((path) => path.includes("v1/"));
  assert.deepEqual(strange, []);
});

test("it takes what fetch takes, without this", async () => {
  const texts = await page.evaluate(async () => {
    const { fetch } = engine;
    const messages = [{ role: "user", content: "What is the capital of France?" }];
    const body = JSON.stringify({ messages, temperature: 0 });
    const init = { method: "POST", body };
    const { href } = new URL("deep/v1/chat/completions", location.href);
    const responses = [
      await fetch("/v1/chat/completions", init),
      await fetch(new URL(href), init),
      await fetch(new Request(href, init)),
      await fetch(new Request(href, { method: "POST", body: "{" }), { body }),
      await fetch(href, { ...init, body: new Blob([body]), headers: { authorization: "Bearer x" } }),
    ];
    return Promise.all(
      responses.map(async (response) => {
        if (!response.ok || response.status !== 200) return response.status;
        if (response.headers.get("content-type") !== "application/json") return "no JSON";
        return (await response.json()).choices[0].message.content;
      }),
    );
  });
  assert.equal(texts.length, 5);
  assert.ok(typeof texts[0] === "string" && texts[0].length > 0, texts[0]);
  assert.deepEqual(new Set(texts), new Set([texts[0]]));
});

test("a stream is server-sent events to the letter", async () => {
  const { type, text, chunks } = await page.evaluate(async () => {
    const messages = [{ role: "user", content: "What is the capital of France?" }];
    const params = { messages, temperature: 0, seed: 1, stream: true };
    const response = await engine.fetch("/v1/chat/completions", {
      method: "POST",
      body: JSON.stringify(params),
    });
    const text = await response.text();
    const chunks = [];
    for await (const chunk of await engine.chat.completions.create(params)) chunks.push(chunk);
    return { type: response.headers.get("content-type"), text, chunks };
  });
  assert.equal(type, "text/event-stream");
  const events = text.split("\n\n");
  assert.equal(events.pop(), "");
  assert.equal(events.pop(), "data: [DONE]");
  const told = events.map((event) => {
    assert.match(event, /^data: \{.*\}$/);
    return JSON.parse(event.slice(6)).choices[0].delta.content ?? "";
  });
  const content = chunks.map(({ choices }) => choices[0].delta.content ?? "").join("");
  assert.equal(told.join(""), content);
});

test("a model goes by the name that it was loaded by, too", async () => {
  const { name, statuses, list } = await page.evaluate(async () => {
    const engine = await Engine.load("own-name", { registry: { "own-name": "/model/" } });
    const status = async (path, init) => (await engine.fetch(`https://nowhere.invalid/v1/${path}`, init)).status;
    const chat = (model) => {
      const messages = [{ role: "user", content: "a" }];
      const body = JSON.stringify({ model, messages, max_tokens: 1 });
      return status("chat/completions", { method: "POST", body });
    };
    const { name, model } = engine.info;
    const statuses = [await chat("own-name"), await chat(model), await status("models/own-name"), await chat("other")];
    const list = await engine.models.list();
    engine.close();
    return { name, statuses, list: list.data.map(({ id }) => id === model) };
  });
  assert.deepEqual([name, statuses, list], ["own-name", [200, 200, 200, 404], [true]]);
  const unnamed = await page.evaluate(() => engine.info.name);
  assert.equal(unnamed, null);
});

test("what is wrong has its status, and OpenAI's shape", async () => {
  /** @returns {[string, RequestInit]} */
  const post = (body, path = "chat/completions") => [path, { method: "POST", body }];
  const chat = (fields) => post(JSON.stringify({ messages: [{ role: "user", content: "a" }], ...fields }));
  const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
  for (const [
    [path, init],
    status,
    code,
    param,
    message,
  ] of /** @type {[[string, RequestInit], number, string, string | null, RegExp][]} */ ([
    [post("{"), 400, "invalid_request", null, /no JSON/],
    [post(""), 400, "invalid_request", null, /no JSON/],
    [post("null"), 400, "invalid_request", "request", /found null.*object/],
    [post("7"), 400, "invalid_request", "request", /found 7.*object/],
    [post("[]"), 400, "invalid_request", "request", /found \[\].*object/],
    [chat({ temperature: "hot" }), 400, "invalid_request", "temperature", /hot/],
    [chat({ stream: "yes" }), 400, "invalid_request", "stream", /yes/],
    [chat({ model: 5 }), 400, "invalid_request", "model", /5/],
    [chat({ model: "gpt-0", stream: true }), 404, "model_not_found", "model", /found.*expected/],
    [post("{}", "embeddings"), 400, "invalid_request", "input", /./],
    [post("{}", "completions"), 400, "invalid_request", "prompt", /./],
    [post("{}", "responses"), 400, "invalid_request", "input", /found nothing.*expected/],
    [
      post(`{"input":"a","truncation":${deep}}`, "responses"),
      400,
      "invalid_request",
      `truncation${"[0]".repeat(9)}`,
      /cannot be sent/,
    ],
    [post("{}", "responses/resp_1/cancel"), 404, "not_found", null, /found the path/],
    [post("{}", "chat/completions/"), 404, "not_found", null, /found the path/],
    [["../chat/completions", {}], 404, "not_found", null, /found the path/],
    [["models/nothing", {}], 404, "model_not_found", "model", /nothing/],
    [["models/%E0%A4%A", {}], 404, "model_not_found", "model", /%E0/],
    [["chat/completions", {}], 405, "method_not_allowed", null, /GET/],
    [["models", { method: "POST" }], 405, "method_not_allowed", null, /POST/],
  ])) {
    const found = await page.evaluate(
      async ([path, init]) => {
        const response = await engine.fetch(`https://nowhere.invalid/v1/${path}`, init);
        return { status: response.status, ...(await response.json()) };
      },
      [path, init],
    );
    const what = `${path} ${`${init.body}`.slice(0, 200)}`;
    assert.deepEqual([found.status, found.error.code, found.error.param], [status, code, param], what);
    assert.equal(found.error.type, "invalid_request_error");
    assert.match(found.error.message, message, what);
  }
});

test("who asks for more than the queue holds is asked to come again", async () => {
  const answers = await page.evaluate(() => {
    const prompt = Array.from({ length: 128 }, (_, i) => `${i}`);
    const ask = async () => {
      const body = JSON.stringify({ prompt, max_tokens: 1 });
      const response = await engine.fetch("/v1/completions", { method: "POST", body });
      const { choices, error } = await response.json();
      return [response.status, choices?.length, error?.code, error?.type];
    };
    return Promise.all([ask(), ask()]);
  });
  assert.deepEqual(answers, [
    [200, 128, undefined, undefined],
    [429, undefined, "queue_full", "rate_limit_error"],
  ]);
});

test("an abort rejects with its reason, before, meanwhile and in a stream", async () => {
  const found = await page.evaluate(async () => {
    const ask = (signal, stream) =>
      engine.fetch("/v1/completions", {
        method: "POST",
        signal,
        body: JSON.stringify({ prompt: "Once", max_tokens: 900, ignore_eos: true, stream }),
      });
    const reason = (promise) =>
      promise.then(
        () => "no failure",
        (error) => `${error.name ?? error}`,
      );
    const before = await reason(ask(AbortSignal.abort("early"), false));
    const controller = new AbortController();
    const whole = reason(ask(controller.signal, false));
    setTimeout(() => controller.abort("meanwhile"), 50);
    const other = new AbortController();
    const response = await ask(other.signal, true);
    const reader = response.body.getReader();
    await reader.read();
    other.abort();
    const drain = async () => {
      while (!(await reader.read()).done);
    };
    return [before, await whole, await reason(drain())];
  });
  assert.deepEqual(found, ["early", "meanwhile", "AbortError"]);
});

test("who does not read is not computed for, and who cancels the body ends the request", async () => {
  const [computed, ended] = await page.evaluate(async () => {
    const computed = async () => (await engine.metrics()).generation_tokens;
    const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));
    const aborted = async () => (await engine.metrics()).request_success.abort;
    const before = await aborted();
    const start = await computed();
    const response = await engine.fetch("/v1/completions", {
      method: "POST",
      body: JSON.stringify({ prompt: "Once", max_tokens: 900, ignore_eos: true, stream: true }),
    });
    const reader = response.body.getReader();
    await reader.read();
    // Until it stands still, half a minute at most.
    let last = -1;
    for (let i = 0; i < 60 && last !== (await computed()); i++) {
      last = await computed();
      await pause(500);
    }
    const held = (await computed()) - start;
    await reader.cancel();
    for (let i = 0; i < 300 && (await aborted()) === before; i++) await pause(100);
    return [held, (await aborted()) - before];
  });
  assert.ok(computed > 0 && computed < 300, `${computed} of 900 tokens`);
  assert.equal(ended, 1);
});

test("a failure within a stream is its last event, and an engine that is closed gives 503", async () => {
  const { events, thrown, status, error } = await page.evaluate(async () => {
    const other = await Engine.load("model/", { device: "cpu" });
    const params = { messages: [{ role: "user", content: "Tell me a story." }], ignore_eos: true };
    const body = JSON.stringify({ ...params, max_completion_tokens: 900, stream: true });
    const ask = () => other.fetch("/v1/chat/completions", { method: "POST", body });
    const reader = (await ask()).body.pipeThrough(new TextDecoderStream()).getReader();
    await reader.read();
    const client = clients.client(other);
    const stream = await client.chat.completions.create({ ...JSON.parse(body), stream: true });
    other.close();
    let events = "";
    for (let read; !(read = await reader.read()).done; ) events += read.value;
    const drain = async () => {
      for await (const _ of stream);
    };
    const thrown = await drain().then(
      () => null,
      (error) => [error.constructor.name, error.code],
    );
    const response = await ask();
    return { events, thrown, status: response.status, error: (await response.json()).error };
  });
  const last = JSON.parse(events.trim().split("\n\n").at(-1).slice("data: ".length));
  assert.deepEqual(Object.keys(last), ["error"]);
  for (const { code, type, message } of [last.error, error]) {
    assert.deepEqual([code, type], ["closed", "server_error"]);
    assert.match(message, /closed/);
  }
  assert.equal(thrown[1], "closed");
  assert.equal(status, 503);
});
