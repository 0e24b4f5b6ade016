// Models that are no address but files: the visitor's, or the page's own bytes.
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { url } from "./browser.mjs";
import { ask, loaded, ready } from "./demo.mjs";
import { goldens, openPackage } from "./package.mjs";
import { modelFile } from "./server.mjs";

const MODEL = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];
const NAMES = [...MODEL, "draft/config.json", "draft/model.safetensors"];
const GGUF = await readFile(new URL("../goldens/gguf/llama_q4_0.gguf", import.meta.url));

let session;
let page;
let folder;

before(async () => {
  session = await openPackage();
  page = session.page;
  folder = await mkdtemp(join(tmpdir(), "tabloom-"));
  await mkdir(join(folder, "draft"));
  for (const name of NAMES) await writeFile(join(folder, name), await modelFile(name));
  await writeFile(join(folder, "notes.txt"), "no file of a model");
  await page.evaluate(async (names) => {
    const input = (attributes) => {
      document.body.append(Object.assign(document.createElement("input"), { type: "file", ...attributes }));
    };
    input({ id: "folder", webkitdirectory: true });
    input({ id: "files", multiple: true });
    globalThis.bytes = {};
    for (const name of names) bytes[name] = await (await fetch(`model/${name}`)).arrayBuffer();
    globalThis.handle = await (await navigator.storage.getDirectory()).getDirectoryHandle("mine", { create: true });
    const draft = await handle.getDirectoryHandle("draft", { create: true });
    for (const [path, content] of Object.entries(bytes)) {
      const [name, inside] = path.split("/").reverse();
      const file = await (await (inside ? draft : handle).getFileHandle(name, { create: true })).createWritable();
      await file.write(content);
      await file.close();
    }
  }, NAMES);
  await page.locator("#folder").setInputFiles(folder);
});

after(async () => {
  await session?.close();
  await rm(folder, { recursive: true });
});

/** What a source is a model of: evaluated in the page. */
const SOURCES = {
  "a chosen folder": () => /** @type {HTMLInputElement} */ (document.querySelector("#folder")).files,
  "a folder's handle": () => handle,
  "bytes by name": () => bytes,
};

/** What loading a source is refused with. */
const refused = (source, argument, options = {}) =>
  page.evaluate(
    ([source, argument, options]) => {
      const model = new Function(`return (${source})`)()(argument);
      return failure(Engine.load(model, { host: "private", device: "cpu", ...options }));
    },
    [`${source}`, argument, options],
  );

for (const [name, source] of Object.entries(SOURCES)) {
  test(`${name} is a model`, async () => {
    const { messages, answer: expected } = goldens[0];
    const load = async ([source, messages]) => {
      const model = new Function(`return (${source})`)()();
      const engine = await Engine.load(model, { host: "private", device: "cpu" });
      const { info } = engine;
      const text = await answer(engine, messages);
      engine.close();
      return { text, info, kept: (await Engine.store.list()).length };
    };
    const { text, info, kept } = await page.evaluate(load, [`${source}`, messages]);
    assert.equal(text, expected);
    assert.equal(info.stored, false);
    assert.ok(info.draft?.weightBytes > 0, JSON.stringify(info.draft));
    assert.equal(kept, 0);
    assert.match(info.model, /^local:[0-9a-f]{32}\/.*\/$/);
  });
}

test("a GGUF file is a model in every form", async () => {
  const forms = {
    "a file": (bytes) => new File([bytes], "small.gguf"),
    "a file with a strange name": (bytes) => new File([bytes], "sm#a?ll.gguf"),
    "a blob": (bytes) => new Blob([bytes]),
    "a buffer": (bytes) => bytes.buffer,
    "an array": (bytes) => bytes,
    "a list": (bytes) => [new File([bytes], "small.gguf"), new File(["{}"], "config.json")],
  };
  for (const [name, form] of Object.entries(forms)) {
    const source = `(bytes) => (${form})(Uint8Array.from(bytes))`;
    const { code, message } = await refused(source, [...GGUF]);
    // All of its header has been read: this file has no vocabulary.
    assert.match(message, /^(local:[0-9a-f]{32}\/)?(small|sm#a\?ll|model)\.gguf.*tokenizer\.ggml\.model/, name);
    assert.equal(code, "malformed", name);
  }
});

test("the model is the file that is no projector, adapter or drafter", async () => {
  const text = (content) => `${String.fromCharCode(8, 0, 0, 0, content.length, 0, 0, 0, 0, 0, 0, 0)}${content}`;
  const projector = `GGUF...${"general.architecture"}${text("clip")}${"general.type"}${text("mmproj")}`;
  const source = `([bytes, projector]) => [
    new File([projector], "eyes.gguf"),
    new File([Uint8Array.from(bytes)], "small.gguf"),
    new File([Uint8Array.from(bytes)], "small.mmproj-Q8_0.gguf"),
    new File([Uint8Array.from(bytes)], "small-imatrix.gguf"),
  ]`;
  const { message } = await refused(source, [[...GGUF], projector]);
  assert.match(message, /small\.gguf.*tokenizer\.ggml\.model/);
});

test("files that are no model are refused as those of a server are", async () => {
  /** @type {[() => unknown, string, RegExp][]} */
  const cases = [
    [() => 7, "invalid_request", /model: found 7/],
    [() => ({ "config.json": "{}" }), "invalid_request", /found String as a file/],
    [() => [], "fetch", /config\.json: there is no such file/],
    [() => ({ ...bytes, "config.json": undefined }), "invalid_request", /found Undefined/],
    [() => ({ "model.safetensors": bytes["model.safetensors"] }), "fetch", /config\.json: there is no such/],
    [() => ({ ...bytes, "model.safetensors": new Blob(["<!doctype html>"]) }), "malformed", /HTML page/],
    [
      () => ({ ...bytes, "model.safetensors": bytes["model.safetensors"].slice(0, -999) }),
      "truncated",
      /model\.safetensors/,
    ],
    [() => new Blob(["text"]), "truncated", /model\.gguf/],
    [() => new Blob(["x".repeat(1000)]), "malformed", /GGUF/],
    [() => ({ "a.gguf": new Blob(), "b.gguf": new Blob() }), "invalid_request", /2 models \(a\.gguf, b\.gguf\)/],
  ];
  for (const [source, code, words] of cases) {
    const failed = await refused(source);
    assert.equal(failed.code, code, `${source}: ${failed.message}`);
    assert.match(failed.message, words);
    assert.ok(failed.typed);
  }
});

test("a visitor of the demo page chooses a folder", async () => {
  const {
    messages: [{ content }],
    answer,
  } = goldens[0];
  const { page, problems } = await ready(session.browser, `${url}?device=cpu&temperature=0&host=private`);
  await ask(page, content);
  await page.locator("#choose").click();
  await page.locator("#folder").setInputFiles(folder);
  await page.locator("#model-name", { hasNotText: "Built-in" }).waitFor();
  await loaded(page);
  await page.locator("#clear").click();
  assert.equal(await ask(page, content), answer);
  assert.match(await page.locator("#adapter").textContent(), /processor/);
  // A text is something to ask about; the page goes on with the model it has.
  await page.locator("#folder").evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(["text"], "notes.txt"));
    document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await page.locator("#conversation [part~=attachment]", { hasText: "notes.txt" }).waitFor();
  await page.getByRole("button", { name: "Remove notes.txt" }).click();
  assert.equal(await ask(page, content), answer);
  assert.deepEqual(problems, []);
  await page.close();
});

test("a file that changes after it was chosen is not read", async () => {
  const path = join(folder, "model.safetensors");
  await page.locator("#files").setInputFiles(MODEL.map((name) => join(folder, name)));
  // The browser notes what a file is like when it is first asked.
  const size = await page.locator("#files").evaluate((/** @type {HTMLInputElement} */ { files }) => files[3].size);
  assert.equal(size, (await stat(path)).size);
  await truncate(path, 1000);
  const failed = await refused(() => /** @type {HTMLInputElement} */ (document.querySelector("#files")).files);
  assert.equal(failed.code, "integrity", failed.message);
  assert.match(failed.message, /model\.safetensors is damaged or was changed: .*when it was chosen/);
});

test("a manifest holds for files, too", async () => {
  const integrity = { files: { "config.json": { sha256: "0".repeat(64) } } };
  const failed = await refused(() => bytes, null, { integrity });
  assert.equal(failed.code, "integrity", failed.message);
});
