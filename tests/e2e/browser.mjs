// What every end-to-end test shares: the page's address and a headless Chromium with WebGPU.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

/** The served demo page; `cargo xtask test --only e2e` sets it. */
export const url = required("TABLOOM_URL");

/**
 * Starts Chromium with the switches of `webdriver.json`, or without those that turn WebGPU on.
 *
 * @param {{webgpu?: boolean, pageCache?: boolean, collect?: boolean, opaque?: boolean}} [options]
 *   `pageCache`: pages that are left are kept for the way back, as visitors' browsers do; `collect`:
 *   scripts can collect garbage, by `gc()`; `opaque`: a worker whose script is in its address has an
 *   origin of its own, as the standard has it
 */
export function launch({ webgpu = true, pageCache = false, collect = false, opaque = false } = {}) {
  const more = [
    ...(collect ? ["js-flags=--expose-gc"] : []),
    ...(opaque ? ["enable-features=DataUrlWorkerOpaqueOrigin"] : []),
  ];
  return chromium.launch({
    ignoreDefaultArgs: pageCache ? ["--disable-back-forward-cache"] : [],
    ...options((name) => webgpu || !name.includes("webgpu"), more),
  });
}

/**
 * The same with a profile on disk, and with DevTools on the port that the profile's
 * `DevToolsActivePort` names.
 *
 * @param {string} profile
 */
export function launchOnDisk(profile) {
  return chromium.launchPersistentContext(profile, options(() => true, ["remote-debugging-port=0"]));
}

/**
 * Starts Chromium with a profile on disk and an extension, and waits for the extension's service worker.
 *
 * @param {string} profile
 * @param {string} extension its folder
 */
export async function launchExtension(profile, extension) {
  const context = await chromium.launchPersistentContext(profile, {
    ignoreDefaultArgs: ["--disable-extensions"],
    ...options(() => true, [`disable-extensions-except=${extension}`, `load-extension=${extension}`]),
  });
  const [worker = await context.waitForEvent("serviceworker")] = context.serviceWorkers();
  return { context, url: new URL("./", worker.url()).href };
}

function options(chosen, more) {
  const { args } = capabilities()["goog:chromeOptions"];
  const switches = [...args.filter(chosen), ...more];
  return {
    executablePath: required("TABLOOM_CHROMIUM"),
    args: switches.map((name) => `--${name}`),
  };
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
