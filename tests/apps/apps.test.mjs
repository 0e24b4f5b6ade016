// Apps made with the package by each of the usual tools, from the smallest configuration, in TypeScript where
// that is the custom: built for production, served, and visited in Chromium. TABLOOM_APPS names those that run.
import assert from "node:assert/strict";
import { appendFile, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, launchOnDisk, waitUntil } from "../e2e/browser.mjs";
import { build, provide, start } from "./project.mjs";
import { addModel, serveApp } from "./server.mjs";
import { visit } from "./visitor.mjs";

/**
 * @typedef {object} App
 * @property {string} [of] the app whose sources it has, built by the script `script`
 * @property {string} [script]
 * @property {string} [dist] what its build makes, which is then served; without it, it has its own server,
 *   and the model among its public files
 * @property {string} [base] the path below which it is served
 * @property {string[]} [pages] those that are visited, if there are others than the first
 * @property {string} [policy] the content security policy of the site
 * @property {boolean} [cdn] whether the package is on another origin
 * @property {boolean} [offline] whether it opens without a network once it was visited
 * @property {boolean} [tests] whether its build runs its tests, and makes nothing to visit
 */

/** All that a site can forbid, and Trusted Types required of a policy of its own. */
const STRICT = `default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self';
  require-trusted-types-for 'script'; trusted-types app`.replace(/\s+/g, " ");

const NEXT = { base: "/below/", pages: ["", "alone", "engine"] };

/** Those that every run of the tests has. @type {Record<string, App>} */
const DEFAULT = {
  plain: { dist: "dist" },
  cdn: { dist: "dist", cdn: true },
  esbuild: { dist: "dist", base: "/below/" },
  "vite-react": { dist: "dist", base: "/below/" },
  next: NEXT,
};

/** @type {Record<string, App>} */
const OTHERS = {
  angular: { dist: "dist/app/browser", base: "/below/" },
  astro: { dist: "dist", base: "/below/" },
  "astro-6": { dist: "dist" },
  "next-webpack": { ...NEXT, of: "next", script: "build:webpack" },
  nuxt: { base: "/below/" },
  parcel: { dist: "dist", base: "/below/" },
  rollup: { dist: "dist", base: "/below/" },
  sveltekit: { dist: "build", base: "/below/" },
  "vite-7": { dist: "dist" },
  "vite-vue": { dist: "dist" },
  webpack: { dist: "dist", base: "/below/" },
  strict: { dist: "dist", policy: STRICT },
  "webpack-strict": { dist: "dist", of: "webpack", script: "build:strict", policy: STRICT },
  nonce: {
    dist: "dist",
    policy: "default-src 'none'; script-src 'nonce-cmFuZG9t' 'strict-dynamic' 'wasm-unsafe-eval'; connect-src 'self'",
  },
  pwa: { dist: "dist", offline: true },
  "service-worker": { dist: "dist", offline: true },
  vitest: { tests: true },
  jest: { tests: true },
  "jest-react": { tests: true },
};

/** The chapters of the guide, and the apps that have their lines. */
const GUIDE = {
  React: ["vite-react"],
  "Next.js": ["next"],
  Vue: ["vite-vue"],
  Nuxt: ["nuxt"],
  Svelte: ["sveltekit"],
  "Vite before 8": ["vite-7", "astro-6"],
  Angular: ["angular"],
  "esbuild and Rollup": ["esbuild", "rollup"],
  "Below a path": [
    "vite-react",
    "astro",
    "sveltekit",
    "nuxt",
    "next",
    "angular",
    "parcel",
    "webpack",
    "esbuild",
    "rollup",
  ],
  "Trusted Types": ["strict", "webpack"],
  "Service workers": ["service-worker", "pwa"],
};

const APPS = { ...DEFAULT, ...OTHERS };
const { TABLOOM_APPS = Object.keys(DEFAULT).join() } = process.env;
const chosen = TABLOOM_APPS === "all" ? Object.keys(APPS) : TABLOOM_APPS.split(",");

let browser;

before(async () => {
  if (chosen.some((name) => name in OTHERS)) await provide("node");
  browser = await launch();
});

after(() => browser?.close());

test("the lines of the guides are in the apps", async () => {
  const [, ...chapters] = (await guide("bundlers")).split(/^## /m);
  const titles = chapters.map((chapter) => chapter.split("\n", 1)[0]);
  assert.deepEqual(titles, Object.keys(GUIDE));
  for (const [i, chapter] of chapters.entries()) await hasLines(GUIDE[titles[i]], chapter);
  const [, inTests] = /^### Without a browser$(.*?)^##/ms.exec(await guide("embed-a-chat"));
  await hasLines(["vitest", "jest", "jest-react"], inTests);
});

for (const name of chosen) {
  const app = APPS[name];
  test(name, async () => {
    const folder = await provide(app.of ?? name);
    if (app.tests) return void (await build(folder));
    if (!app.dist) await addModel(join(folder, "public/models/my-model"));
    await build(folder, app.script);
    const elsewhere = app.cdn && (await onAnotherOrigin(folder, join(folder, app.dist)));
    const { base = "/", pages = [""], policy } = app;
    const headers = policy ? { "content-security-policy": policy } : {};
    const site = await (app.dist ? serveApp(join(folder, app.dist), { base, headers }) : start(folder));
    try {
      const address = site.origin + base;
      if (app.offline) await visitOffline(address, site, join(folder, app.dist, "sw.js"));
      else {
        for (const page of pages) await within(browser.newContext(), (context) => visit(context, address + page));
      }
    } finally {
      await site.close();
      await elsewhere?.close();
    }
  });
}

const guide = (name) => readFile(new URL(`../../docs/guides/${name}.md`, import.meta.url), "utf8");

/** Apps have all lines of a chapter's samples, and what its tables have as code. */
async function hasLines(names, chapter) {
  const has = await lines(names);
  for (const [, block] of chapter.matchAll(/^```.*\n(.*?)^```$/gms)) {
    for (const line of block.split("\n")) assert.ok(has.has(line.trim()), `${names}: ${line}`);
  }
  const all = [...has].join("\n");
  for (const [row] of chapter.matchAll(/^\|.*$/gm)) {
    for (const [, code] of row.matchAll(/`([^`]+)`/g)) assert.ok(all.includes(code), `${names}: ${code}`);
  }
}

/** The lines of apps' sources, without what only the tests need; a build's commands are a line each. */
async function lines(names) {
  const found = new Set([""]);
  for (const name of names) {
    const folder = new URL(`${name}/`, import.meta.url);
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile() || entry.name === "package-lock.json") continue;
      const text = await readFile(join(entry.parentPath, entry.name), "utf8");
      const bare = text
        .replace(/ device="cpu" temperature=(?:"0"|\{0\})/g, "")
        .replaceAll('device: "cpu", ', "")
        .replaceAll('"/below/', '"/');
      for (const line of `${text}\n${bare}`.split(/\n|"build": "|" *,?\n| && /))
        found.add(line.trim().replace(/"$/, ""));
    }
  }
  return found;
}

/** Serves the package for all origins, in the place of the CDN that the app names. */
async function onAnotherOrigin(folder, dist) {
  const headers = { "access-control-allow-origin": "*" };
  const cdn = await serveApp(join(folder, "node_modules/tabloom"), { headers });
  for (const file of ["index.html", "tabloom-worker.js"]) {
    const text = await readFile(join(dist, file), "utf8");
    const moved = text.replace(/https:\/\/cdn\.jsdelivr\.net\/npm\/tabloom@[\d.]+/, cdn.origin);
    assert.notEqual(moved, text);
    await writeFile(join(dist, file), moved);
  }
  return cdn;
}

/**
 * The app is visited, and runs without the server in a browser that is started again. A new version of its
 * service worker leaves the models.
 */
async function visitOffline(address, site, worker) {
  const profile = await mkdtemp(join(tmpdir(), "tabloom-profile-"));
  try {
    await within(launchOnDisk(profile), async (context) => {
      await visit(context, address, async (page) => {
        await atWork(page);
        await appendFile(worker, "// changed");
        await page.evaluate(async () => {
          navigator.serviceWorker.addEventListener("controllerchange", () => (globalThis.renewed = true));
          await (await navigator.serviceWorker.getRegistration()).update();
        });
        await page.waitForFunction(() => globalThis.renewed);
        await atWork(page);
      });
    });
    await site.close();
    await within(launchOnDisk(profile), (context) => visit(context, address));
  } finally {
    await rm(profile, { recursive: true, maxRetries: 5 });
  }
}

/** Waits until the site's newest service worker is at work. */
const atWork = (page) =>
  waitUntil(page, async () => {
    const { installing, waiting, active } = (await navigator.serviceWorker.getRegistration()) ?? {};
    return !installing && !waiting && active?.state === "activated";
  });

/** Uses a context, and closes it. */
async function within(opened, use) {
  const context = await opened;
  try {
    await use(context);
  } finally {
    await context.close();
  }
}
