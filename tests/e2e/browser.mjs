// What every end-to-end test shares: the page's address and a headless Chromium with WebGPU.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

/** The served demo page; `cargo xtask test --only e2e` sets it. */
export const url = required("TABLOOM_URL");

/**
 * Starts Chromium with the switches of `webdriver.json`, or without those that turn WebGPU on, and
 * with those of `more`.
 *
 * @param {{webgpu?: boolean, more?: string[]}} [options]
 */
export function launch({ webgpu = true, more = [] } = {}) {
  const { args } = capabilities()["goog:chromeOptions"];
  const switches = [...args.filter((name) => webgpu || !name.includes("webgpu")), ...more];
  return chromium.launch({
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
