// What of the native server no client library shows: bytes, headers, limits, its end.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "./server.mjs";

const CHAT = { messages: [{ role: "user", content: "Hi!" }], temperature: 0, max_tokens: 4 };

let server;

before(async () => {
  server = await start("--name", "small", "--max-queue", "2");
});

after(() => server?.stop());

const post = (path, body, headers = {}, url = server.url) =>
  fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

test("a stream is server-sent events that end with [DONE]", async () => {
  const response = await post("/v1/chat/completions", { ...CHAT, stream: true });
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  const events = (await response.text()).split("\n\n");
  assert.deepEqual(events.slice(-2), ["data: [DONE]", ""]);
  for (const event of events.slice(0, -2)) {
    assert.match(event, /^data: \{[^\n]+\}$/);
    assert.equal(JSON.parse(event.slice(6)).object, "chat.completion.chunk");
  }
});

test("what is no request is refused with its status", async () => {
  const error = async (response) => {
    assert.equal(response.headers.get("content-type"), "application/json");
    return [response.status, (await response.json()).error.code];
  };
  const chat = "/v1/chat/completions";
  assert.deepEqual(await error(await post(chat, "{")), [400, "invalid_request"]);
  assert.deepEqual(await error(await post(chat, "[]")), [400, "invalid_request"]);
  const plain = { "content-type": "text/plain" };
  assert.deepEqual(await error(await post(chat, CHAT, plain)), [415, "unsupported_media_type"]);
  assert.deepEqual(await error(await fetch(server.url + chat)), [405, "method_not_allowed"]);
  assert.deepEqual(await error(await fetch(`${server.url}/v2`)), [404, "not_found"]);
  const long = JSON.stringify({ ...CHAT, user: "x".repeat(65 << 20) });
  assert.deepEqual(await error(await post(chat, long)), [413, "payload_too_large"]);
});

test("who finds the queue full is told to try again", async () => {
  const many = await post("/v1/completions", { prompt: ["a", "b", "c"] });
  assert.equal(many.status, 429);
  const { error } = await many.json();
  assert.deepEqual([error.code, error.type], ["queue_full", "rate_limit_error"]);
  assert.equal((await post("/v1/chat/completions", CHAT)).status, 200);
});

test("texts become tokens and tokens texts, in vLLM's shapes", async () => {
  const told = await (await post("/tokenize", { prompt: "a fox", return_token_strs: true })).json();
  assert.deepEqual([told.count, told.token_strs.join("")], [told.tokens.length, "a fox"]);
  assert.equal(typeof told.max_model_len, "number");
  const back = await (await post("/detokenize", { tokens: told.tokens, model: "small" })).json();
  assert.deepEqual(back, { prompt: "a fox" });
  const chat = await (await post("/tokenize", { messages: CHAT.messages })).json();
  const text = await (await post("/detokenize", { tokens: chat.tokens })).json();
  assert.equal(text.prompt, "<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n");
  assert.equal(chat.token_strs, null);
  assert.equal((await post("/tokenize", { prompt: "a", model: "other" })).status, 404);
});

test("metrics are Prometheus' and bear the model's name", async () => {
  const response = await fetch(`${server.url}/metrics`);
  assert.match(response.headers.get("content-type"), /^text\/plain; version=0\.0\.4/);
  assert.match(await response.text(), /^vllm:num_requests_running\{model_name="small"\} 0$/m);
});

test("pages of other origins are not let in unless one is named", async () => {
  const preflight = (url) => fetch(`${url}/v1/models`, { method: "OPTIONS" });
  assert.equal((await preflight(server.url)).headers.get("access-control-allow-origin"), null);
  const open = await start("--cors", "https://example.org", "--api-key", "secret");
  try {
    const allowed = await preflight(open.url);
    assert.equal(allowed.status, 204);
    assert.equal(allowed.headers.get("access-control-allow-origin"), "https://example.org");
    assert.match(allowed.headers.get("access-control-allow-headers"), /authorization/);

    const refused = await fetch(`${open.url}/v1/models`);
    assert.equal(refused.status, 401);
    assert.equal(refused.headers.get("access-control-allow-origin"), "https://example.org");
    assert.equal((await refused.json()).error.code, "invalid_api_key");
    const expected = { "Bearer secret": 200, "bearer secret": 200, Bearer: 401, "Basic secret": 401 };
    for (const [authorization, status] of Object.entries(expected)) {
      assert.equal((await fetch(`${open.url}/v1/models`, { headers: { authorization } })).status, status);
    }
    assert.equal((await fetch(`${open.url}/metrics`)).status, 401);
    assert.equal((await fetch(`${open.url}/health`)).status, 200);
  } finally {
    await open.stop();
  }
});

test("a server that is told to end finishes what it has begun", async () => {
  const ending = await start();
  try {
    const stream = { ...CHAT, stream: true, max_tokens: 100, ignore_eos: true };
    const response = await post("/v1/chat/completions", stream, {}, ending.url);
    ending.kill("SIGINT");
    const events = (await response.text()).split("\n\n");
    assert.equal(events.at(-2), "data: [DONE]");
    assert.equal(await ending.ended, 0);
    await assert.rejects(fetch(`${ending.url}/health`));
  } finally {
    await ending.stop();
  }
});
