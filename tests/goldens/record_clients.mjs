// What clients really send: tests/goldens/real/client_requests.json.
//
//     node tests/goldens/record_clients.mjs
//
// The official `openai` client and the AI SDK talk to a small server on this machine, which answers as
// OpenAI's, vLLM's and OpenRouter's servers do and keeps the bodies of the requests. Each conversation is a
// list of answers and the code of a page. Answers that come back in a later request are what the
// libraries made of them. `fields` are the names of all parameters in the client's types.
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

/** Answers that wait for their requests. @type {any[]} */
const answers = [];
let requests = [];

const server = createServer(async (request, response) => {
  let text = "";
  for await (const piece of request) text += piece;
  const body = JSON.parse(text);
  requests.push({ path: new URL(request.url, "http://localhost").pathname.replace("/v1/", ""), body });
  const answer = answers.shift();
  if (!body.stream) return response.setHeader("content-type", "application/json").end(JSON.stringify(whole(answer)));
  response.setHeader("content-type", "text/event-stream");
  for (const chunk of chunks(answer)) response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  response.end("data: [DONE]\n\n");
});
await once(server.listen(0), "listening");
const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
const baseURL = `http://localhost:${port}/v1`;

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const head = { id: "chatcmpl-1", created: 1700000000, model: "m", service_tier: "default", system_fingerprint: null };

/** The answer with this message, or this object. */
function whole(answer) {
  if (answer.object) return answer;
  const message = { role: "assistant", content: null, refusal: null, annotations: [], ...answer };
  const finish_reason = message.tool_calls?.length ? "tool_calls" : "stop";
  return { ...head, object: "chat.completion", choices: [{ index: 0, message, logprobs: null, finish_reason }], usage };
}

function chunks(answer) {
  const { choices } = whole(answer);
  const { content, tool_calls, annotations: _, ...rest } = choices[0].message;
  const pieces = [{ ...rest, content: "" }];
  for (const piece of content?.match(/.{1,4}/gs) ?? []) pieces.push({ content: piece });
  for (const [index, { id, type, function: called }] of (tool_calls ?? []).entries()) {
    pieces.push({ tool_calls: [{ index, id, type, function: { name: called.name, arguments: "" } }] });
    for (const piece of called.arguments.match(/.{1,4}/gs) ?? [])
      pieces.push({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  const chunk = (choices, more) => ({ ...head, object: "chat.completion.chunk", choices, ...more });
  const choice = (delta, finish_reason = null) => ({ index: 0, delta, logprobs: null, finish_reason });
  return [
    ...pieces.map((delta) => chunk([choice(delta)])),
    chunk([choice({}, choices[0].finish_reason)]),
    chunk([], { usage }),
  ];
}

const call = (name, args, id = "call_1") => ({ id, type: "function", function: { name, arguments: args } });
const weather = { tool_calls: [call("weather", '{"city":"Paris","country":null}')] };
const clock = { tool_calls: [call("clock", "", "call_2")] };
const sunny = { content: "It is sunny." };
/** @type {any} */
const ask = { role: "user", content: "What is the weather in Paris?" };
const result = { role: "tool", tool_call_id: "call_1", content: '{"celsius":21}' };

// Untyped, as what is sent is also what the types do not have.
const client = /** @type {any} */ (new OpenAI({ baseURL, apiKey: "none" }));
const chat = client.chat.completions;
const sdk = createOpenAICompatible({ name: "fake", baseURL, includeUsage: true, supportsStructuredOutputs: true });
const plain = createOpenAICompatible({ name: "fake", baseURL });
const model = "m";

const City = z.object({ city: z.string().describe("Its name."), country: z.enum(["France", "Spain"]).nullable() });
/** What people write in schemas of tools. */
const Many = z.object({
  labels: z.record(z.string(), z.number()),
  parts: z.record(z.enum(["a", "b"]), z.string()),
  names: z.record(z.string().regex(/^[a-z]+$/), z.boolean()),
  email: z.email().optional(),
  id: z.uuid().or(z.ulid()),
  secret: z.base64().optional(),
  page: z.url().nullish(),
  when: z.iso.datetime().optional(),
  count: z.int().min(0),
  small: z.uint32(),
  size: z.float32(),
  pair: z.tuple([z.string(), z.number()]),
  shape: z.discriminatedUnion("kind", [z.object({ kind: z.literal("dot") }), z.object({ kind: z.literal("line") })]),
  never: z.never().optional(),
  anything: z.unknown(),
  tags: z.array(z.string()).max(3).readonly().default([]),
});
const Node = z.object({
  name: z.string(),
  get children() {
    return z.array(Node);
  },
});
/** A schema that no answer could be held to. @type {any} */
const loose = {
  type: "object",
  properties: {
    path: { $ref: "#/components/schemas/a~1b" },
    list: { type: "array", items: { type: "integer", format: "uint32" }, uniqueItems: true },
    text: { type: "string", pattern: "^(?!\\s*$).+" },
    big: { type: "integer", minimum: -(2 ** 63), maximum: 2 ** 63 },
    other: { not: { type: "null" } },
  },
  components: { schemas: { "a/b": { type: "string" } } },
};

const conversations = {
  async "openai: parse, and its message sent back"() {
    answers.push({ content: '{"city":"Paris","country":"France"}' }, sunny);
    const response_format = zodResponseFormat(City, "city");
    const { choices } = await chat.parse({ model, messages: [ask], response_format });
    await chat.parse({ model, messages: [ask, choices[0].message, ask], response_format: { type: "text" } });
  },
  async "openai: parse with strict tools, and its calls sent back"() {
    answers.push(weather, sunny);
    const tools = [zodFunction({ name: "weather", parameters: City })];
    const { choices } = await chat.parse({ model, messages: [ask], tools });
    await chat.parse({ model, messages: [ask, choices[0].message, result], tools });
  },
  async "openai: a recursive schema"() {
    answers.push({ content: '{"name":"a","children":[]}' });
    await chat.parse({ model, messages: [ask], response_format: zodResponseFormat(Node, "node") });
  },
  async "openai: runTools"() {
    answers.push(weather, clock, sunny);
    const run = (name, parameters) => ({
      type: "function",
      function: { name, parameters, function: () => "21", parse: (text) => text && JSON.parse(text) },
    });
    const tools = [run("weather", z.toJSONSchema(Many)), run("clock", { type: "object", properties: {} })];
    await chat.runTools({ model, messages: [ask], tools }).finalContent();
  },
  async "openai: runTools in a stream"() {
    answers.push(weather, sunny);
    const tools = [zodFunction({ name: "weather", parameters: City, function: () => "21" })];
    await chat.runTools({ model, messages: [ask], tools, stream: true }).finalContent();
  },
  async "openai: a stream put together, and sent back"() {
    answers.push({ ...sunny, reasoning: "Let me see.", reasoning_content: "Let me see." }, weather, clock, sunny);
    const messages = [{ role: "developer", content: "Be kind." }, ask];
    const tools = [
      { type: "function", function: { name: "weather", parameters: loose } },
      { type: "function", function: { name: "clock", description: "The time." } },
    ];
    for (let i = 0; i < 4; i++) {
      const stream = chat.stream({ model, messages, tools, stream_options: { include_usage: true } });
      const message = await stream.finalMessage();
      const { tool_calls: calls = [] } = message;
      messages.push(message, ...calls.map(({ id }) => ({ ...result, tool_call_id: id })));
      if (!calls.length) messages.push(ask);
    }
  },
  async "openai: answers of vLLM and OpenRouter sent back"() {
    const details = [{ type: "reasoning.text", text: "Let me see.", format: "unknown", index: 0 }];
    const vllm = {
      audio: null,
      function_call: null,
      tool_calls: [],
      reasoning: "Let me see.",
      reasoning_content: null,
    };
    const router = { ...sunny, reasoning: "Let me see.", reasoning_details: details };
    answers.push({ ...sunny, ...vllm }, router, { content: null, reasoning: "Let me see." }, { refusal: "No." }, sunny);
    const messages = [ask];
    for (let i = 0; i < 5; i++) {
      const { choices } = await chat.create({ model, messages });
      messages.push(choices[0].message, ask);
    }
  },
  async "openai: every parameter at its default"() {
    answers.push(sunny, sunny, { object: "text_completion", choices: [] }, { object: "list", data: [] });
    const shared = {
      frequency_penalty: 0,
      logit_bias: {},
      n: 1,
      presence_penalty: 0,
      seed: null,
      stop: null,
      top_p: 1,
    };
    await chat.create({
      ...shared,
      model,
      messages: [ask],
      audio: null,
      functions: [],
      function_call: "auto",
      logprobs: false,
      max_tokens: null,
      max_completion_tokens: 5,
      metadata: {},
      modalities: ["text"],
      parallel_tool_calls: true,
      prediction: null,
      prompt_cache_key: "a",
      reasoning_effort: null,
      response_format: { type: "text" },
      safety_identifier: "me",
      service_tier: "auto",
      store: false,
      stream: false,
      stream_options: null,
      temperature: 1,
      tool_choice: "auto",
      tools: [],
      top_logprobs: 0,
      user: "me",
      verbosity: "medium",
      web_search_options: null,
    });
    await chat.create({ model, messages: [ask], tool_choice: "none", function_call: "none", logprobs: null });
    await client.completions.create({
      ...shared,
      model,
      prompt: "Once",
      best_of: 1,
      echo: false,
      logprobs: null,
      max_tokens: 5,
      stream: false,
      stream_options: null,
      suffix: null,
      temperature: 1,
      user: "me",
    });
    await client.embeddings.create({ model, input: ["a", "b"], user: "me" });
  },
  async "ai: generateText in steps"() {
    answers.push({ ...weather, reasoning_content: "Let me see." }, clock, sunny);
    const tools = {
      weather: tool({ description: "The weather.", inputSchema: City, execute: () => 21 }),
      many: tool({ inputSchema: Many }),
      clock: tool({ inputSchema: z.object({}), execute: () => "12:00" }),
      loose: tool({ inputSchema: jsonSchema(loose), execute: () => ({}) }),
    };
    await generateText({ model: sdk(model), tools, prompt: ask.content, stopWhen: stepCountIs(3) });
  },
  async "ai: streamText in steps, a call required first"() {
    answers.push({ ...weather, reasoning: "Let me see." }, sunny, sunny);
    const tools = { weather: tool({ inputSchema: City, strict: true, execute: () => ({ celsius: 21 }) }) };
    /** @type {any} */
    const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "auto" });
    const system = "Be kind.";
    const messages = [ask];
    const stream = streamText({ model: sdk(model), system, tools, messages, prepareStep, stopWhen: stepCountIs(2) });
    await stream.consumeStream();
    const said = await stream.responseMessages;
    await streamText({ model: sdk(model), system, messages: [...messages, ...said, ask] }).consumeStream();
  },
  async "ai: objects"() {
    const paris = { content: '{"city":"Paris","country":"France"}' };
    answers.push(paris, paris, paris);
    await generateObject({ model: sdk(model), schema: City, prompt: ask.content });
    await generateObject({ model: plain(model), schema: City, prompt: ask.content });
    await generateText({ model: sdk(model), output: Output.object({ schema: City }), prompt: ask.content });
  },
};

/** The names of the parameters that an interface of the client's types has. */
function fields(file, name) {
  const types = readFileSync(new URL(`../../node_modules/openai/resources/${file}.d.ts`, import.meta.url), "utf8");
  const [body] = types.slice(types.indexOf(`export interface ${name} {`)).split("\n}", 1);
  return [...body.matchAll(/^ {4}(\w+)\??:/gm)].map(([, field]) => field);
}

const recorded = {};
for (const [name, talk] of Object.entries(conversations)) {
  requests = [];
  await talk();
  if (answers.length) throw new Error(`${name}: ${answers.length} answers are left`);
  recorded[name] = requests;
}
server.close();
const out = {
  fields: {
    chat: fields("chat/completions/completions", "ChatCompletionCreateParamsBase"),
    completions: fields("completions", "CompletionCreateParamsBase"),
    embeddings: fields("embeddings", "EmbeddingCreateParams"),
  },
  conversations: recorded,
};
const lines = (object, line) =>
  Object.entries(object)
    .map(([name, value]) => `${JSON.stringify(name)}: ${line(value)}`)
    .join(",\n");
const bodies = (requests) => `[\n${requests.map((request) => JSON.stringify(request)).join(",\n")}\n]`;
const file = new URL("real/client_requests.json", import.meta.url);
writeFileSync(
  file,
  `{\n"fields": {\n${lines(out.fields, JSON.stringify)}\n},\n"conversations": {\n${lines(out.conversations, bodies)}\n}\n}\n`,
);
