// Bad input and missing hardware: each gives a typed error that helps, and harms nobody else.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { goldens, openPackage } from "./package.mjs";
import { modelFile } from "./server.mjs";

const config = JSON.parse(`${await modelFile("config.json")}`);
const tokenizerConfig = JSON.parse(`${await modelFile("tokenizer_config.json")}`);
const weights = await modelFile("model.safetensors");

const changed = (fields) => ({ "config.json": JSON.stringify({ ...config, ...fields }) });
const template = (chat_template) => ({
  "tokenizer_config.json": JSON.stringify({ ...tokenizerConfig, chat_template }),
});
const page404 = (response) => {
  response.writeHead(200, { "content-type": "text/html; charset=utf-8" });
  response.end("<!doctype html><h1>Welcome</h1>");
};

/** Announces all of a file and hangs up in the middle. */
const hangUp = (response) => {
  response.writeHead(200, { "content-length": weights.length });
  response.write(weights.subarray(0, weights.length / 2), () => response.destroy());
};

/** A header whose tensors are too large for one binding; none of their bytes is ever sent. */
const [HIDDEN, INTERMEDIATE] = [32_768, 65_536];
const enormous = (response) => {
  const [h, i] = [HIDDEN, INTERMEDIATE];
  const layer = "model.layers.0.";
  const shapes = {
    "model.embed_tokens.weight": [2048, h],
    [`${layer}input_layernorm.weight`]: [h],
    [`${layer}mlp.down_proj.weight`]: [h, i],
    [`${layer}mlp.gate_proj.weight`]: [i, h],
    [`${layer}mlp.up_proj.weight`]: [i, h],
    [`${layer}post_attention_layernorm.weight`]: [h],
    [`${layer}self_attn.k_proj.weight`]: [64, h],
    [`${layer}self_attn.o_proj.weight`]: [h, 192],
    [`${layer}self_attn.q_proj.weight`]: [192, h],
    [`${layer}self_attn.v_proj.weight`]: [64, h],
    "model.norm.weight": [h],
  };
  let end = 0;
  const header = JSON.stringify(
    Object.fromEntries(
      Object.entries(shapes).map(([name, shape]) => {
        const start = end;
        end += shape.reduce((a, b) => a * b) * 2;
        return [name, { dtype: "F16", shape, data_offsets: [start, end] }];
      }),
    ),
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  response.writeHead(200, { "content-length": 8 + header.length + end });
  response.write(Buffer.concat([length, Buffer.from(header)]));
};

/**
 * What is wrong with a folder, its files, and the error expected.
 *
 * @type {[what: string, files: import("./server.mjs").Files, code: string, message: RegExp][]}
 */
const MODELS = [
  ["a page in place of a file", { "config.json": page404 }, "malformed", /HTML page/],
  ["a page in place of weights", { "model.safetensors": "<!doctype html>" }, "malformed", /HTML page/],
  [
    "a Git LFS pointer",
    { "model.safetensors": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n" },
    "malformed",
    /LFS pointer.*git lfs pull/,
  ],
  [
    "weights that end early",
    { "model.safetensors": weights.subarray(0, weights.length - 999) },
    "truncated",
    new RegExp(`model.safetensors is truncated: ${weights.length} bytes.*${weights.length - 999}`),
  ],
  ["a connection that breaks", { "model.safetensors": hangUp }, "fetch", /model\.safetensors: .*network/],
  [
    "a header of absurd length",
    { "model.safetensors": Buffer.alloc(64, 0xff) },
    "malformed",
    /model\.safetensors .*header/,
  ],
  [
    "an unknown architecture",
    changed({ architectures: ["MambaForCausalLM"], model_type: "mamba" }),
    "unsupported_architecture",
    /Mamba.*Supported: .*Llama/,
  ],
  ["shapes that disagree", changed({ intermediate_size: 640 }), "wrong_tensor", /576.*expected.*640/],
  ["too few tensors", changed({ num_hidden_layers: 5 }), "missing_tensor", /model\.layers\.4\./],
  [
    "a configuration without sense",
    changed({ num_attention_heads: 0 }),
    "invalid_config",
    /num_attention_heads is 0, expected/,
  ],
  ["a billion layers", changed({ num_hidden_layers: 1e9 }), "invalid_config", /num_hidden_layers is 1000000000/],
  ["fewer tokens than the tokenizer's", changed({ vocab_size: 100 }), "invalid_config", /vocab_size is 100.*tokenizer/],
  ["a configuration that is no JSON", { "config.json": "{" }, "malformed", /config\.json.*JSON/],
  ["a tokenizer that is none", { "tokenizer.json": "[]" }, "malformed", /tokenizer\.json is not a valid JSON/],
  [
    "tensors too large for the device",
    {
      ...changed({
        hidden_size: HIDDEN,
        intermediate_size: INTERMEDIATE,
        num_hidden_layers: 1,
        quantization_config: undefined,
      }),
      "model.safetensors": enormous,
    },
    "too_large",
    /8589934592 bytes.*allows \d+.*smaller model/,
  ],
];

const folders = Object.fromEntries(MODELS.map(([, files], i) => [`models/${i}/`, files]));
folders["models/template/"] = template("{% for %}");

/** Workers whose GPU never keeps one promise, and for which time passes 20 times as fast. */
const SILENT = {
  adapter: "navigator.gpu.requestAdapter",
  device: "GPUAdapter.prototype.requestDevice",
  commands: "GPUDevice.prototype.popErrorScope",
  queue: "GPUQueue.prototype.onSubmittedWorkDone",
};
for (const [kind, method] of Object.entries(SILENT)) {
  folders[`silent-${kind}/`] = {
    "silent.js": `${method} = () => new Promise(() => {});
      const { setTimeout } = globalThis;
      globalThis.setTimeout = (callback, milliseconds) => setTimeout(callback, milliseconds / 20);`,
    "worker.js": `import "./silent.js"; import "../tabloom/worker.js";`,
  };
}
folders[""] = {
  "no-api.js": "Object.defineProperty(navigator, 'gpu', { value: undefined });",
  "no-api-worker.js": `import "./no-api.js"; import "./tabloom/worker.js";`,
  "no-adapter.js": "navigator.gpu.requestAdapter = async () => null;",
  "no-adapter-worker.js": `import "./no-adapter.js"; import "./tabloom/worker.js";`,
};

let session;
let page;

before(async () => {
  session = await openPackage(folders);
  page = session.page;
  await page.evaluate(async () => {
    globalThis.engine = await Engine.load("model/");
  });
});

after(() => session?.close());

/** The engine from before a failure still answers. */
async function stillAnswers() {
  const { messages, answer: expected } = goldens[0];
  assert.equal(await page.evaluate((messages) => answer(engine, messages), messages), expected);
}

function check(failure, code, message) {
  assert.ok(failure.typed, JSON.stringify(failure));
  assert.equal(failure.code, code, failure.message);
  assert.equal(failure.name, "TabloomError");
  assert.match(failure.message, message);
}

MODELS.forEach(([what, , code, message], i) => {
  test(`loading: ${what}`, async () => {
    // More than any of them needs, so that the device is what sets the limit.
    const load = (folder) => failure(Engine.load(folder, { budgetBytes: 2 ** 40 }));
    check(await page.evaluate(load, `models/${i}/`), code, message);
  });
});

test("a template that does not compile costs the chat alone", async () => {
  const [chat, text] = await page.evaluate(async () => {
    const engine = await Engine.load("models/template/");
    const chat = await failure(engine.chat.completions.create({ messages: [{ role: "user", content: "Hi!" }] }));
    const completion = await engine.completions.create({ prompt: "Once", max_tokens: 2 });
    engine.close();
    return [chat, completion.choices[0].text];
  });
  check(chat, "template", /template/);
  assert.ok(text.length > 0);
});

test("loading: addresses without a model", async () => {
  const load = (address) => page.evaluate((address) => failure(Engine.load(address)), address);
  check(await load("nowhere/"), "fetch", /\/nowhere\/config\.json: there is no such file\. Check/);
  check(await load("http://127.0.0.1:1/"), "fetch", /127\.0\.0\.1:1\/config\.json.*CORS/);
  check(await load("http://[/"), "invalid_request", /^model: found "http:\/\/\[\/", expected an address/);
  await stillAnswers();
});

test("loading: options that do not exist", async () => {
  const load = (options) => page.evaluate((options) => failure(Engine.load("model/", options)), options);
  const device = await load({ device: "tpu" });
  check(device, "invalid_request", /tpu.*auto.*gpu.*cpu/);
  assert.equal(device.param, "device");
  const context = await load({ context: 4096 });
  check(context, "invalid_request", /found 4096, expected 1 to 1024/);
  assert.equal(context.param, "context");
  const kv = await load({ kv: "int4" });
  check(kv, "invalid_request", /int4.*f16.*int8/);
  assert.equal(kv.param, "kv");
  const memory = await load({ kvBytes: 1 });
  check(memory, "invalid_request", /found 1, expected at least/);
  assert.equal(memory.param, "kvBytes");
  const window = await load({ slidingWindow: { sinks: 4, tokens: 100 } });
  check(window, "invalid_request", /found 4 sinks and 100 tokens.*multiple of 16/);
  assert.equal(window.param, "slidingWindow");
  const drafts = await load({ speculation: { maxDrafts: 8 } });
  check(drafts, "invalid_request", /found 8 maxDrafts, expected 0 to 7/);
  assert.equal(drafts.param, "speculation");
  check(await load({ speculation: "off" }), "invalid_request", /expected true, false or \{maxDrafts/);
  check(await load({ quantise: "w4" }), "invalid_request", /quantise.*quantize/);
});

test("requests: whatever is out of range names its parameter", async () => {
  const messages = goldens[0].messages;
  const cases = [
    [{ messages: [] }, "messages", /found none, expected at least one message/],
    [{}, "messages", /at least one message/],
    [{ messages: "hello" }, "messages", /string/],
    [
      { messages: [{ role: "wizard", content: "hi" }] },
      "messages[0].role",
      /wizard.*expected system, user, assistant or tool/,
    ],
    [{ messages: [{ role: "user" }] }, "messages[0].content", /expected a string/],
    [{ messages: [{ role: "user", content: " " }] }, "messages[0].content", /empty text/],
    [{ messages, temperature: -1 }, "temperature", /found -1.*expected 0 to 2/],
    [{ messages, temperature: NaN }, "temperature", /"NaN", expected f64/],
    [{ messages, temperature: "hot" }, "temperature", /hot/],
    [{ messages, top_p: 0 }, "top_p", /found 0.*above 0/],
    [{ messages, max_tokens: 0 }, "max_tokens", /found 0, expected at least 1/],
    [{ messages, max_completion_tokens: -5 }, "max_completion_tokens", /found -5/],
    [{ messages, speculative_decoding: "no" }, "speculative_decoding", /"no", expected a boolean/],
    [{ messages, n: 17 }, "n", /found 17, expected 1 to 16/],
    [{ messages, stop: "" }, "stop", /0 characters/],
    [{ messages, presence_penalty: 3 }, "presence_penalty", /found 3.*expected -2 to 2/],
    [{ messages, top_logprobs: 3 }, "top_logprobs", /unless logprobs is true/],
    [{ messages, logit_bias: { 5: 101 } }, "logit_bias.5", /found 101.*expected -100 to 100/],
    [{ messages, allowed_token_ids: [1e6] }, "allowed_token_ids", /found token id 1000000.*below/],
    [{ messages, bad_words: [""] }, "bad_words[0]", /0 characters/],
    [{ messages, wings: 2 }, "wings", /not supported/],
  ];
  for (const [params, param, message] of cases) {
    for (const stream of [false, true]) {
      // JSON knows no NaN, but the browser's messages do.
      const failure = await page.evaluate((params) => globalThis.failure(engine.chat.completions.create(params)), {
        .../** @type {object} */ (params),
        stream,
      });
      check(failure, "invalid_request", message);
      assert.equal(failure.param, param);
    }
  }
  await stillAnswers();
});

test("requests: a prompt longer than the context", async () => {
  const messages = [{ role: "user", content: "Tell me a story. ".repeat(500) }];
  const failure = await page.evaluate(
    (messages) => globalThis.failure(engine.chat.completions.create({ messages })),
    messages,
  );
  check(failure, "context_length_exceeded", /found \d+ tokens.*context holds 1024.*Shorten/);
  assert.equal(failure.param, "messages");
  assert.equal(failure.details.limit, 1024);
  await stillAnswers();
});

test("requests: what is no request, or no JSON", async () => {
  const asked = (params) =>
    page.evaluate((params) => globalThis.failure(engine.chat.completions.create(params)), params);
  for (const params of [undefined, null, 5, "Hi!", []]) {
    const failure = await asked(params);
    check(failure, "invalid_request", /^request: found .*, expected an object of parameters/);
    assert.equal(failure.param, "request");
  }
  const circular = await page.evaluate(() => {
    const messages = [];
    messages.push({ role: "user", content: messages });
    return globalThis.failure(engine.chat.completions.create({ messages }));
  });
  check(circular, "invalid_request", /an object within itself/);
  assert.equal(circular.param, "messages[0].content");
  const nested = (levels) =>
    page.evaluate((levels) => {
      let schema = {};
      for (let level = 0; level < levels; level++) schema = { not: schema };
      return globalThis.failure(engine.completions.create({ prompt: "a", structured_outputs: { json: schema } }));
    }, levels);
  assert.notEqual((await nested(97)).code, undefined, "the engine has read it");
  const deep = await nested(98);
  check(deep, "invalid_request", /more than 100 levels/);
  await stillAnswers();
});

test("requests: null stands for what is left out, and functions are left out", async () => {
  const { messages, answer: expected } = goldens[0];
  const names =
    "stream stream_options n model max_tokens max_completion_tokens top_p top_k min_p seed stop response_format structured_outputs tools tool_choice parallel_tool_calls reasoning_effort chat_template_kwargs continue_final_message logprobs top_logprobs prompt_logprobs presence_penalty frequency_penalty repetition_penalty logit_bias logprob_token_ids allowed_token_ids bad_words include_stop_str_in_output skip_special_tokens stop_token_ids ignore_eos min_tokens thinking_token_budget repetition_detection speculative_decoding user metadata store";
  const nothing = Object.fromEntries(names.split(" ").map((name) => [name, null]));
  const text = await page.evaluate(
    async (params) => {
      const onDone = () => {};
      const { choices } = await engine.chat.completions.create({ ...params, temperature: 0, onDone });
      return choices[0].message.content;
    },
    { ...nothing, messages },
  );
  assert.equal(text, expected);
});

for (const missing of ["no-api", "no-adapter"]) {
  test(`without WebGPU (${missing}) the CPU gives the same answers`, async () => {
    const { failure, info, texts } = await page.evaluate(
      async ({ workerUrl, asked }) => {
        const failure = await globalThis.failure(Engine.load("model/", { workerUrl }));
        const engine = await Engine.load("model/", { workerUrl, device: "cpu" });
        const texts = await Promise.all(asked.map((messages) => answer(engine, messages)));
        engine.close();
        return { failure, info: engine.info, texts };
      },
      { workerUrl: `${missing}-worker.js`, asked: goldens.map((golden) => golden.messages) },
    );
    check(failure, "no_gpu", /no GPU is available.*Use a browser with WebGPU.*device "cpu"/);
    assert.equal(info.device, "cpu");
    assert.deepEqual(
      texts,
      goldens.map((golden) => golden.answer),
    );
  });
}

for (const kind of Object.keys(SILENT)) {
  test(`a GPU that does not answer (${kind}) is none`, async () => {
    const failure = await page.evaluate(
      (workerUrl) => globalThis.failure(Engine.load("model/", { workerUrl, host: "private" })),
      `silent-${kind}/worker.js`,
    );
    check(failure, "no_gpu", /did not answer for 60 seconds.*device "cpu"/);
  });
}

test("a worker that does not exist", async () => {
  const failure = await page.evaluate(() => globalThis.failure(Engine.load("model/", { workerUrl: "nowhere.js" })));
  check(failure, "no_host", /nowhere\.js could not be loaded.*workerUrl/);
});

test("a lost device goes unnoticed; lost twice, it is missed", async () => {
  const { messages, answer: expected } = goldens[5];
  const devtools = await session.browser.newBrowserCDPSession();
  /** What a stream gives while the device is lost in the middle of it. */
  const streamed = async (more = {}) => {
    const params = { messages, temperature: 0, ...more };
    await page.evaluate(async (params) => {
      const chunks = await engine.chat.completions.create({ ...params, stream: true });
      await chunks.next();
      const read = async () => {
        let text = "";
        for await (const chunk of chunks) text += chunk.choices[0].delta.content ?? "";
        return text;
      };
      const reading = read();
      globalThis.failed = failure(reading);
      globalThis.text = reading.catch(() => null);
    }, params);
    await devtools.send("Browser.crashGpuProcess");
    return page.evaluate(async () => ({ text: await text, failed: await failed }));
  };
  const first = await streamed();
  assert.equal(first.text, expected);
  // After a second loss within two minutes the browser keeps its GPU to itself for a while.
  const second = await streamed({ ignore_eos: true, max_tokens: 900 });
  check(second.failed, "no_gpu", /no GPU is available.*device "cpu"/);
  const text = await page.evaluate(async (messages) => {
    const engine = await Engine.load("model/", { device: "cpu" });
    return answer(engine, messages);
  }, messages);
  assert.equal(text, expected);
});
