// What the official `openai` client and OpenAI's agents must see, of whoever answers them with the built-in
// model. Each entry is a function over a client alone, so that it can run in Node and in a page.
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

/**
 * @typedef {object} Subject
 * @property {any} client an `OpenAI` object
 * @property {any} OpenAI its class, which has the classes of errors
 * @property {string} model the model's name
 * @property {() => Promise<number>} aborted how many requests were given up so far
 */

/** @type {Record<string, (subject: Subject) => Promise<void>>} */
export const contract = {
  async "a chat is answered whole"({ client, model }) {
    const answer = await client.chat.completions.create({ ...FRANCE, model });
    const [choice, ...others] = answer.choices;
    equal(others.length, 0);
    ok(/^chatcmpl-/.test(answer.id) && answer.object === "chat.completion", answer);
    equal(answer.model, model);
    ok(Math.abs(answer.created - Date.now() / 1000) < 3600, answer.created);
    equal([choice.index, choice.message.role, choice.finish_reason], [0, "assistant", "stop"]);
    ok(choice.message.content.length > 0 && choice.logprobs === null, choice);
    const { prompt_tokens, completion_tokens, total_tokens } = answer.usage;
    ok(prompt_tokens > 0 && completion_tokens > 0, answer.usage);
    equal(total_tokens, prompt_tokens + completion_tokens);
  },

  async "a stream has the same text, and its usage last"({ client, model }) {
    const whole = await client.chat.completions.create({ ...FRANCE, model });
    const stream_options = { include_usage: true };
    const stream = await client.chat.completions.create({
      ...FRANCE,
      model,
      stream: true,
      stream_options,
    });
    const chunks = await all(stream);
    const last = chunks.pop();
    equal(last.choices, []);
    equal(last.usage.completion_tokens, whole.usage.completion_tokens);
    ok(
      chunks.every((chunk) => chunk.usage === null && chunk.id === last.id),
      chunks,
    );
    equal(chunks[0].choices[0].delta.role, "assistant");
    equal(content(chunks), whole.choices[0].message.content);
    const reasons = chunks.map((chunk) => chunk.choices[0].finish_reason);
    equal(
      reasons.filter((reason) => reason !== null),
      ["stop"],
    );
    equal(reasons.at(-1), "stop");
    const bare = await all(await client.chat.completions.create({ ...FRANCE, model, stream: true }));
    ok(
      bare.every((chunk) => !("usage" in chunk) && chunk.choices.length === 1),
      bare,
    );
  },

  async "the client's own helper puts a stream together"({ client, model }) {
    const whole = await client.chat.completions.create({ ...FRANCE, model });
    const stream = client.chat.completions.stream({ ...FRANCE, model });
    equal(await stream.finalContent(), whole.choices[0].message.content);
  },

  async "a seed gives the same answers again, and n of them"({ client, model }) {
    const request = { ...STORY, model, n: 3, seed: 11, temperature: 1, max_completion_tokens: 12 };
    const texts = async (more) => {
      const { choices } = await client.chat.completions.create({ ...request, ...more });
      equal(
        choices.map((choice) => choice.index),
        [0, 1, 2],
      );
      return choices.map((choice) => choice.message.content);
    };
    const first = await texts({});
    equal(await texts({}), first);
    ok(new Set(first).size > 1, first);
    ok((await texts({ seed: 12 })).join() !== first.join(), first);
    const chunks = await all(await client.chat.completions.create({ ...request, stream: true }));
    const of = (index) => chunks.filter((chunk) => chunk.choices[0].index === index);
    equal(
      [0, 1, 2].map((index) => content(of(index))),
      first,
    );
  },

  async "an answer ends at a stop string or at its limit"({ client, model }) {
    const request = { ...STORY, model, max_completion_tokens: 24 };
    const limited = await client.chat.completions.create(request);
    equal([limited.choices[0].finish_reason, limited.usage.completion_tokens], ["length", 24]);
    const text = limited.choices[0].message.content;
    const stop = text.slice(5, 9);
    const stopped = await client.chat.completions.create({ ...request, stop: [stop] });
    equal(stopped.choices[0].message.content, text.slice(0, text.indexOf(stop)));
    equal(stopped.choices[0].finish_reason, "stop");
  },

  async "log-probabilities come with each token"({ client, model }) {
    const request = { ...FRANCE, model, logprobs: true, top_logprobs: 2 };
    const { choices } = await client.chat.completions.create(request);
    const { content: tokens } = choices[0].logprobs;
    equal(tokens.map((told) => told.token).join(""), choices[0].message.content);
    for (const { token, logprob, bytes, top_logprobs } of tokens) {
      equal(new TextDecoder().decode(new Uint8Array(bytes)), token);
      ok(logprob <= 0 && top_logprobs.length === 2, top_logprobs);
      equal([top_logprobs[0].token, top_logprobs[0].logprob], [token, logprob]);
    }
    const chunks = await all(await client.chat.completions.create({ ...request, stream: true }));
    const told = chunks.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? []);
    equal(told, tokens);
  },

  async "an answer is held to a JSON schema"({ client, model }) {
    const schema = {
      type: "object",
      properties: {
        animal: { enum: ["fox", "cat", "dog"] },
        legs: { type: "integer", minimum: 0, maximum: 9 },
        tags: { type: "array", items: { enum: ["soft", "quick"] }, minItems: 1, maxItems: 2 },
      },
      required: ["animal", "legs", "tags"],
      additionalProperties: false,
    };
    for (const seed of [1, 2, 3, 4]) {
      const { choices } = await client.chat.completions.create({
        ...STORY,
        model,
        seed,
        temperature: 1,
        response_format: { type: "json_schema", json_schema: { name: "animal", schema } },
      });
      const found = JSON.parse(choices[0].message.content);
      equal(Object.keys(found).sort(), ["animal", "legs", "tags"]);
      ok(schema.properties.animal.enum.includes(found.animal), found);
      ok(Number.isInteger(found.legs) && found.legs >= 0 && found.legs <= 9, found);
      ok(found.tags.length >= 1 && found.tags.length <= 2, found);
      ok(
        found.tags.every((tag) => ["soft", "quick"].includes(tag)),
        found,
      );
      equal(choices[0].finish_reason, "stop");
    }
  },

  async "errors are the client's own, with code and parameter"({ client, OpenAI, model }) {
    const chat = (fields) => client.chat.completions.create({ ...FRANCE, model, ...fields });
    const long = "word ".repeat(20_000);
    const messages = [{ role: "user", content: long }];
    const nothing = { response_format: { type: "json_schema", json_schema: { schema: { type: 5 } } } };
    for (const [ask, kind, code, param] of /** @type {[() => Promise<unknown>, string, string, string | RegExp][]} */ ([
      [() => chat({ temperature: 9 }), "BadRequestError", "invalid_request", "temperature"],
      [() => chat({ stream: true, top_p: 0 }), "BadRequestError", "invalid_request", "top_p"],
      [() => chat({ messages: [] }), "BadRequestError", "invalid_request", "messages"],
      [() => chat({ temprature: 1 }), "BadRequestError", "invalid_request", "temprature"],
      [() => chat({ messages }), "BadRequestError", "context_length_exceeded", "messages"],
      [() => chat(nothing), "BadRequestError", "invalid_request", /^response_format\.json_schema/],
      [() => chat({ model: "gpt-0" }), "NotFoundError", "model_not_found", "model"],
      [
        () => client.completions.create({ model, prompt: ["a", long] }),
        "BadRequestError",
        "context_length_exceeded",
        "prompt[1]",
      ],
      [
        () => client.completions.create({ model, prompt: "a", logprobs: 6 }),
        "BadRequestError",
        "invalid_request",
        "logprobs",
      ],
      [() => client.embeddings.create({ model, input: ["a", ""] }), "BadRequestError", "invalid_request", "input[1]"],
      [() => client.models.retrieve("gpt-0"), "NotFoundError", "model_not_found", "model"],
    ])) {
      const error = await ask().then(
        () => null,
        (error) => error,
      );
      ok(error instanceof OpenAI[kind], error);
      equal([error.code, error.type], [code, "invalid_request_error"]);
      ok(param instanceof RegExp ? param.test(error.param) : error.param === param, error.param);
      ok(/found/.test(error.message), error.message);
    }
  },

  async "who leaves a stream, or aborts, has the request cancelled"({ client, OpenAI, model, aborted }) {
    const request = { ...STORY, model, max_completion_tokens: 900, ignore_eos: true };
    const before = await aborted();
    const stream = await client.chat.completions.create({ ...request, stream: true });
    let read = 0;
    for await (const _ of stream) if (++read === 3) break;
    await until(async () => (await aborted()) === before + 1);

    const controller = new AbortController();
    const { signal } = controller;
    const asked = client.chat.completions.create(request, { signal });
    setTimeout(() => controller.abort(), 100);
    const error = await asked.then(
      () => null,
      (error) => error,
    );
    ok(error instanceof OpenAI.APIUserAbortError, error);
    await until(async () => (await aborted()) === before + 2);
  },

  async "embeddings are the same as numbers and as base64"({ client, model }) {
    const input = ["a fox", "a cat"];
    const floats = await client.embeddings.create({ model, input, encoding_format: "float" });
    // The client asks for base64 by itself, and decodes it.
    const decoded = await client.embeddings.create({ model, input });
    equal(
      floats.data.map((entry) => entry.index),
      [0, 1],
    );
    ok(floats.usage.prompt_tokens > 0, floats.usage);
    for (const [i, { embedding }] of floats.data.entries()) {
      equal(Array.from(new Float32Array(embedding)), Array.from(decoded.data[i].embedding));
      const length = embedding.reduce((sum, value) => sum + value * value, 0);
      ok(Math.abs(length - 1) < 1e-4, length);
    }
    const raw = await client.embeddings.create({ model, input, encoding_format: "base64" });
    equal(typeof raw.data[0].embedding, "string");
  },

  async "the model is listed"({ client, model }) {
    const list = await all(await client.models.list());
    equal(
      list.map((entry) => [entry.id, entry.object]),
      [[model, "model"]],
    );
    equal(await client.models.retrieve(model), list[0]);
  },

  async "texts are gone on with, whole and in a stream"({ client, model }) {
    const request = { model, prompt: ["Once upon a time", "The fox"], temperature: 0, max_tokens: 8 };
    const whole = await client.completions.create(request);
    equal([whole.object, whole.choices.length], ["text_completion", 2]);
    equal(
      whole.choices.map((choice) => choice.index),
      [0, 1],
    );
    ok(whole.usage.completion_tokens <= 16 && whole.choices[0].text.length > 0, whole);
    const chunks = await all(await client.completions.create({ ...request, stream: true }));
    const text = (index) =>
      chunks.filter((chunk) => chunk.choices[0].index === index).map((chunk) => chunk.choices[0].text);
    equal(
      [0, 1].map((index) => text(index).join("")),
      whole.choices.map((choice) => choice.text),
    );
  },

  async "an echo comes with log-probabilities of the prompt"({ client, model }) {
    const prompt = "The fox and the cat";
    const request = { model, prompt, echo: true, logprobs: 1, temperature: 0, max_tokens: 4 };
    const { choices } = await client.completions.create(request);
    const [{ text, logprobs }] = choices;
    ok(text.startsWith(prompt), text);
    equal(logprobs.token_logprobs[0], null);
    ok(
      logprobs.token_logprobs.slice(1).every((value) => value <= 0),
      logprobs,
    );
    equal(logprobs.tokens.join(""), text);
    for (const [i, token] of logprobs.tokens.entries()) {
      equal(text.slice(logprobs.text_offset[i], logprobs.text_offset[i] + token.length), token);
      if (i > 0) ok(token in logprobs.top_logprobs[i], logprobs.top_logprobs[i]);
    }
    const scored = await client.completions.create({ ...request, max_tokens: 0 });
    equal([scored.choices[0].text, scored.usage.completion_tokens], [prompt, 0]);
  },

  async "ten requests at once are answered as one by one"({ client, model }) {
    const requests = Array.from({ length: 10 }, (_, i) => ({
      model,
      temperature: 0,
      max_completion_tokens: 10,
      messages: [{ role: "user", content: `How much is ${i} plus 2?` }],
    }));
    const ask = async (request, stream) => {
      const answer = await client.chat.completions.create({ ...request, stream });
      return stream ? content(await all(answer)) : answer.choices[0].message.content;
    };
    const together = await Promise.all(requests.map((request, i) => ask(request, i % 2 === 0)));
    for (const [i, request] of requests.entries()) equal(await ask(request, false), together[i]);
  },

  async "a response has the chat's answer"({ client, model }) {
    const chat = await client.chat.completions.create({ ...FRANCE, model });
    const [{ content: input }] = FRANCE.messages;
    const response = await client.responses.create({ model, input, temperature: 0, metadata: { a: "b" } });
    equal(response.output_text, chat.choices[0].message.content);
    ok(/^resp_/.test(response.id) && response.object === "response", response);
    equal(
      [response.status, response.error, response.incomplete_details, response.model],
      ["completed", null, null, model],
    );
    equal([response.metadata, response.temperature, response.store], [{ a: "b" }, 0, false]);
    ok(Math.abs(response.created_at - Date.now() / 1000) < 3600, response.created_at);
    const [{ type, role, status, content }, ...others] = response.output;
    equal([type, role, status, others.length], ["message", "assistant", "completed", 0]);
    equal(content, [{ type: "output_text", text: response.output_text, annotations: [], logprobs: [] }]);
    const { input_tokens, output_tokens, total_tokens, output_tokens_details } = response.usage;
    const { prompt_tokens, completion_tokens } = chat.usage;
    equal(
      [input_tokens, output_tokens, total_tokens],
      [prompt_tokens, completion_tokens, prompt_tokens + completion_tokens],
    );
    equal(output_tokens_details.reasoning_tokens, 0);
  },

  async "instructions and turns are the chat's messages"({ client, model }) {
    const instructions = "You are a pirate.";
    const first = [{ role: "user", content: "Who are you?" }];
    const system = { role: "system", content: instructions };
    const ask = (messages) => client.chat.completions.create({ model, messages, temperature: 0 });
    const respond = (input) => client.responses.create({ model, instructions, input, temperature: 0 });
    const said = (await ask([system, ...first])).choices[0].message;
    const response = await respond(first);
    equal([response.output_text, response.instructions], [said.content, instructions]);
    const more = { role: "user", content: "Where do you live?" };
    const again = (await ask([system, ...first, said, more])).choices[0].message;
    equal((await respond([...first, ...response.output, more])).output_text, again.content);
  },

  async "a response's stream has its events in order, and the client puts it together"({ client, model }) {
    const [{ content: input }] = FRANCE.messages;
    const request = { model, input, temperature: 0, seed: 1 };
    const whole = await client.responses.create(request);
    const events = await all(await client.responses.create({ ...request, stream: true }));
    equal(
      events.map((event) => event.sequence_number),
      events.map((_, i) => i),
    );
    const types = events.map((event) => event.type.replace("response.", ""));
    equal(types.slice(0, 4), ["created", "in_progress", "output_item.added", "content_part.added"]);
    equal(types.slice(-4), ["output_text.done", "content_part.done", "output_item.done", "completed"]);
    const deltas = events.slice(4, -4);
    ok(deltas.length > 3 && deltas.every((event) => event.type === "response.output_text.delta"), types);
    const item = events[2].item;
    ok(
      deltas.every((event) => event.item_id === item.id && event.output_index === 0 && event.content_index === 0),
      deltas,
    );
    equal(deltas.map((event) => event.delta).join(""), whole.output_text);
    equal([events[0].response.status, events[0].response.output], ["in_progress", []]);
    const { response } = events.at(-1);
    equal([response.id, response.usage.output_tokens], [events[0].response.id, whole.usage.output_tokens]);

    const stream = client.responses.stream(request);
    let text = "";
    stream.on("response.output_text.delta", (event) => {
      text += event.delta;
    });
    const final = await stream.finalResponse();
    equal([text, final.output_text, final.status], [whole.output_text, whole.output_text, "completed"]);
  },

  async "a response ends at its limit, and says so"({ client, model }) {
    const [{ content: input }] = STORY.messages;
    const request = { model, input, temperature: 0, max_output_tokens: 12 };
    const whole = await client.responses.create(request);
    equal([whole.status, whole.incomplete_details], ["incomplete", { reason: "max_output_tokens" }]);
    equal([whole.output[0].status, whole.usage.output_tokens], ["incomplete", 12]);
    const last = (await all(await client.responses.create({ ...request, stream: true }))).at(-1);
    equal([last.type, last.response.output[0].content], ["response.incomplete", whole.output[0].content]);
  },

  async "a response's log-probabilities come on request"({ client, model }) {
    const [{ content: input }] = FRANCE.messages;
    const include = ["message.output_text.logprobs"];
    const request = { model, input, temperature: 0, include, top_logprobs: 2 };
    const { output, output_text } = await client.responses.create(request);
    const { logprobs } = output[0].content[0];
    equal(logprobs.map(({ token }) => token).join(""), output_text);
    ok(
      logprobs.every(({ logprob, top_logprobs }) => logprob <= 0 && top_logprobs.length === 2),
      logprobs,
    );
    const events = await all(await client.responses.create({ ...request, stream: true }));
    const of = (type) => events.filter((event) => event.type === `response.output_text.${type}`);
    equal(
      of("delta").flatMap((event) => event.logprobs),
      logprobs,
    );
    equal(of("done")[0].logprobs, logprobs);
  },

  async "a response calls tools, and answers with their output"({ client, model }) {
    const request = { model, input: "Is it warm in Paris?", tools: [WEATHER], temperature: 0, seed: 1 };
    const called = await client.responses.create({ ...request, tool_choice: "required", parallel_tool_calls: false });
    const [call, ...others] = called.output;
    equal([call.type, call.name, call.status, others.length], ["function_call", "weather", "completed", 0]);
    ok(["Paris", "Rome"].includes(JSON.parse(call.arguments).city), call);
    equal([called.tool_choice, called.parallel_tool_calls, called.tools[0].name], ["required", false, "weather"]);

    const choice = { type: "function", name: "weather" };
    const events = await all(await client.responses.create({ ...request, tool_choice: choice, stream: true }));
    const of = (type) => events.filter((event) => event.type === `response.${type}`);
    equal([of("output_item.added")[0].item.type, of("output_item.added")[0].item.arguments], ["function_call", ""]);
    const pieces = of("function_call_arguments.delta").map((event) => event.delta);
    const [done] = of("function_call_arguments.done");
    equal([pieces.join(""), done.arguments, done.name], [call.arguments, call.arguments, "weather"]);

    const output = { type: "function_call_output", call_id: call.call_id, output: "It is 21 degrees." };
    const input = [{ role: "user", content: request.input }, ...called.output, output];
    const answered = await client.responses.create({ ...request, input, tool_choice: "none" });
    const tool_calls = [
      { id: call.call_id, type: "function", function: { name: "weather", arguments: call.arguments } },
    ];
    const chat = await client.chat.completions.create({
      model,
      temperature: 0,
      messages: [
        { role: "user", content: request.input },
        { role: "assistant", tool_calls },
        { role: "tool", tool_call_id: call.call_id, content: "It is 21 degrees." },
      ],
    });
    equal(answered.output_text, chat.choices[0].message.content);
  },

  async "a response is held to a schema, and parsed"({ client, model }) {
    const animal = z.object({ animal: z.enum(["fox", "cat", "dog"]), legs: z.number().int().min(0).max(9) });
    const [{ content: input }] = STORY.messages;
    const request = { model, input, text: { format: zodTextFormat(animal, "animal") }, temperature: 1 };
    for (const seed of [1, 2]) animal.parse((await client.responses.parse({ ...request, seed })).output_parsed);
    const final = await client.responses.stream({ ...request, seed: 3 }).finalResponse();
    animal.parse(final.output_parsed);
    const any = await client.responses.create({
      model,
      input,
      text: { format: { type: "json_object" } },
      temperature: 0,
    });
    equal(typeof JSON.parse(any.output_text), "object");
  },

  async "what a response cannot have is refused by its name"({ client, OpenAI, model }) {
    const schema = { type: "json_schema", name: "n", schema: { type: 5 } };
    const call = { type: "function_call", call_id: "a", name: "f", arguments: "{" };
    for (const [fields, param] of /** @type {[object, string | RegExp][]} */ ([
      [{ store: true }, "store"],
      [{ previous_response_id: "resp_1" }, "previous_response_id"],
      [{ conversation: "conv_1" }, "conversation"],
      [{ prompt: { id: "pmpt_1" } }, "prompt"],
      [{ background: true }, "background"],
      [{ truncation: "auto" }, "truncation"],
      [{ tools: [{ type: "web_search" }] }, "tools[0].type"],
      [{ tools: [{ type: "function", name: "a b" }] }, "tools[0].name"],
      [{ tool_choice: { type: "function", name: "f" } }, "tool_choice.name"],
      [{ text: { format: schema } }, /^text\.format\.schema/],
      [{ text: { verbosity: "low" } }, "text.verbosity"],
      [{ reasoning: { effort: "most" } }, "reasoning.effort"],
      [{ max_output_tokens: 0 }, "max_output_tokens"],
      [{ temperature: 9, stream: true }, "temperature"],
      [{ temprature: 1 }, "temprature"],
      [{ input: undefined }, "input"],
      [{ input: "" }, "input"],
      [{ input: "word ".repeat(20_000) }, "input"],
      [{ input: [{ role: "robot", content: "a" }] }, "input[0].role"],
      [{ input: [call] }, "input[0].arguments"],
    ])) {
      const error = await client.responses.create({ model, input: "a", ...fields }).then(
        () => null,
        (error) => error,
      );
      ok(error instanceof OpenAI.BadRequestError, error ?? fields);
      ok(param instanceof RegExp ? param.test(error.param) : error.param === param, `${error.param} ${error.message}`);
      ok(error.message.includes(`${error.param}: `), error.message);
    }
    const missing = await client.responses.create({ model: "gpt-0", input: "a" }).then(
      () => null,
      (error) => error,
    );
    ok(missing instanceof OpenAI.NotFoundError && missing.code === "model_not_found", missing);
  },

  async "who leaves a response's stream has the request cancelled"({ client, model, aborted }) {
    const [{ content: input }] = STORY.messages;
    const request = { model, input, temperature: 0, max_output_tokens: 900, ignore_eos: true };
    const before = await aborted();
    const stream = await client.responses.create({ ...request, stream: true });
    let read = 0;
    for await (const _ of stream) if (++read === 6) break;
    await until(async () => (await aborted()) === before + 1);
  },

  async "agents run on it, with tools, as they come"({ client, model }) {
    const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: client }), tracingDisabled: true });
    const calls = [];
    const weather = tool({
      name: "weather",
      description: "Tells the weather.",
      parameters: z.object({ city: z.enum(["Paris", "Rome"]) }),
      execute: async ({ city }) => {
        calls.push(city);
        return `It is 21 degrees in ${city}.`;
      },
    });
    const greedy = { temperature: 0 };
    const plain = new Agent({ name: "Plain", instructions: "Be brief.", model, modelSettings: greedy });
    const first = await runner.run(plain, "What is the capital of France?");
    ok(first.finalOutput.length > 0, first.finalOutput);
    const again = await runner.run(plain, [...first.history, { role: "user", content: "And of Italy?" }]);
    ok(again.finalOutput.length > 0, again.finalOutput);

    const modelSettings = { ...greedy, toolChoice: "required" };
    const agent = new Agent({ name: "Weather", model, tools: [weather], modelSettings });
    const asked = await runner.run(agent, "Is it warm in Paris?");
    ok(calls.length >= 1 && asked.finalOutput.length > 0, [calls, asked.finalOutput]);

    const streamed = await runner.run(agent, "Is it warm in Paris?", { stream: true });
    const types = (await all(streamed)).map((event) => event.type === "run_item_stream_event" && event.name);
    ok(types.includes("tool_called") && types.includes("tool_output"), types);
    equal(streamed.finalOutput, asked.finalOutput);

    const animal = z.object({ animal: z.enum(["fox", "cat"]) });
    const typed = new Agent({ name: "Typed", model, outputType: animal, modelSettings: greedy });
    animal.parse((await runner.run(typed, "Name an animal.")).finalOutput);

    const before = calls.length;
    const both = new Agent({ name: "Both", model, tools: [weather], outputType: animal, modelSettings });
    animal.parse((await runner.run(both, "Which animal likes the weather in Paris?")).finalOutput);
    ok(calls.length > before, calls);
  },
};

const ask = (content) => ({ messages: [{ role: "user", content }], temperature: 0 });
const FRANCE = ask("What is the capital of France?");
const STORY = ask("Tell me a story about a fox.");
const WEATHER = {
  type: "function",
  name: "weather",
  description: "Tells the weather.",
  parameters: {
    type: "object",
    properties: { city: { enum: ["Paris", "Rome"] } },
    required: ["city"],
    additionalProperties: false,
  },
  strict: true,
};

async function all(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

function content(chunks) {
  return chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
}

function ok(holds, found) {
  if (!holds) throw new Error(`found ${found instanceof Error ? found : JSON.stringify(found)}`);
}

function equal(found, expected) {
  const [a, b] = [found, expected].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`found ${a}, expected ${b}`);
}

/** Waits for something, half a minute at most. */
async function until(holds) {
  for (let i = 0; i < 300; i++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("it never came");
}
