// The package as npm would publish it: what is in it, its types in other people's projects, and the page
// in its README.
import assert from "node:assert/strict";
import { mkdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { filesOf, install, root, shown, tarball, tools } from "./project.mjs";

let project;
let manifest;

before(async () => {
  project = await install();
  manifest = JSON.parse(await readFile(join(project.folder, "node_modules/tabloom/package.json"), "utf8"));
});

after(() => project?.remove());

test("it holds every module with its types, and nothing else", async () => {
  const sources = await filesOf(join(root, "pkg-template"));
  const modules = sources.filter((file) => file.endsWith(".js"));
  const glue = ["tabloom", "grammar"].flatMap((name) => [
    `${name}.js`,
    `${name}.d.ts`,
    `${name}_bg.wasm`,
    `${name}_bg.wasm.d.ts`,
  ]);
  // A module without code may have its types written beside it.
  const expected = new Set([
    ...sources,
    ...modules.map((file) => file.replace(/js$/, "d.ts")),
    ...glue.map((file) => `wasm/${file}`),
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "THIRD-PARTY.md",
    "custom-elements.json",
  ]);
  const packed = project
    .run("tar", ["-tzf", tarball])
    .trim()
    .split("\n")
    .map((path) => path.replace(/^package\//, ""));
  assert.deepEqual(packed.sort(), [...expected].sort());
});

test("it has the notices of the crates in its WebAssembly", async () => {
  const notices = await readFile(join(project.folder, "node_modules/tabloom/THIRD-PARTY.md"), "utf8");
  const crates = notices.match(/^## .+/gm).flatMap((names) => names.slice(3).split(", "));
  assert.ok(crates.length > 100 && new Set(crates).size === crates.length, `${crates.length}`);
  for (const name of ["wgpu", "naga", "minijinja", "llguidance", "blake3", "wasm-bindgen", "serde_json"]) {
    assert.ok(
      crates.some((crate) => crate.startsWith(`${name} `)),
      name,
    );
  }
  // Tools of the build and the tests are not in it.
  assert.deepEqual(
    crates.filter((crate) => /^(tabloom|clap|tokio|axum|proptest|syn|wasm-bindgen-test) /.test(crate)),
    [],
  );
  assert.match(notices, /^MIT OR Apache-2\.0$/m);
});

test("workers are begun in words that bundlers read, their options written out", async () => {
  for (const [file, name] of [
    ["dedicated", "Worker"],
    ["shared", "SharedWorker"],
  ]) {
    const code = await readFile(join(project.folder, `node_modules/tabloom/host/rungs/${file}.js`), "utf8");
    const [, options] = code.match(
      new RegExp(`new ${name}\\(new URL\\("[./]+worker\\.js",import\\.meta\\.url\\),\\{([^}]*)\\}\\)`),
    );
    assert.match(options, /type:"module"/);
    assert.equal(options.includes("..."), false, options);
  }
});

test("it can be published, and says where it comes from", () => {
  assert.equal(manifest.private, undefined);
  assert.equal(manifest.scripts, undefined);
  assert.equal(manifest.dependencies, undefined);
  assert.deepEqual(manifest.publishConfig, { access: "public", provenance: true });
  for (const field of ["license", "homepage", "bugs", "engines", "description"]) assert.ok(manifest[field], field);
  assert.equal(manifest.repository.type, "git");
});

/** Entries that are there for their types; their modules are empty. */
const TYPES_ALONE = ["./react", "./vue", "./svelte"];

test("every entry can be imported, also where there is no page", async () => {
  for (const entry of Object.keys(manifest.exports)) {
    const name = `tabloom${entry.slice(1).replace("*", "de")}`;
    const resolve = `console.log(import.meta.resolve("${name}"))`;
    const address = project.run("node", ["--input-type=module", "-e", resolve]).trim();
    assert.equal((await readFile(fileURLToPath(address))).length > 0, !TYPES_ALONE.includes(entry), name);
  }
  const names = project.run("node", [
    "--input-type=module",
    "-e",
    `
    const modules = await Promise.all(["tabloom", "tabloom/element", "tabloom/prompt-api"].map((name) => import(name)));
    console.log(modules.map((module) => Object.keys(module).sort().join()).join(" "));
  `,
  ]);
  const calls = "LanguageModelToolCall,LanguageModelToolError,LanguageModelToolSuccess";
  assert.equal(names.trim(), `Engine,TabloomError TabloomChat ${calls},languageModel`);
});

const CONSUMER = `
import { Engine, TabloomError, type ChatCompletion, type LanguageModelContent, type LoadOptions } from "tabloom";
import { TabloomChat } from "tabloom/element";
import german from "tabloom/element/texts/de";
import { languageModel, LanguageModelToolSuccess } from "tabloom/prompt-api";
import * as worker from "tabloom/worker";

const options: LoadOptions = {
  fallback: { baseURL: "/v1", model: "a", when: ["no_gpu"], apiKey: async () => "key" },
  quantisation: "Q4_K_M", hub: "https://hub.example/", registry: { a: "org/name@main" },
  onProgress: ({ loaded, total }) => void (loaded / total),
};
const engine = await Engine.load("org/name", options);
const params = { messages: [{ role: "user" as const, content: "Hi" }] };
const whole: ChatCompletion = await engine.chat.completions.create(params, { fallback: false });
const served: "device" | "fallback" = whole.served_by;
for await (const chunk of await engine.chat.completions.create({ ...params, stream: true })) {
  const text: string | undefined = chunk.choices[0]?.delta.content;
  void text;
}
const answer: Promise<Response> = engine.fetch("/v1/models");
const session = await engine.languageModel().create();
const LanguageModel = languageModel("org/name", { preferBrowser: true, browserRules: true, quantize: "w4" });
const contents = await LanguageModel.create<LanguageModelContent[]>({
  tools: [{ name: "a", description: "a", inputSchema: {} }], expectedOutputs: [{ type: "tool-call" }],
  monitor: (monitor) => monitor.addEventListener("downloadprogress", ({ loaded }) => void (loaded * 100)),
});
for (const part of await contents.prompt("Hi")) {
  if (part.type !== "tool-call") continue;
  const { callId, name } = part.value;
  const value = new LanguageModelToolSuccess({ callId, name, result: [{ type: "text", value: "a" }] });
  await contents.prompt([{ role: "user", content: [{ type: "tool-response", value }] }]);
}
const isSession: boolean = contents instanceof LanguageModel;
const text: string = await session.prompt("Hi", { responseConstraint: /a/ });
const element: TabloomChat = document.createElement("tabloom-chat");
element.engine = engine;
Object.assign(TabloomChat.texts, german);
try {
  await session.prompt("Hi");
} catch (error) {
  if (error instanceof TabloomError) console.log(error.code, error.param);
}
// @ts-expect-error: no such host
await Engine.load("org/name", { host: "cloud" });
// @ts-expect-error: no such reason
await Engine.load("org/name", { fallback: { baseURL: "/", model: "a", when: ["rain"] } });
export { answer, isSession, served, text, worker };
`;

for (const resolution of ["bundler", "nodenext"]) {
  test(`strict TypeScript takes its types: ${resolution}`, async () => {
    await project.write("consumer.ts", CONSUMER);
    const module = resolution === "bundler" ? "esnext" : "nodenext";
    project.run("node", [
      join(tools, "typescript/bin/tsc"),
      "--strict",
      "--noEmit",
      "--types",
      "",
      "--target",
      "es2022",
      "--module",
      module,
      "--moduleResolution",
      resolution,
      "--lib",
      "es2023,dom,dom.iterable,dom.asynciterable,esnext.disposable",
      "consumer.ts",
    ]);
  });
}

test("the README's page without a bundler answers", async () => {
  const [html] = project.examples.html;
  const folder = join(project.folder, "plain");
  await mkdir(folder);
  await symlink(join(project.folder, "node_modules/tabloom"), join(folder, "tabloom"));
  await project.write("plain/index.html", html);
  const answer = () => document.querySelector("tabloom-chat").messages.find(({ role }) => role === "assistant");
  const { found, requests } = await shown(folder, answer, async (page) => {
    await page.getByRole("textbox").fill("Tell me a story about a fox.");
    await page.keyboard.press("Enter");
  });
  assert.match(found.content, /fox/i);
  assert.ok(requests.includes("tabloom/element.js"));
});
