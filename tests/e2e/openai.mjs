// What the official `openai` client must see, of whoever answers it with the built-in model. Each
// entry is a function over a client alone, so that it can run in Node and in a page.

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
};

const ask = (content) => ({ messages: [{ role: "user", content }], temperature: 0 });
const FRANCE = ask("What is the capital of France?");
const STORY = ask("Tell me a story about a fox.");

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
