// The package as npm would publish it: what is in it, its types in other people's projects, and a Vite
// app made of the examples in its README.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, sep } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launch } from "../e2e/browser.mjs";
import { serve } from "../e2e/server.mjs";

const tarball = process.env.TABLOOM_TARBALL;
if (!tarball) throw new Error("TABLOOM_TARBALL is missing; run `cargo xtask test --only package`");

const root = fileURLToPath(new URL("../../", import.meta.url));
const tools = join(root, "node_modules");
/** The README's examples, by language. */
const examples = {};

let project;
let manifest;

before(async () => {
  project = await mkdtemp(join(tmpdir(), "tabloom-package-"));
  await write("package.json", JSON.stringify({ private: true, type: "module" }));
  const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--offline", "--silent"];
  run("npm", ["install", ...options, tarball]);
  const installed = join(project, "node_modules/tabloom");
  manifest = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
  const readme = await readFile(join(installed, "README.md"), "utf8");
  for (const [, language, text] of readme.matchAll(/^```(\w+)\n(.*?)^```/gms)) {
    (examples[language] ??= []).push(text);
  }
});

after(() => project && rm(project, { recursive: true }));

const write = (file, text) => writeFile(join(project, file), text);

/** Runs a program in the project; what it prints is told if it fails. */
function run(program, args) {
  try {
    return execFileSync(program, args, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    throw new Error(`${error.message}\n${error.stdout}`);
  }
}

/** The files below a folder, by path. */
async function filesOf(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map(({ parentPath, name }) => relative(folder, join(parentPath, name)).split(sep).join("/"));
}

test("it holds every module with its types, and nothing else", async () => {
  const sources = (await filesOf(join(root, "pkg-template"))).filter((file) => !/^(wasm|grammar)\//.test(file));
  const modules = sources.filter((file) => file.endsWith(".js"));
  const glue = ["tabloom", "grammar"].flatMap((name) => [
    `${name}.js`, `${name}.d.ts`, `${name}_bg.wasm`, `${name}_bg.wasm.d.ts`,
  ]);
  const expected = [
    ...sources,
    ...modules.map((file) => file.replace(/js$/, "d.ts")),
    ...glue.map((file) => `wasm/${file}`),
    "LICENSE-APACHE",
    "LICENSE-MIT",
  ];
  const packed = run("tar", ["-tzf", tarball]).trim().split("\n").map((path) => path.replace(/^package\//, ""));
  assert.deepEqual(packed.sort(), expected.sort());
});

test("it can be published, and says where it comes from", () => {
  assert.equal(manifest.private, undefined);
  assert.equal(manifest.scripts, undefined);
  assert.equal(manifest.dependencies, undefined);
  assert.deepEqual(manifest.publishConfig, { access: "public", provenance: true });
  for (const field of ["license", "homepage", "bugs", "engines", "description"]) assert.ok(manifest[field], field);
  assert.equal(manifest.repository.type, "git");
});

test("every entry can be imported, also where there is no page", async () => {
  for (const entry of Object.keys(manifest.exports)) {
    const name = `tabloom${entry.slice(1)}`;
    const resolve = `console.log(import.meta.resolve("${name}"))`;
    const address = run("node", ["--input-type=module", "-e", resolve]).trim();
    assert.ok((await readFile(fileURLToPath(address))).length > 0, name);
  }
  const names = run("node", ["--input-type=module", "-e", `
    const modules = await Promise.all(["tabloom", "tabloom/element"].map((name) => import(name)));
    console.log(modules.map((module) => Object.keys(module).sort().join()).join(" "));
  `]);
  assert.equal(names.trim(), "Engine,TabloomError TabloomChat");
});

const CONSUMER = `
import { Engine, TabloomError, type ChatCompletion, type LoadOptions } from "tabloom";
import { TabloomChat } from "tabloom/element";
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
const element: TabloomChat = document.createElement("tabloom-chat");
element.engine = engine;
try {
  await session.prompt("Hi");
} catch (error) {
  if (error instanceof TabloomError) console.log(error.code, error.param);
}
// @ts-expect-error: no such host
await Engine.load("org/name", { host: "cloud" });
// @ts-expect-error: no such reason
await Engine.load("org/name", { fallback: { baseURL: "/", model: "a", when: ["rain"] } });
export { answer, served, worker };
`;

for (const resolution of ["bundler", "nodenext"]) {
  test(`strict TypeScript takes its types: ${resolution}`, async () => {
    await write("consumer.ts", CONSUMER);
    const module = resolution === "bundler" ? "esnext" : "nodenext";
    run("node", [
      join(tools, "typescript/bin/tsc"), "--strict", "--noEmit", "--types", "", "--target", "es2022",
      "--module", module, "--moduleResolution", resolution,
      "--lib", "es2023,dom,dom.iterable,dom.asynciterable,esnext.disposable", "consumer.ts",
    ]);
  });
}

/** As sites have it that are strict. */
const STRICT = {
  "content-security-policy":
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'",
};

/** Opens a page of a folder's files; gives what `read` finds in it once that is not empty. */
async function shown(folder, read, act = () => {}) {
  const folders = {};
  for (const path of await filesOf(folder)) {
    const end = path.lastIndexOf("/") + 1;
    (folders[path.slice(0, end)] ??= {})[path.slice(end)] = await readFile(join(folder, path));
  }
  const server = await serve(folders, STRICT);
  const browser = await launch();
  try {
    const page = await browser.newPage();
    const problems = [];
    page.on("pageerror", (error) => problems.push(`${error}`));
    await page.goto(`${server.url}index.html`);
    await act(page);
    const text = await (await page.waitForFunction(read, null, { timeout: 120_000 })).jsonValue();
    assert.deepEqual(problems, []);
    return { text, requests: server.requests };
  } finally {
    await browser.close();
    await server.close();
  }
}

test("a Vite app of the README's examples answers", async () => {
  await symlink(join(tools, "openai"), join(project, "node_modules/openai"));
  const [plain, openai, config] = examples.js;
  await write("vite.config.js", config);
  await write("index.html", `<!doctype html><title>App</title><body><script type="module" src="/main.js"></script>`);
  for (const main of [plain, openai]) {
    await write("main.js", main);
    run("node", [join(tools, "vite/bin/vite.js"), "build", "--logLevel", "warn", "--emptyOutDir"]);
    const sentence = () => document.body.innerText.match(/\w[^]*\w\./)?.[0];
    const { text, requests } = await shown(join(project, "dist"), sentence);
    assert.match(text, /fox/i);
    assert.ok(requests.some((path) => /^assets\/.*\.wasm$/.test(path)), requests.join());
    assert.ok(requests.every((path) => !path.startsWith("tabloom/")));
  }
});

test("the README's page without a bundler answers", async () => {
  const [html] = examples.html;
  const folder = join(project, "plain");
  await mkdir(folder);
  await symlink(join(project, "node_modules/tabloom"), join(folder, "tabloom"));
  await write("plain/index.html", html);
  const answer = () => document.querySelector("tabloom-chat").messages.find(({ role }) => role === "assistant");
  const { text, requests } = await shown(folder, answer, async (page) => {
    await page.getByRole("textbox").fill("Tell me a story about a fox.");
    await page.keyboard.press("Enter");
  });
  assert.match(text.content, /fox/i);
  assert.ok(requests.includes("tabloom/element.js"));
});
