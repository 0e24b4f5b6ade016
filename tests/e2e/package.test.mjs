// The package as a page uses it: answers, streams, cancellation.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { DEVICE, goldens, openPackage } from "./package.mjs";

let session;
let page;

/** A worker to which the grammar module comes after seconds, and in which the first wait for it is shorter. */
const LATE = {
  "late.js": `
    const { fetch, setTimeout } = globalThis;
    let waits = true;
    globalThis.setTimeout = (then, delay) => {
      if (!waits || delay !== 120_000) return setTimeout(then, delay);
      waits = false;
      return setTimeout(then, 1000);
    };
    globalThis.fetch = (input, ...rest) => {
      const late = String(input?.url ?? input).includes("grammar_bg");
      return new Promise((come) => setTimeout(() => come(fetch(input, ...rest)), late ? 4000 : 0));
    };`,
  "late-worker.js": `import "./late.js"; import "./tabloom/worker.js";`,
};

before(async () => {
  session = await openPackage({ "": LATE });
  page = session.page;
});

after(() => session?.close());

test("loading reports bytes and kernels, and what was loaded", async () => {
  const { info, progress } = await page.evaluate(async (device) => {
    const progress = [];
    const onProgress = (step) => progress.push(step);
    globalThis.engine = await Engine.load("model/", { device, onProgress });
    return { info: engine.info, progress };
  }, DEVICE);
  assert.equal(info.device, DEVICE);
  assert.equal(info.architecture, "LlamaForCausalLM");
  assert.match(info.adapter, DEVICE === "gpu" ? /swiftshader/i : /^processor/);
  assert.equal(info.software, true);
  assert.equal(info.context, 1024);
  assert.ok(info.weightBytes > 500_000, `${info.weightBytes} bytes of weights`);
  assert.match(info.model, /\/model\/$/);
  const sampling = { temperature: 0.6, topK: 0, topP: 0.9, minP: 0, repetitionPenalty: 1 };
  assert.deepEqual(info.sampling, sampling, "as its generation_config.json says");
  const { weightBytes } = info.draft;
  assert.ok(weightBytes > 100_000, `${weightBytes} bytes of a head`);
  const own = info.weightBytes - weightBytes;
  assert.ok(5 * weightBytes <= own, `a head of ${weightBytes} bytes for a model of ${own}`);

  const stages = DEVICE === "gpu" ? ["download", "compile"] : ["download"];
  for (const stage of stages) {
    const steps = progress.filter((step) => step.stage === stage);
    assert.ok(steps.length > 1, `${steps.length} steps of ${stage}`);
    steps.reduce((a, b) => {
      assert.ok(a.loaded <= b.loaded, stage);
      return b;
    });
    const { loaded, total } = steps.at(-1);
    assert.equal(loaded, total, stage);
    assert.ok(total > 0, stage);
  }
  const download = progress.find((step) => step.stage === "download");
  assert.equal(download.file, "model.safetensors");
  assert.ok(download.rate > 0);
  assert.equal(progress.at(-1).stage, stages.at(-1));
});

test("a greedy answer is the reference's, token for token", async () => {
  for (const { messages, answer, prompt_ids, answer_ids } of goldens) {
    const completion = await page.evaluate(
      (messages) => engine.chat.completions.create({ messages, temperature: 0 }),
      messages,
    );
    assert.equal(completion.object, "chat.completion");
    const [choice] = completion.choices;
    assert.equal(choice.message.role, "assistant");
    assert.equal(choice.message.content, answer);
    assert.equal(choice.finish_reason, "stop");
    const [prompt_tokens, completion_tokens] = [prompt_ids.length, answer_ids.length];
    const total_tokens = prompt_tokens + completion_tokens;
    const { prompt_tokens_details, completion_tokens_details, ...usage } = completion.usage;
    assert.deepEqual(usage, { prompt_tokens, completion_tokens, total_tokens });
    const { cached_tokens } = prompt_tokens_details;
    assert.ok(cached_tokens >= 0 && cached_tokens < prompt_tokens, `${cached_tokens} cached`);
    const { accepted_prediction_tokens: accepted } = completion_tokens_details;
    assert.ok(accepted >= 0 && accepted < completion_tokens, `${accepted} accepted`);
  }
});

test("a stream gives the same answer in pieces", async () => {
  const { messages, answer, answer_ids } = goldens[1];
  const chunks = await page.evaluate(async (messages) => {
    const stream_options = { include_usage: true };
    const params = { messages, temperature: 0, stream: true, stream_options };
    const chunks = [];
    for await (const chunk of await engine.chat.completions.create(params)) chunks.push(chunk);
    return chunks;
  }, messages);
  assert.ok(chunks.every((chunk) => chunk.object === "chat.completion.chunk"));
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  const deltas = chunks.flatMap((chunk) => chunk.choices);
  assert.equal(deltas[0].delta.role, "assistant");
  const pieces = deltas.map((choice) => choice.delta.content ?? "").filter(Boolean);
  assert.ok(pieces.length > answer_ids.length / 2, `${pieces.length} pieces`);
  assert.equal(pieces.join(""), answer);
  const reasons = deltas.map((choice) => choice.finish_reason);
  assert.equal(reasons.pop(), "stop");
  assert.ok(reasons.every((reason) => reason === null));
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.equal(chunks.at(-1).usage.completion_tokens, answer_ids.length);
});

test("requests that run together get the answers they get alone", async () => {
  const answers = await page.evaluate(
    (asked) => Promise.all(asked.map((messages) => answer(engine, messages))),
    goldens.map((golden) => golden.messages),
  );
  assert.deepEqual(
    answers,
    goldens.map((golden) => golden.answer),
  );
});

test("a seed reproduces an answer, and other seeds give others", async () => {
  const answers = await page.evaluate((messages) => {
    const ask = async (seed) => {
      const params = { messages, seed, temperature: 1.5, top_p: 1, max_tokens: 24 };
      return (await engine.chat.completions.create(params)).choices[0].message.content;
    };
    return Promise.all([7, 7, 8, 9].map(ask));
  }, goldens[5].messages);
  assert.equal(answers[0], answers[1]);
  assert.equal(new Set(answers).size, 3);
});

test("stop strings and token limits end an answer", async () => {
  const { messages, answer } = goldens[1];
  const ask = (params) =>
    page.evaluate(
      async (params) => {
        const completion = await engine.chat.completions.create({ ...params, temperature: 0 });
        const { message, finish_reason } = completion.choices[0];
        return { content: message.content, finish_reason };
      },
      { messages, ...params },
    );
  const before = answer.slice(0, answer.indexOf(" and"));
  assert.deepEqual(await ask({ stop: [" and", "never"] }), { content: before, finish_reason: "stop" });
  const short = await ask({ max_completion_tokens: 5 });
  assert.equal(short.finish_reason, "length");
  assert.ok(short.content && answer.startsWith(short.content) && short.content !== answer);
});

test("answers keep to the form that is asked for", async () => {
  const schema = {
    type: "object",
    properties: { animal: { enum: ["cat", "dog"] }, legs: { type: "integer", maximum: 8, minimum: 0 } },
    required: ["animal", "legs"],
    additionalProperties: false,
  };
  const [json, choice] = await page.evaluate(async (schema) => {
    const messages = [{ role: "user", content: "Tell me about an animal." }];
    const ask = (form) => engine.chat.completions.create({ messages, temperature: 0, ...form });
    const answers = await Promise.all([
      ask({ response_format: { type: "json_schema", json_schema: { name: "animal", schema } } }),
      ask({ structured_outputs: { choice: ["neither", "of these"] } }),
    ]);
    return answers.map((answer) => answer.choices[0].message.content);
  }, schema);
  const { animal, legs } = JSON.parse(json);
  assert.ok(["cat", "dog"].includes(animal) && legs >= 0 && legs <= 8, json);
  assert.ok(["neither", "of these"].includes(choice), choice);
});

test("a form that is refused names its place and leaves the engine as it was", async () => {
  const { messages, answer: golden } = goldens[0];
  const [refused, hostile, next] = await page.evaluate(async (messages) => {
    const ask = (form) => engine.chat.completions.create({ messages, temperature: 0, ...form });
    const chain = Array.from({ length: 290 }, (_, i) => `r${i}: r${i + 1} "x"`).join("\n");
    return [
      await failure(ask({ structured_outputs: { json: { properties: { a: { minimum: "x" } } } } })),
      await ask({ max_tokens: 1, structured_outputs: { grammar: `start: r0\n${chain}\nr290: "y"` } }).then(
        () => "an answer",
        (error) => error.code,
      ),
      await answer(engine, messages),
    ];
  }, messages);
  assert.equal(refused.param, "structured_outputs.json.properties.a.minimum");
  assert.equal(refused.code, "invalid_request");
  assert.ok(["an answer", "invalid_request"].includes(hostile), hostile);
  assert.equal(next, golden);
});

test("an abort signal ends a stream, a whole answer, and what has not begun", async () => {
  const result = await page.evaluate(async (messages) => {
    const started = (await engine.metrics()).request_success.abort;
    const params = { messages, ignore_eos: true, max_completion_tokens: 900 };
    const stream = new AbortController();
    const chunks = await engine.chat.completions.create({ ...params, stream: true }, stream);
    let seen = 0;
    const reading = (async () => {
      for await (const _ of chunks) if (++seen === 4) stream.abort();
    })();
    const whole = new AbortController();
    const waiting = engine.chat.completions.create(params, whole);
    const early = engine.chat.completions.create(params, { signal: AbortSignal.abort("early") });
    const failures = [await failure(reading)];
    whole.abort(new Error("changed my mind"));
    failures.push(await failure(waiting));
    const reason = await early.catch((reason) => reason);

    // A reader that leaves its loop cancels as well.
    for await (const _ of await engine.chat.completions.create({ ...params, stream: true })) break;
    const { num_requests_running, request_success } = await engine.metrics();
    const aborted = request_success.abort - started;
    return { seen, failures, reason, num_requests_running, aborted };
  }, goldens[5].messages);
  assert.equal(result.seen, 4);
  assert.equal(result.failures[0].name, "AbortError");
  assert.equal(result.failures[1].message, "changed my mind");
  assert.equal(result.reason, "early");
  assert.equal(result.num_requests_running, 0);
  assert.equal(result.aborted, 3);
});

test("a grammar module that comes late ends the answers that wait for it, and none that come later", async () => {
  const found = await page.evaluate(async (messages) => {
    const own = await Engine.load("model/", { device: "cpu", host: "private", workerUrl: "late-worker.js" });
    const params = { messages, max_completion_tokens: 5, temperature: 0 };
    const form = { ...params, response_format: { type: /** @type {const} */ ("json_object") } };
    const [late, plain] = await Promise.all([
      failure(own.chat.completions.create(form)),
      own.chat.completions.create(params),
    ]);
    const next = await own.chat.completions.create(form);
    own.close();
    return [late, plain.choices[0].message.content, next.choices[0].message.content];
  }, goldens[0].messages);
  const [late, plain, next] = found;
  assert.equal(late.code, "fetch");
  assert.match(late.message, /grammar module.*two minutes/);
  assert.ok(goldens[0].answer.startsWith(plain), plain);
  assert.match(next, /^\s*\{/);
});

test("loading can be aborted, and begun anew", async () => {
  const load = async ([messages, device]) => {
    const controller = new AbortController();
    const onProgress = () => controller.abort();
    // Not as the tabs' engine has loaded it: that would be there at once.
    const options = { device, context: 512 };
    const aborted = await failure(Engine.load("model/", { ...options, onProgress, signal: controller.signal }));
    const { signal } = new AbortController();
    const other = await Engine.load("model/", { ...options, signal });
    const text = await answer(other, messages);
    other.close();
    return { aborted, text };
  };
  const result = await page.evaluate(load, [goldens[0].messages, DEVICE]);
  assert.equal(result.aborted.name, "AbortError");
  assert.equal(result.text, goldens[0].answer);
});

test("a closed engine rejects what waits and what comes", async () => {
  const failures = await page.evaluate(async (messages) => {
    const params = { messages, temperature: 0 };
    const waiting = engine.chat.completions.create(params);
    const chunks = await engine.chat.completions.create({ ...params, stream: true });
    const reading = (async () => {
      for await (const _ of chunks);
    })();
    engine.close();
    engine.close();
    const late = engine.chat.completions.create(params);
    return Promise.all([waiting, reading, late, engine.metrics()].map(failure));
  }, goldens[5].messages);
  for (const failure of failures) {
    assert.ok(failure.typed, JSON.stringify(failure));
    assert.equal(failure.code, "closed");
    assert.match(failure.message, /closed.*load it again/i);
  }
});
