// Apps made with the package by each of the usual tools, from the smallest configuration, in TypeScript where
// that is the custom: built for production, served, and visited in Chromium. TABLOOM_APPS=all has all of them.
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch } from "../e2e/browser.mjs";
import { build, provide, start } from "./project.mjs";
import { addModel, serveApp } from "./server.mjs";
import { visit } from "./visitor.mjs";

/**
 * @typedef {object} App
 * @property {string} [dist] what its build makes, which is then served; without it, it has its own server,
 *   and the model among its public files
 * @property {string} [base] the path below which it is served
 * @property {string} [policy] the content security policy of the site
 */

/** Those that every run of the tests has. @type {Record<string, App>} */
const DEFAULT = {
  plain: { dist: "dist" },
  esbuild: { dist: "dist" },
  "vite-react": { dist: "dist", base: "/below/" },
  next: {},
};

/** @type {Record<string, App>} */
const OTHERS = {
  rollup: { dist: "dist" },
  "vite-vue": { dist: "dist" },
  webpack: { dist: "dist" },
  parcel: { dist: "dist" },
  sveltekit: { dist: "build" },
  astro: { dist: "dist" },
  nuxt: {},
  angular: { dist: "dist/app/browser" },
};

let browser;

before(async () => {
  await provide("node");
  browser = await launch();
});

after(() => browser?.close());

const apps = { ...DEFAULT, ...(process.env.TABLOOM_APPS === "all" && OTHERS) };
const chosen = process.env.TABLOOM_APP?.split(",") ?? Object.keys(apps);
for (const name of chosen) {
  const { dist, base = "/", policy } = { ...DEFAULT, ...OTHERS }[name];
  test(name, async () => {
    const folder = await provide(name);
    if (!dist) await addModel(join(folder, "public/models/my-model"));
    await build(folder);
    const site = dist
      ? await serveApp(join(folder, dist), { base, headers: policy ? { "content-security-policy": policy } : {} })
      : await start(folder);
    try {
      await visit(browser, site.origin + base);
    } finally {
      await site.close();
    }
  });
}
