// Makes the README's picture: two tabs of the demo page on one engine, one with a chat, one with the
// Engine view; light and dark. With TABLOOM_URL and TABLOOM_CHROMIUM set as for the tests:
//   node tests/e2e/picture.mjs
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { launch, url } from "./browser.mjs";
import { ask, ready } from "./demo.mjs";

const FOLDER = fileURLToPath(new URL("../../docs/pictures/", import.meta.url));
const TAB = { width: 620, height: 700 };
/** Milliseconds for the Engine view to show what has just ended. */
const REST = 1500;

const browser = await launch();
await mkdir(FOLDER, { recursive: true });
try {
  for (const colorScheme of ["light", "dark"]) await picture(colorScheme);
} finally {
  await browser.close();
}

/** @param {"light" | "dark"} colorScheme */
async function picture(colorScheme) {
  const context = await browser.newContext({ colorScheme, deviceScaleFactor: 2, viewport: TAB });
  const [{ page: chat }, { page: engine }] = [await ready(context, url), await ready(context, url)];
  await ask(engine, "What is the capital of France?");
  await engine.locator("#tab-engine").click();
  await ask(chat, "Tell me a story about a fox.");
  await chat.waitForTimeout(REST);
  const shots = [];
  for (const page of [chat, engine]) {
    await page.mouse.move(0, 0);
    await page.bringToFront();
    shots.push((await page.screenshot({ animations: "disabled", caret: "hide" })).toString("base64"));
  }
  const both = await context.newPage();
  await both.setContent(sheet(shots, colorScheme));
  await both.locator("main").screenshot({ path: `${FOLDER}demo-${colorScheme}.png`, omitBackground: true });
  await context.close();
}

/**
 * Two windows side by side.
 *
 * @param {string[]} shots PNGs in base64
 * @param {"light" | "dark"} colorScheme
 */
function sheet(shots, colorScheme) {
  const line = colorScheme === "light" ? "#d0d3cf" : "#3c4443";
  const tabs = shots.map((shot) => `<img alt="" width="${TAB.width}" height="${TAB.height}" src="data:image/png;base64,${shot}">`);
  return `<!doctype html><style>
    body { margin: 0; }
    main { display: flex; gap: 16px; width: max-content; padding: 1px; }
    img { border-radius: 10px; outline: 1px solid ${line}; }
  </style><main>${tabs.join("")}</main>`;
}
