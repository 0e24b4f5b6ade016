// Firefox as the tests start it, and what they cannot have it do.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { firefox } from "playwright-core";

/** Firefox's program, where tests are to run in Firefox. */
export const FIREFOX = process.env.TABLOOM_FIREFOX;

/** Where Firefox puts what pages have it save: Playwright does not hear of that. */
export const downloads = FIREFOX && mkdtempSync(join(tmpdir(), "tabloom-downloads-"));
if (downloads) process.on("exit", () => rmSync(downloads, { recursive: true, force: true }));

/** Why some tests run in Chromium only. */
export const BEYOND_FIREFOX = {
  crash: "on Linux Firefox has no GPU process that could crash, and its driver loses no device",
  scheme: "its driver shows pages in no other colour scheme",
  manifest: "it installs no pages",
  shifts: "it reports no layout shifts to pages",
  touch: "its driver emulates no touch screen",
  clicks: "under its driver a page behind another loses no focus, and no click is the second of two",
  folders: "its driver chooses files and no folders",
};

/**
 * Starts a stock Firefox, which Playwright drives by WebDriver BiDi. Versions of Playwright from 1.65
 * on do not start Firefox ESR 153: they ask its driver for a command that it does not know.
 *
 * @param {{webgpu?: boolean}} [options]
 */
export function launchFirefox({ webgpu = true } = {}) {
  return firefox.launch({
    channel: "moz-firefox",
    executablePath: FIREFOX,
    downloadsPath: downloads,
    firefoxUserPrefs: {
      "dom.webgpu.enabled": webgpu,
      "gfx.webgpu.ignore-blocklist": webgpu,
      // Pages may read what they have written to the clipboard.
      "dom.events.testing.asyncClipboard": true,
      "ui.prefersReducedMotion": 1,
    },
  });
}
