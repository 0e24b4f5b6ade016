// Makes the README's picture: two tabs of the demo page on one engine, one with a chat, one with the
// Engine view; light and dark. With TABLOOM_URL and TABLOOM_CHROMIUM set as for the tests:
//   node tests/e2e/picture.mjs
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { launch, url } from "./browser.mjs";
import { ask, ready, say } from "./demo.mjs";

const FOLDER = fileURLToPath(new URL("../../docs/pictures/", import.meta.url));
const HEIGHT = 780;
/** Widths of the two windows. */
const [CHAT, ENGINE] = [540, 760];
/** Characters of an answer after which there is something to see of both. */
const ENOUGH = 300;

const browser = await launch();
await mkdir(FOLDER, { recursive: true });
try {
  for (const colorScheme of ["light", "dark"]) await picture(colorScheme);
} finally {
  await browser.close();
}

/** @param {"light" | "dark"} colorScheme */
async function picture(colorScheme) {
  const context = await browser.newContext({ colorScheme, deviceScaleFactor: 2 });
  const [{ page: chat }, { page: engine }] = [await ready(context, url), await ready(context, url)];
  await chat.setViewportSize({ width: CHAT, height: HEIGHT });
  await engine.setViewportSize({ width: ENGINE, height: HEIGHT });
  await ask(engine, "What is the capital of France?");
  await say(chat, "Tell me a story about a fox.");
  await say(engine, "Tell me a story about a cat.");
  await engine.locator("#tab-engine").click();
  const length = () => [...document.querySelectorAll("#messages .assistant .text")].at(-1)?.textContent.length ?? 0;
  while ((await chat.evaluate(length)) < ENOUGH) await chat.waitForTimeout(50);
  const shots = [];
  for (const [page, width] of [[engine, ENGINE], [chat, CHAT]]) {
    await page.bringToFront();
    const shot = await page.screenshot({ animations: "disabled", caret: "hide" });
    shots.unshift({ width, data: shot.toString("base64") });
  }
  const both = await context.newPage();
  await both.setContent(sheet(shots, colorScheme));
  await both.locator("main").screenshot({ path: `${FOLDER}demo-${colorScheme}.png`, omitBackground: true });
  await context.close();
}

/**
 * Windows side by side.
 *
 * @param {{width: number, data: string}[]} shots PNGs in base64
 * @param {"light" | "dark"} colorScheme
 */
function sheet(shots, colorScheme) {
  const line = colorScheme === "light" ? "#d0d3cf" : "#3c4443";
  const image = ({ width, data }) => `<img alt="" width="${width}" height="${HEIGHT}" src="data:image/png;base64,${data}">`;
  return `<!doctype html><style>
    body { margin: 0; }
    main { display: flex; gap: 16px; width: max-content; padding: 1px; }
    img { border-radius: 10px; outline: 1px solid ${line}; }
  </style><main>${shots.map(image).join("")}</main>`;
}
