// What every end-to-end test shares: the page's address and a headless browser with WebGPU.
import { readFileSync } from "node:fs";
import { readFile, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { chromium } from "playwright-core";
import { BEYOND_FIREFOX, FIREFOX, downloads, launchFirefox } from "./firefox.mjs";
import { BEYOND_WEBKIT, WEBKIT, launchWebkit } from "./webkit.mjs";

/** The served demo page; `cargo xtask test --only e2e` sets it. */
export const url = required("TABLOOM_URL");

/** What the software adapter calls itself; Firefox gives no names. */
export const ADAPTER = FIREFOX ? /an adapter without a name/ : /swiftshader/i;

/**
 * Features of Chromium that are off: two pages of the address bar, which take half a second of a processor in each
 * window; and, as a second switch replaces the first, those that Playwright turns off.
 */
const OFF = `
  WebUIOmniboxAimPopup WebUIOmniboxPopup

  AvoidCorsURLLoaderRestartOnRedirect AvoidUnnecessaryBeforeUnloadCheckSync
  BlockOriginHeaderModificationOnRedirect DestroyProfileOnBrowserClose DialMediaRouteProvider GlobalMediaControls
  HttpsUpgrades LensOverlay MediaRouter NetworkTimeServiceQuerying OptimizationHints PaintHolding
  ThirdPartyStoragePartitioning Translate
`;

/** @typedef {(name: string, run: () => Promise<void>) => void} Test */

/**
 * `test`, or where the tests run in Firefox something that says why this one does not.
 *
 * @param {keyof typeof BEYOND_FIREFOX} what
 * @returns {Test}
 */
export const testBeyondFirefox = (what) =>
  FIREFOX ? (name) => console.log(`not in Firefox: ${name}: ${BEYOND_FIREFOX[what]}`) : test;

/**
 * The same of WebKitGTK.
 *
 * @param {keyof typeof BEYOND_WEBKIT} what
 * @returns {Test}
 */
export const testBeyondWebkit = (what) =>
  WEBKIT ? (name) => console.log(`not in WebKitGTK: ${name}: ${BEYOND_WEBKIT[what]}`) : test;

/**
 * Starts Chromium with the switches of `webdriver.json`, or without those that turn WebGPU on; or
 * Firefox, with it or without; or WebKitGTK, which has none.
 *
 * @param {{webgpu?: boolean, pageCache?: boolean, collect?: boolean, opaque?: boolean}} [options]
 *   `pageCache`: pages that are left are kept for the way back, as visitors' browsers do; `collect`:
 *   scripts can collect garbage, by `gc()`; `opaque`: a worker whose script is in its address has an
 *   origin of its own, as the standard has it
 */
export function launch({ webgpu = true, pageCache = false, collect = false, opaque = false } = {}) {
  if (FIREFOX) return launchFirefox({ webgpu });
  if (WEBKIT) return launchWebkit();
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
  return chromium.launchPersistentContext(
    profile,
    options(() => true, ["remote-debugging-port=0"]),
  );
}

/**
 * Lets pages of a context lose their patience sooner, by this factor, but give a second to what takes seconds.
 *
 * @param {import("playwright-core").BrowserContext} context
 * @param {number} factor
 */
export const hurried = (context, factor) =>
  context.addInitScript((factor) => {
    const { setInterval, setTimeout } = globalThis;
    const sooner = (time) => (time < 5000 ? time / factor : Math.max(1000, time / factor));
    Object.assign(globalThis, {
      setInterval: (tick, period) => setInterval(tick, sooner(period)),
      setTimeout: (then, delay) => setTimeout(then, delay >= 5000 ? sooner(delay) : delay),
    });
  }, factor);

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

/**
 * Waits until an asynchronous function holds in a page, half a minute at most. (`waitForFunction` takes the promise
 * that such a function gives for an answer.)
 *
 * @param {any} page
 * @param {(argument: any) => Promise<unknown>} holds
 * @param {unknown} [argument]
 */
export async function waitUntil(page, holds, argument) {
  for (const end = Date.now() + 30_000; !(await page.evaluate(holds, argument)); ) {
    if (Date.now() > end) throw new Error(`it has not come to hold in half a minute: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Runs in a page: from then on `warned` fills up with the errors that developers are told in its console. */
export function noteWarnings() {
  globalThis.warned = [];
  console.warn = ({ message }) => void globalThis.warned.push(message);
}

/** Lets a page read what it has written to the clipboard. */
export async function allowClipboard(page) {
  if (!FIREFOX) await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
}

/** What a click has the browser save, as JSON. */
export async function saved(page, button) {
  if (FIREFOX) {
    await button.click();
    return savedByFirefox();
  }
  const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
  return read(download.suggestedFilename(), await readFile(await download.path(), "utf8"));
}

/**
 * @param {string} name
 * @param {string} text
 */
function read(name, text) {
  return { name, content: name.endsWith(".json") ? JSON.parse(text) : text };
}

/** The next file in the folder of downloads, once it is whole. */
async function savedByFirefox() {
  for (const end = Date.now() + 60_000; Date.now() < end; ) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    const [name] = (await readdir(downloads)).filter((name) => /\.(?:json|md)$/.test(name));
    const text = name && (await readFile(join(downloads, name), "utf8"));
    if (!text) continue;
    await rm(join(downloads, name));
    return read(name, text);
  }
  throw new Error("Firefox has saved nothing in a minute");
}

function options(chosen, more) {
  const { args } = capabilities()["goog:chromeOptions"];
  const off = `disable-features=${OFF.trim().split(/\s+/).join(",")}`;
  const switches = [...args.filter(chosen), off, ...more];
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
