// A project of somebody's with the package installed, as npm would publish it; and pages made of its files.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { launch } from "../e2e/browser.mjs";
import { serve } from "../e2e/server.mjs";

export const tarball = process.env.TABLOOM_TARBALL;
if (!tarball) throw new Error("TABLOOM_TARBALL is missing; run `cargo xtask test --only package`");

export const root = fileURLToPath(new URL("../../", import.meta.url));
export const tools = join(root, "node_modules");

/** Installs the package in a folder of its own; `examples` are those of its README, by language. */
export async function install() {
  const folder = await mkdtemp(join(tmpdir(), "tabloom-package-"));
  const write = (file, text) => writeFile(join(folder, file), text);
  /** Runs a program in the project; what it prints is shown if it fails. */
  const run = (program, args) => {
    try {
      return execFileSync(program, args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    } catch (error) {
      throw new Error(`${error.message}\n${error.stdout}`);
    }
  };
  await write("package.json", JSON.stringify({ private: true, type: "module" }));
  const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--offline", "--silent"];
  run("npm", ["install", ...options, tarball]);
  const readme = await readFile(join(folder, "node_modules/tabloom/README.md"), "utf8");
  const examples = {};
  for (const [, language, text] of readme.matchAll(/^```(\w+)\n(.*?)^```/gms)) {
    (examples[language] ??= []).push(here(text));
  }
  return { folder, examples, write, run, remove: () => rm(folder, { recursive: true }) };
}

/** An example whose model's name, which leads to Hugging Face, leads to the built-in model. */
function here(example) {
  const options = `{ registry: { "smollm2-360m": "/models/my-model/" } }`;
  return example
    .replaceAll('load("smollm2-360m")', `load("smollm2-360m", ${options})`)
    .replaceAll('model="smollm2-360m"', 'model="/models/my-model/"');
}

/** The files below a folder, by path. */
export async function filesOf(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map(({ parentPath, name }) => relative(folder, join(parentPath, name)).split(sep).join("/"));
}

/** As sites have it that are strict. */
const STRICT = {
  "content-security-policy":
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'",
};

/** Serves a folder's files under a strict policy, opens its page, and reads it as {@link read} does. */
export async function shown(folder, expression, act) {
  const folders = {};
  for (const path of await filesOf(folder)) {
    const end = path.lastIndexOf("/") + 1;
    (folders[path.slice(0, end)] ??= {})[path.slice(end)] = await readFile(join(folder, path));
  }
  const server = await serve(folders, STRICT);
  try {
    return { found: await read(`${server.url}index.html`, expression, act), requests: server.requests };
  } finally {
    await server.close();
  }
}

/** Opens a page on which nothing may go wrong; gives what `expression` finds in it once that is not empty. */
export async function read(address, expression, act = async (/** @type {import("playwright-core").Page} */ _) => {}) {
  const browser = await launch();
  try {
    const page = await browser.newPage();
    const problems = [];
    page.on("pageerror", (error) => problems.push(`${error}`));
    await page.goto(address);
    await act(page);
    const found = page.waitForFunction(expression, null, { timeout: 240_000 });
    const value = await (await found).jsonValue();
    assert.deepEqual(problems, []);
    return value;
  } finally {
    await browser.close();
  }
}
