// What every end-to-end test shares: the page's address and a headless Chromium with WebGPU.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

/** The served demo page; `cargo xtask test --only e2e` sets it. */
export const url = required("TABLOOM_URL");

/**
 * Starts Chromium with the switches of `webdriver.json`, or without those that turn WebGPU on.
 *
 * @param {{webgpu?: boolean, pageCache?: boolean, collect?: boolean}} [options] `pageCache`: pages
 *   that are left are kept for the way back, as visitors' browsers do; `collect`: scripts can
 *   collect garbage, by `gc()`
 */
export function launch({ webgpu = true, pageCache = false, collect = false } = {}) {
  const { args } = capabilities()["goog:chromeOptions"];
  const switches = args.filter((name) => webgpu || !name.includes("webgpu"));
  if (collect) switches.push("js-flags=--expose-gc");
  return chromium.launch({
    ignoreDefaultArgs: pageCache ? ["--disable-back-forward-cache"] : [],
    executablePath: required("TABLOOM_CHROMIUM"),
    args: switches.map((name) => `--${name}`),
  });
}

function capabilities() {
  const file = new URL("../../webdriver.json", import.meta.url);
  return JSON.parse(readFileSync(file, "utf8"));
}

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run cargo xtask test --only e2e`);
  return value;
}
