// Runs the wasm tests of one file in Firefox or WebKitGTK: `node tests/in-page.mjs RUNNER FILE`, with the runner's
// options after it. The runner steers Chromium by itself; here it only serves the page that tests.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { launchFirefox } from "./e2e/firefox.mjs";
import { WEBKIT, launchWebkit } from "./e2e/webkit.mjs";

const LIMIT = 600_000;
const [runner, ...file] = process.argv.slice(2);

/** The address in what the server prints. */
async function address(server) {
  for await (const line of createInterface(server.stdout)) {
    const found = /available at (http:\S+)/.exec(line);
    if (found) return found[1];
  }
  throw new Error("the server of the tests ended before it printed its address");
}

/** Prints what the page prints until its tests are over; gives whether all have passed. */
async function watch(page) {
  let seen = "";
  for (const end = Date.now() + LIMIT; Date.now() < end; ) {
    const text = await page.locator("#output").textContent();
    process.stdout.write(text.startsWith(seen) ? text.slice(seen.length) : `\n${text}`);
    seen = text;
    if (text.includes("test result: ")) return text.includes("test result: ok");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`the tests were not over after ${LIMIT / 60_000} minutes; the page shows: ${seen}`);
}

const env = { ...process.env, NO_HEADLESS: "1", WASM_BINDGEN_TEST_ADDRESS: "127.0.0.1:0" };
const server = spawn(runner, ["wasm-bindgen-test-runner", ...file], { env, stdio: ["ignore", "pipe", "inherit"] });
let browser;
try {
  browser = await (WEBKIT ? launchWebkit() : launchFirefox());
  const page = await browser.newPage();
  if (!WEBKIT) page.on("pageerror", (error) => console.error(`${error}`));
  await page.goto(await address(server));
  process.exitCode = (await watch(page)) ? 0 : 1;
} finally {
  await browser?.close();
  server.kill();
}
