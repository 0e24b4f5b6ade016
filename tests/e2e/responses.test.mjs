// Responses as chats, and chats' answers as responses, by the table that the native server keeps, too. No
// browser is needed for this.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator";
import { respond } from "../../pkg-template/calls/responses.js";
import { TabloomError } from "../../pkg-template/error.js";

const goldens = JSON.parse(readFileSync(new URL("../goldens/responses.json", import.meta.url), "utf8"));

const HEAD = { id: "chatcmpl-1", created: 5, model: "m", served_by: "device" };
const COUNTS = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const usage = {
  ...COUNTS,
  prompt_tokens_details: { cached_tokens: 1 },
  completion_tokens_details: { reasoning_tokens: 1, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
};
const told = {
  input_tokens: 3,
  input_tokens_details: { cached_tokens: 1 },
  output_tokens: 2,
  output_tokens_details: usage.completion_tokens_details,
  total_tokens: 5,
};

const plain = (value) => JSON.parse(JSON.stringify(value));
const failed = (promise) => promise.then(assert.fail, (error) => error);

/** The chat that a request becomes. */
async function chat(params) {
  let asked;
  const refuse = async (chat) => {
    asked = plain(chat);
    throw new Error("enough");
  };
  const error = await failed(respond(params, refuse));
  assert.equal(error.message, "enough", error.message);
  return asked;
}

/** Chunks of an answer, and an error in place of the last one. */
async function* chunks(deltas, finish, error) {
  const choice = (delta, finish_reason = null) => ({ index: 0, delta, logprobs: null, finish_reason });
  for (const delta of deltas) yield { ...HEAD, choices: [choice(delta)], usage: null };
  if (error) throw error;
  yield { ...HEAD, choices: [choice({}, finish)], usage: null };
  yield { ...HEAD, choices: [], usage };
}

async function events(params, answer) {
  const stream = /** @type {AsyncIterator<any>} */ (await respond({ ...params, stream: true }, async () => answer));
  const events = [];
  for (let read = await stream.next(); !read.done; read = await stream.next()) events.push(plain(read.value));
  return events;
}

test("requests become chats", async () => {
  for (const { params, chat: expected } of goldens.requests) assert.deepEqual(await chat(params), expected);
});

test("what has no place in a chat is refused by its name", async () => {
  for (const [params, param] of goldens.refused) {
    const error = await failed(respond(params, async () => assert.fail(`${param} was not refused`)));
    assert.ok(error instanceof TabloomError, `${error}`);
    assert.deepEqual([error.code, error.param], ["invalid_request", param], error.message);
    assert.ok(error.message.startsWith(`${param}: found `), error.message);
  }
});

test("errors about the chat name what the request has", async () => {
  for (const [params, param, own] of goldens.names) {
    const message = `${param}: found it`;
    const error = new TabloomError({ code: "invalid_request", message, param, details: 5 });
    const found = await failed(respond(params, () => Promise.reject(error)));
    assert.deepEqual([found.code, found.message, found.param, found.details], [error.code, `${own}: found it`, own, 5]);
  }
  const other = new Error("no error of the engine");
  assert.equal(await failed(respond({ input: "a" }, () => Promise.reject(other))), other);
});

test("answers become responses, whole and in events of which the client makes the same", async () => {
  const params = { input: "a", instructions: "b", metadata: { c: "d" }, temperature: 0.5 };
  for (const { deltas, finish, events: types, output } of goldens.answers) {
    const found = await events(params, chunks(deltas, finish));
    assert.deepEqual(
      found.map(({ type }) => type.replace(/^response\./, "")),
      types,
    );
    assert.deepEqual(
      found.map(({ sequence_number }) => sequence_number),
      types.map((_, i) => i),
    );
    const { response } = found.at(-1);
    const cut = finish === "length";
    assert.deepEqual(response.output, output);
    assert.deepEqual(response.usage, told);
    assert.deepEqual(
      [response.status, response.incomplete_details?.reason],
      cut ? ["incomplete", "max_output_tokens"] : ["completed", undefined],
    );
    assert.deepEqual(
      [response.id, response.object, response.created_at, response.model],
      ["resp_1", "response", 5, "m"],
    );
    assert.deepEqual([response.instructions, response.metadata, response.temperature], ["b", { c: "d" }, 0.5]);

    let snapshot;
    for (const event of found.slice(0, -1)) snapshot = accumulateResponse(event, snapshot);
    assert.deepEqual(plain(snapshot.output), output);

    const joined = (field) => deltas.map((delta) => delta[field] ?? "").join("") || null;
    const tool_calls = deltas
      .flatMap((delta) => delta.tool_calls ?? [])
      .reduce((calls, { index, function: called, ...call }) => {
        calls[index] ??= { ...call, function: { ...called, arguments: "" } };
        calls[index].function.arguments += called.arguments;
        return calls;
      }, []);
    const message = { content: joined("content"), reasoning_content: joined("reasoning_content"), tool_calls };
    const choices = [{ message, logprobs: null, finish_reason: finish }];
    assert.deepEqual(plain(await respond(params, async () => ({ ...HEAD, choices, usage }))), response);
  }
});

test("a stream that fails ends with its error, and what is no error of the engine breaks it", async () => {
  const error = new TabloomError({ code: "device_lost", message: "it is gone" });
  const found = await events({ input: "a" }, chunks([{ content: "Par" }], null, error));
  const { type, response } = found.at(-1);
  assert.equal(type, "response.failed");
  assert.deepEqual([response.status, response.error], ["failed", { code: "device_lost", message: "it is gone" }]);
  assert.equal(response.output[0].content[0].text, "Par");
  const other = new Error("aborted");
  assert.equal(await failed(events({ input: "a" }, chunks([{ content: "a" }], null, other))), other);
  assert.equal(await failed(events({ input: "a" }, chunks([], null, error))), error);
});

test("a stream is left while an event is waited for", async () => {
  let left;
  const waiting = new Promise((resolve) => {
    left = () => resolve({ done: true, value: undefined });
  });
  const slow = { next: () => waiting, return: async () => left() };
  const stream = /** @type {AsyncIterator<any>} */ (await respond({ input: "a", stream: true }, async () => slow));
  const next = stream.next();
  await stream.return();
  assert.deepEqual(await next, { done: true, value: undefined });
});
