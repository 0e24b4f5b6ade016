// Makes target/contact-sheet/: a picture of each state of the page and the element, at four sizes, light and
// dark, in forced colours and from right to left. With TABLOOM_URL and TABLOOM_CHROMIUM set as for the tests:
//   node tests/e2e/contact-sheet.mjs [part of a state's name]
import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { STATES, begin } from "./states.mjs";

const FOLDER = fileURLToPath(new URL("../../target/contact-sheet/", import.meta.url));
const [PHONE, LANDSCAPE, LAPTOP, DESKTOP] = [
  [390, 844],
  [844, 390],
  [1280, 800],
  [1920, 1080],
];

/** @typedef {{size: number[], colorScheme?: "light" | "dark", forcedColors?: "active", dir?: string}} Look */

/** @type {Look[]} */
const LOOKS = [
  ...[PHONE, LANDSCAPE, LAPTOP, DESKTOP].flatMap((size) => [
    { size, colorScheme: /** @type {const} */ ("light") },
    { size, colorScheme: /** @type {const} */ ("dark") },
  ]),
  { size: LAPTOP, forcedColors: "active" },
  { size: PHONE, dir: "rtl" },
  { size: LAPTOP, dir: "rtl" },
];

const [, , part = ""] = process.argv;
const states = await begin();
await mkdir(FOLDER, { recursive: true });
try {
  for (const name of Object.keys(STATES).filter((name) => name.includes(part))) {
    const { page } = await states.bring(name);
    const devtools = await page.context().newCDPSession(page);
    const shots = [];
    for (const look of LOOKS) shots.push(await shoot(page, devtools, look));
    const sheet = await page.context().newPage();
    await sheet.setViewportSize({ width: 1600, height: 900 });
    await sheet.setContent(html(name, shots));
    await writeFile(`${FOLDER}${name.replace(/\W+/g, "-")}.png`, await sheet.screenshot({ fullPage: true }));
  }
} finally {
  await states.close();
}

/**
 * @param {import("playwright-core").Page} page
 * @param {import("playwright-core").CDPSession} devtools
 * @param {Look} look
 */
async function shoot(
  page,
  devtools,
  { size: [width, height], colorScheme = "light", forcedColors = "none", dir = "ltr" },
) {
  // Phones have fingers, which controls are larger for.
  await devtools.send("Emulation.setTouchEmulationEnabled", { enabled: Math.min(width, height) < 500 });
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme, forcedColors });
  await page.evaluate((dir) => (document.documentElement.dir = dir), dir);
  const shot = await page.screenshot({ animations: "disabled", caret: "hide" });
  const label = `${width} × ${height}, ${forcedColors === "active" ? "forced colours" : dir === "rtl" ? "right to left" : colorScheme}`;
  return { label, width, data: shot.toString("base64") };
}

/** A page with the shots at six tenths of their size, or narrower where they are too wide. */
function html(name, shots) {
  const figures = shots.map(
    ({ label, width, data }) =>
      `<figure><figcaption>${label}</figcaption>
      <img alt="" width="${Math.min(width * 0.6, 768)}" src="data:image/png;base64,${data}"></figure>`,
  );
  return `<!doctype html><style>
    body { margin: 16px; background: #888; font: 14px system-ui; }
    main { display: flex; flex-wrap: wrap; align-items: start; gap: 12px; }
    figure { margin: 0; }
    img { display: block; }
  </style><h1>${name}</h1><main>${figures.join("")}</main>`;
}
