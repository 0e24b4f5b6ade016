// The code of the guides, the reference and the README: every block of JavaScript is checked by
// TypeScript against the package's types, as TypeScript where no comment has types, and runs in a page;
// blocks of HTML are pages, and those of JSX have a component `Chat`. `no-run` marks what needs a visitor or
// another server: it is checked, and does not run. Short names of models stand for the built-in one here.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import { launch } from "./browser.mjs";
import { serve } from "./server.mjs";

const PATIENCE = 120_000;
const root = fileURLToPath(new URL("../../", import.meta.url));
/** The documents of a folder, by their paths. */
const within = (folder) =>
  readdirSync(join(root, folder))
    .filter((file) => file.endsWith(".md"))
    .map((file) => `${folder}/${file}`);
const guides = within("docs/guides");
const documents = [...guides, ...within("docs/reference"), "README.md"];

/** A page on which the names stand for something that blocks use and do not make: see `guides.d.ts`. */
const PAGE = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>A guide's page</title><link rel="icon" href="icon.svg">
<script type="importmap">{"imports": {
  "tabloom": "./on-cpu.js",
  "tabloom/element": "./tabloom/element.js",
  "tabloom/element/parts": "./tabloom/element/parts.js",
  "tabloom/element/texts/de": "./tabloom/element/texts/de.js",
  "tabloom/prompt-api": "./prompt-api-on-cpu.js"
}}</script>
<input><output id="output"></output>`;

/** The package, but where a block names no device it takes the CPU, which compiles no pipelines. */
const ON_CPU = `
  import { Engine as Packaged } from "./tabloom/index.js";
  export * from "./tabloom/index.js";
  export class Engine extends Packaged {
    static load(source, options) {
      return super.load(source, { device: "cpu", ...options });
    }
  }`;

/** The same of what loads a model for sessions. */
const PROMPT_API_ON_CPU = `
  import { languageModel as packaged } from "./tabloom/prompt-api.js";
  export * from "./tabloom/prompt-api.js";
  export const languageModel = (source, options) => packaged(source, { device: "cpu", ...options });`;

/** The page of the guide's test. */
const PLAYWRIGHT = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>A chat to test</title><link rel="icon" href="icon.svg">
<script type="module" src="./tabloom/element.js"></script>
<tabloom-chat model="/models/my-model/" device="cpu" temperature="0"></tabloom-chat>`;

/** A page with an element in its markup, and a script that sets its words. */
const inGerman = () => {
  const [{ code }, ...more] = all.filter(({ code }) => code.includes('"tabloom/element/texts/de"'));
  assert.deepEqual(more, []);
  return `${PAGE}<tabloom-chat model="/models/my-model/"></tabloom-chat><script type="module">${code}</script>`;
};

/** In place of the package's registry, wherever it is: every name leads to the built-in model. */
const REGISTRY = `export const REGISTRY = { "qwen3-0.6b": "/models/qwen3-0.6b/" };`;

/** The blocks of a document: their language and what follows it, where they begin, and their text. */
function blocks(document) {
  const text = readFileSync(join(root, document), "utf8");
  const name = document
    .replace(/^docs\//, "")
    .replace(/\.md$/, "")
    .replaceAll("/", "-")
    .toLowerCase();
  return [...text.matchAll(/^```(\w+)([^\n]*)\n(.*?)^```$/gms)].map(([, language, note, code], i) => ({
    language,
    code,
    run: note.trim() !== "no-run",
    id: `${name}-${i + 1}`,
  }));
}

const all = documents.flatMap(blocks);
const isScript = ({ language }) => language === "js" || language === "jsx";
const scripts = all.filter(isScript);

/** Shows what a block of JSX exports. */
const SHOW = `
  import { createRoot } from "react-dom/client";
  createRoot(output).render(<Chat />);`;

let browser;
let server;

before(async () => {
  const pages = all
    .filter(({ language }) => language === "html")
    .map(({ id, code }) => [
      `${id}.html`,
      `<!doctype html><html lang="en"><title>${id}</title><link rel="icon" href="icon.svg">\n${code}`,
    ]);
  const registry = { "registry.js": REGISTRY };
  server = await serve({
    "": {
      "guide.html": PAGE,
      "on-cpu.js": ON_CPU,
      "prompt-api-on-cpu.js": PROMPT_API_ON_CPU,
      "playwright.html": PLAYWRIGHT,
      "german.html": inGerman(),
      ...Object.fromEntries(pages),
    },
    "tabloom/": registry,
    "tabloom/models/": registry,
    "models/my-model/": { "generation_config.json": '{"do_sample": false}' },
  });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.close();
});

/** Opens a page in a context of its own, and closes it after `use`; nothing may go wrong on it. */
async function visit(file, use) {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    const problems = [];
    page.on("pageerror", (error) => problems.push(`${error}`));
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    await page.goto(`${server.url}${file}`);
    await use(page);
    assert.deepEqual(problems, []);
  } finally {
    await context.close();
  }
}

test("there are guides, and code in them", () => {
  assert.ok(guides.length >= 15, guides.join(" "));
  for (const name of [...guides, "README.md"]) {
    assert.ok(blocks(name).some(isScript), `${name} has no code`);
  }
});

test("Playwright tests a chat as the guide says", async () => {
  const [{ code }, ...more] = all.filter(({ code }) => code.includes('"@playwright/test"'));
  assert.deepEqual(more, []);
  const address = "http://localhost:3000/";
  assert.ok(code.includes(address));
  const body = code.replace(/^import .*$/m, "").replace(address, `${server.url}playwright.html`);
  const tests = [];
  // What of @playwright/test it uses, over the same browser.
  const expect = (locator) => ({
    toContainText: (hasText, options) => locator.filter({ hasText }).waitFor(options),
  });
  new Function("test", "expect", body)((_name, run) => tests.push(run), expect);
  assert.equal(tests.length, 1);
  await visit("playwright.html", (page) => tests[0]({ page }));
});

test("an element in the page's markup has the words that the guide sets", () =>
  visit("german.html", (page) => page.getByRole("textbox", { name: "Nachricht" }).waitFor()));

test("the types of all code are right", () => {
  const folder = join(root, "target/guides");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  copyFileSync(new URL("guides.d.ts", import.meta.url), join(folder, "guides.d.ts"));
  for (const { id, code, language } of scripts) {
    const extension = code.includes("@type {") ? language : language.replace("js", "ts");
    writeFileSync(join(folder, `${id}.${extension}`), code);
  }
  const compilerOptions = {
    allowJs: true,
    checkJs: true,
    strict: true,
    noEmit: true,
    jsx: "react-jsx",
    skipLibCheck: true,
    types: [],
    target: "es2022",
    module: "esnext",
    moduleResolution: "bundler",
    moduleDetection: "force",
    lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable", "esnext.disposable"],
    paths: {
      tabloom: ["../package/index.d.ts"],
      "tabloom/element": ["../package/element.d.ts"],
      "tabloom/element/parts": ["../package/element/parts.d.ts"],
      "tabloom/element/texts/*": ["../package/element/texts/*.d.ts"],
      "tabloom/prompt-api": ["../package/prompt-api.d.ts"],
    },
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*"] }));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const checked = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
  assert.equal(checked.status, 0, checked.stdout);
});

for (const { id, code, language } of scripts.filter(({ run }) => run)) {
  const isChat = language === "jsx";
  test(`${id} ${isChat ? "is a chat" : "runs"}`, async () => {
    const { outputFiles } = await build({
      stdin: { contents: isChat ? code + SHOW : code, resolveDir: root, loader: isChat ? "jsx" : "js" },
      bundle: true,
      write: false,
      format: "esm",
      platform: "browser",
      jsx: "automatic",
      external: ["tabloom", "tabloom/element", "tabloom/element/parts", "tabloom/prompt-api"],
      define: { "process.env.NODE_ENV": '"production"' },
    });
    await visit("guide.html", async (page) => {
      await page.evaluate(async (source) => {
        const { Engine } = await import("tabloom");
        const messages = [{ role: "user", content: "Tell me a story." }];
        Object.assign(globalThis, { messages, engine: await Engine.load("/models/my-model/") });
        await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
      }, outputFiles[0].text);
      if (!isChat) return;
      const input = page.getByRole("textbox", { name: "Your message" });
      await input.fill("What is the capital of France?");
      await input.press("Enter");
      await page.locator("#output", { hasText: "Paris" }).waitFor();
    });
  });
}

for (const { id } of all.filter(({ language, run }) => language === "html" && run)) {
  test(`${id} is a chat`, () =>
    visit(`${id}.html`, async (page) => {
      const input = page.getByRole("textbox", { name: "Your message" });
      await input.fill("What is the capital of France?");
      await input.press("Enter");
      await input.press("Enter");
      await page.locator("[part~=assistant]", { hasText: /\w/ }).waitFor();
    }));
}
