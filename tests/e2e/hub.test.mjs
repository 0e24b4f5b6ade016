// Models by name, from a server that plays Hugging Face: branches are pinned to commits, files are what
// the repository says they are, and names that lead nowhere are refused.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { after, before, beforeEach, test } from "node:test";
import { ggufModel } from "./gguf.mjs";
import { goldens, openPackage } from "./package.mjs";
import { modelFile } from "./server.mjs";

const [FIRST, SECOND] = ["1", "2"].map((digit) => digit.repeat(40));
const FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];
const GGUF = await readFile(new URL("../goldens/gguf/llama_q4_0.gguf", import.meta.url));
const SMALL = ggufModel(64);
const wrong = "0".repeat(64);
const QUANTS = [
  "README.md",
  "m-Q4_K_M.gguf",
  "m-q8_0-00001-of-00002.gguf",
  "m-q8_0-00002-of-00002.gguf",
  "mmproj-m-Q8_0.gguf",
  "m.mmproj-Q8_0.gguf",
  "m-imatrix.gguf",
  "m-lora-Q8_0.gguf",
  "draft-m-Q8_0.gguf",
  "sub/M.Q4_K_S.gguf",
];
/** What lies beside models on hubs. */
const BESIDE = [
  "mmproj-F16.gguf",
  "only.mmproj-Q8_0.gguf",
  "only-mmproj-f16-00001-of-00002.gguf",
  "imatrix.gguf",
  "only.imatrix.gguf",
  "lora/only-LoRA-f16.gguf",
  "only-adapter.gguf",
  "only-DRAFT-0.5B-Q4_0.gguf",
  "mtp-only-Q8_0.gguf",
  "eagle3-only-bf16.gguf",
  "ggml-vocab-only.gguf",
  "only-control-vector.gguf",
];

/** A model whose name has a word of companions, and what lies beside it. */
const NAMED_SO = ["some-vision-Q4_K_M.gguf", "mmproj-some-vision-F16.gguf", "some-vision-lora.gguf", "draft.gguf"];

let session;
let page;
/** Where the branch `main` is, and what it says of the weights. */
let head;
let digest;
let online;

const json = (value) => (response) => {
  if (!online) return response.destroy();
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(value()));
};
const siblings = (files) => files.map((rfilename) => ({ rfilename }));

before(async () => {
  const files = Object.fromEntries(await Promise.all(FILES.map(async (file) => [file, await modelFile(file)])));
  const weights = files["model.safetensors"];
  digest = () => createHash("sha256").update(weights).digest("hex");
  const tree = json(() => [
    { path: "model.safetensors", size: weights.length, lfs: { oid: digest(), size: weights.length } },
  ]);
  const folders = {
    "hf/api/models/org/name/revision/": {
      main: json(() => ({ sha: head, siblings: siblings(FILES) })),
      "v1.0": json(() => ({ sha: FIRST, siblings: siblings(FILES) })),
      odd: json(() => ({ sha: "main" })),
    },
    "hf/api/models/org/name/tree/": { [FIRST]: tree, [SECOND]: tree },
    "hf/api/models/org/quants/revision/": { main: json(() => ({ sha: FIRST, siblings: siblings(QUANTS) })) },
    [`hf/org/quants/resolve/${FIRST}/`]: { "m-Q4_K_M.gguf": GGUF },
    [`hf/org/quants/resolve/${FIRST}/sub/`]: { "M.Q4_K_S.gguf": GGUF },
    "hf/api/models/org/single/revision/": {
      main: json(() => ({ sha: FIRST, siblings: siblings(["only.gguf", ...BESIDE]) })),
    },
    "hf/api/models/org/beside/revision/": { main: json(() => ({ sha: FIRST, siblings: siblings(["lora.gguf"]) })) },
    [`hf/org/beside/resolve/${FIRST}/`]: { "lora.gguf": GGUF },
    [`hf/org/single/resolve/${FIRST}/`]: { "only.gguf": GGUF },
    "hf/api/models/org/Some-Vision-GGUF/revision/": {
      main: json(() => ({ sha: FIRST, siblings: siblings(NAMED_SO) })),
    },
    [`hf/org/Some-Vision-GGUF/resolve/${FIRST}/`]: { [NAMED_SO[0]]: GGUF },
    "hf/api/models/org/gated/revision/": { main: json(() => ({ sha: FIRST, siblings: siblings(FILES) })) },
    [`hf/org/gated/resolve/${FIRST}/`]: { "config.json": (response) => response.writeHead(401).end() },
    "hf/api/models/org/talker/revision/": {
      main: json(() => ({ sha: FIRST, siblings: siblings(["audio-talker.gguf", "mmproj.gguf"]) })),
    },
    [`hf/org/talker/resolve/${FIRST}/`]: { "audio-talker.gguf": GGUF },
    "hf/api/models/org/odd/revision/": {
      "refs%2Fpr%2F3": json(() => ({ sha: FIRST, siblings: siblings(["100%+.gguf"]) })),
    },
    "hf/api/models/org/odd/tree/": {
      [FIRST]: json(() => [{ path: "100%+.gguf", size: SMALL.length, lfs: { oid: wrong, size: SMALL.length } }]),
    },
    [`hf/org/odd/resolve/${FIRST}/`]: { "100%25%2B.gguf": SMALL },
  };
  for (const commit of [FIRST, SECOND]) folders[`hf/org/name/resolve/${commit}/`] = files;
  session = await openPackage(folders);
  page = session.page;
});

beforeEach(async () => {
  [head, online] = [FIRST, true];
  session.server.requests.length = 0;
  await page.evaluate(async () => {
    globalThis.engine?.close();
    await caches.delete("tabloom");
  });
});

after(() => session?.close());

/** Loads a model by name; gives its address below the hub, or what failed. */
const load = (name, options = {}) =>
  page.evaluate(
    async ([name, options]) => {
      globalThis.engine?.close();
      const loading = Engine.load(name, { host: "private", device: "cpu", hub: "hf", ...options });
      const failed = await failure(loading.then((engine) => (globalThis.engine = engine)));
      return failed === "no failure" ? engine.info.model.split("/hf/")[1] : failed;
    },
    [name, options],
  );

const asked = (pattern) => session.server.requests.filter((path) => pattern.test(path));

test("a name is found, and its branch stays where it was when the model was kept", async () => {
  assert.equal(await load("org/name"), `org/name/resolve/${FIRST}/`);
  const text = await page.evaluate((messages) => answer(engine, messages), goldens[0].messages);
  assert.equal(text, goldens[0].answer);
  assert.equal(asked(/api\/.*tree/).length, 1);
  head = SECOND;
  session.server.requests.length = 0;
  online = false;
  assert.equal(await load("org/name@main"), `org/name/resolve/${FIRST}/`);
  assert.deepEqual(asked(/^hf\//), []);
  const [kept, deleted, none] = await page.evaluate(async () => {
    const kept = await Engine.store.list();
    const deleted = await Engine.store.delete(engine.info.model);
    return [kept, deleted, await Engine.store.list()];
  });
  assert.deepEqual(
    kept.map(({ files, complete }) => [files, complete]),
    [[FILES.length, true]],
  );
  assert.deepEqual([deleted, none], [true, []]);
  online = true;
  assert.equal(await load("hf:org/name"), `org/name/resolve/${SECOND}/`);
});

test("what a name has led to is deleted by it, and nobody is asked", async () => {
  const registry = { mine: "org/name@v1.0" };
  const remove = (name, options = {}) =>
    page.evaluate(
      async ([name, options]) => {
        const deleted = await Engine.store
          .delete(name, { hub: "hf", ...options })
          .catch(({ code, param }) => [code, param]);
        return [
          deleted,
          (await Engine.store.list())
            .map(({ model }) => model.split("/").at(-2)[0])
            .sort()
            .join(),
        ];
      },
      [name, options],
    );
  await load("org/name");
  head = SECOND;
  await load("org/name", { store: "opfs" });
  await page.evaluate(async () => (await Engine.load("model/", { host: "private", device: "cpu" })).close());
  session.server.requests.length = 0;
  /** @type {[string, object?][]} */
  const others = [["org/name@v1.0"], ["org/quants"], ["org/name", { hub: "hf2" }], [`org/name@${"3".repeat(40)}`]];
  for (const [name, options] of others) {
    assert.deepEqual(await remove(name, options), [false, "1,2,m"], name);
  }
  assert.deepEqual(await remove("hf:org/name@main"), [true, "m"]);
  assert.deepEqual(await remove("org/name"), [false, "m"]);
  assert.deepEqual(asked(/^hf/), []);
  await load("mine", { registry });
  assert.deepEqual(await remove("mine"), [["invalid_request", "model"], "1,m"]);
  assert.deepEqual(await remove("mine", { registry }), [true, "m"]);
  await load("mine", { registry });
  assert.deepEqual(await remove(`org/name@${FIRST}`), [true, "m"]);
  assert.deepEqual(await remove("model/"), [true, ""]);
});

test("a probe knows what a name has led to, and asks nobody", async () => {
  const probe = (options) =>
    page.evaluate(async (options) => {
      const { models } = await Engine.probe({ hub: "hf", ...options });
      return models.map(({ id, stored }) => [id, stored]);
    }, options);
  await load("org/name");
  session.server.requests.length = 0;
  const names = ["org/name", "mine", "org/name@v1.0", "model/"].map((model) => ({ model, bytes: 1 }));
  const models = [...names, { model: "org/quants", quantisation: "Q8_0", bytes: 1 }];
  const told = await probe({ models, registry: { mine: `org/name@${FIRST}` } });
  assert.deepEqual(told, [
    ["org/name", true],
    ["mine", true],
    ["org/name@v1.0", false],
    ["model/", false],
    ["org/quants", false],
  ]);
  assert.deepEqual(asked(/^hf/), []);
});

test("a probe looks at what a name leads to", async () => {
  const { models } = await page.evaluate(() =>
    Engine.probe({
      hub: "hf",
      models: ["org/name", "org/quants", "org/gated", "org/missing"].map((model) => ({ model })),
    }),
  );
  assert.deepEqual(
    models.map(({ problem }) => problem?.code ?? null),
    [null, "invalid_request", "fetch", "fetch"],
  );
  const [name, quants, gated, missing] = models;
  assert.ok(name.bytes > 0 && !name.stored, JSON.stringify(name));
  assert.match(quants.reason, /m-Q4_K_M\.gguf.*name the file/);
  assert.match(gated.reason, /org\/gated\/resolve.*401.*gated/);
  assert.match(missing.reason, /404.*gated/);
  assert.deepEqual(await page.evaluate(() => Engine.store.list()), []);
});

test("tags and commits are revisions; a commit is not asked for", async () => {
  assert.equal(await load("org/name@v1.0"), `org/name/resolve/${FIRST}/`);
  session.server.requests.length = 0;
  assert.equal(await load(`org/name@${SECOND}`, { store: "none" }), `org/name/resolve/${SECOND}/`);
  assert.deepEqual(asked(/revision/), []);
});

test("what is not kept is found anew, and what fails is not pinned", async () => {
  assert.equal(await load("org/name", { store: "none" }), `org/name/resolve/${FIRST}/`);
  head = SECOND;
  assert.equal(await load("org/name", { store: "none" }), `org/name/resolve/${SECOND}/`);
  head = "3".repeat(40);
  assert.equal((await load("org/name")).code, "fetch");
  head = SECOND;
  assert.equal(await load("org/name"), `org/name/resolve/${SECOND}/`);
});

test("weights that are not the repository's are refused", async () => {
  const right = digest;
  digest = () => wrong;
  try {
    for (const [name, file] of /** @type {[string, RegExp][]} */ ([
      ["org/name", /model\.safetensors.*0{64}/],
      ["org/odd@refs/pr/3", /100%\+\.gguf.*0{64}/],
    ])) {
      const failed = await load(name);
      assert.equal(failed.code, "integrity", failed.message);
      assert.match(failed.message, file);
    }
  } finally {
    digest = right;
  }
});

test("a GGUF file is chosen by its name, or by its quantisation", async () => {
  // These files have no tokenizer that could be used: what is asked for shows which was found.
  for (const [name, options, file] of [
    ["hf:org/quants/m-Q4_K_M.gguf", {}, "quants/resolve/1+/m-Q4_K_M.gguf"],
    ["org/quants", { quantisation: "q4_k_m" }, "quants/resolve/1+/m-Q4_K_M.gguf"],
    ["org/quants", { quantisation: "Q4_K_S" }, "quants/resolve/1+/sub/M.Q4_K_S.gguf"],
    ["org/quants:Q4_K_S", {}, "quants/resolve/1+/sub/M.Q4_K_S.gguf"],
    ["hf:org/quants:q8_0@main", {}, "quants/resolve/1+/m-q8_0-00001-of-00002.gguf"],
    ["org/quants", { quantisation: "Q8_0" }, "quants/resolve/1+/m-q8_0-00001-of-00002.gguf"],
    ["org/single", {}, "single/resolve/1+/only.gguf"],
    ["org/beside", {}, "beside/resolve/1+/lora.gguf"],
    ["org/Some-Vision-GGUF", {}, "Some-Vision-GGUF/resolve/1+/some-vision-Q4_K_M.gguf"],
    ["org/talker", {}, "talker/resolve/1+/audio-talker.gguf"],
  ]) {
    session.server.requests.length = 0;
    const failed = await load(name, options);
    assert.equal(failed.typed, true);
    const files = new Set(asked(/gguf$/));
    assert.equal(files.size, 1, [...files].join());
    assert.match([...files][0], new RegExp(`^hf/org/${file}$`));
  }
  for (const [name, options, message] of /** @type {[string, object, RegExp][]} */ ([
    ["org/quants", {}, /m-Q4_K_M.gguf, m-q8_0-00001-of-00002.gguf, sub\/M.Q4_K_S.gguf in org\/quants/],
    ["org/quants", { quantisation: "Q4_K" }, /expected one for Q4_K/],
    ["org/quants:Q4_K", {}, /expected one for Q4_K:/],
    ["hf:org/quants/m-Q4_K_M.gguf", { quantisation: "Q4_K_M" }, /with a file/],
    ["model/", { quantisation: "Q4_K_M" }, /expected a repository/],
  ])) {
    const failed = await load(name, options);
    assert.deepEqual([failed.code, failed.param], ["invalid_request", "quantisation"]);
    assert.match(failed.message, message);
  }
});

test("the registry has names, and pages their own", async () => {
  const registry = { mine: "org/name@v1.0", built: "./model/", "smollm2-135m": `org/name@${SECOND}` };
  assert.equal(await load("mine", { registry }), `org/name/resolve/${FIRST}/`);
  assert.equal(await load("smollm2-135m", { registry }), `org/name/resolve/${SECOND}/`);
  const built = await page.evaluate(async (registry) => {
    const engine = await Engine.load("built", { host: "private", device: "cpu", registry });
    engine.close();
    return engine.info.model;
  }, registry);
  assert.equal(built, `${session.server.url}model/`);
  session.server.requests.length = 0;
  const failed = await load("qwen3-0.6b");
  assert.equal(failed.code, "fetch");
  assert.match(
    asked(/^hf\//)[0],
    /^hf\/(Qwen\/Qwen3-0\.6B\/resolve|api\/models\/Qwen\/Qwen3-0\.6B\/tree)\/[0-9a-f]{40}/,
  );
});

test("names that lead nowhere say what was expected", async () => {
  for (const name of ["nothing", "org/", "a/b@", "a/../b", "../x/y@z?", "a b/c", "hf:", "", "constructor"]) {
    const failed = await load(name);
    assert.ok(["invalid_request", "fetch"].includes(failed.code), `${name}: ${JSON.stringify(failed)}`);
    if (failed.code === "fetch") continue;
    assert.equal(failed.param, "model");
    assert.match(failed.message, /expected a name of the registry.*qwen3-0\.6b.*org\/name@revision.*address/);
  }
  const failed = await load("model/", { draft: "nothing" });
  assert.deepEqual([failed.code, failed.param], ["invalid_request", "draft"]);
  for (const [name, reason] of /** @type {[string, RegExp][]} */ ([
    ["org/missing", /404.*gated.*a folder of this site begins with "\.\/" or "\/"/],
    ["org/name@odd", /no commit/],
  ])) {
    const failed = await load(name);
    assert.equal(failed.code, "fetch");
    assert.match(failed.message, reason);
  }
  online = false;
  assert.equal((await load("org/name")).code, "fetch");
  const aborted = await page.evaluate(() =>
    failure(Engine.load("org/name", { hub: "hf", signal: AbortSignal.abort(new Error("early")) })),
  );
  assert.equal(aborted.message, "early");
});
