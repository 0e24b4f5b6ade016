// Makes target/contact-sheet/index.html: each state of the page and the element at four sizes, each light and dark, in
// forced colours and from right to left; one picture a state. With TABLOOM_URL and TABLOOM_CHROMIUM set as for the tests:
//   node tests/e2e/contact-sheet.mjs [part of a state's name]
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { STATES, begin } from "./states.mjs";

const FOLDER = fileURLToPath(new URL("../../target/contact-sheet/", import.meta.url));

/** @type {Record<string, {colorScheme?: "dark", forcedColors?: "active", dir?: string}>} */
const LOOKS = {
  light: {},
  dark: { colorScheme: "dark" },
  "forced colours": { forcedColors: "active" },
  "right to left": { dir: "rtl" },
};
/** Sizes, and how wide they are on the sheet: all looks of one in a row. */
const SIZES = [
  { width: 390, height: 844, shown: 236 },
  { width: 844, height: 390, shown: 386 },
  { width: 1280, height: 800, shown: 386 },
  { width: 1920, height: 1080, shown: 386 },
];

const [, , part = ""] = process.argv;
const states = await begin();
await mkdir(FOLDER, { recursive: true });
try {
  for (const name of Object.keys(STATES).filter((name) => name.includes(part))) {
    const { page } = await states.bring(name);
    const figures = await shoot(page);
    const sheet = await page
      .context()
      .browser()
      .newPage({ viewport: { width: 1600, height: 900 }, deviceScaleFactor: 2 });
    await sheet.setContent(html(name, figures));
    await writeFile(`${FOLDER}${fileOf(name)}`, await sheet.screenshot({ fullPage: true }));
    await sheet.close();
  }
  const made = Object.keys(STATES).filter((name) => existsSync(`${FOLDER}${fileOf(name)}`));
  const pictures = made.map((name) => `<img alt="${name}" width="1600" src="${fileOf(name)}">`);
  await writeFile(`${FOLDER}index.html`, `<!doctype html><title>Contact sheet</title>${pictures.join("")}`);
} finally {
  await states.close();
}

/** @param {string} name of a state */
function fileOf(name) {
  return `${name.replace(/\W+/g, "-")}.png`;
}

/**
 * Pictures of a page in all sizes and looks, as HTML.
 *
 * @param {import("playwright-core").Page} page
 */
async function shoot(page) {
  const devtools = await page.context().newCDPSession(page);
  const figures = [];
  for (const { width, height, shown } of SIZES) {
    // Phones have fingers, which controls are larger for.
    await devtools.send("Emulation.setTouchEmulationEnabled", { enabled: Math.min(width, height) < 500 });
    await page.setViewportSize({ width, height });
    for (const [look, { colorScheme = "light", forcedColors = "none", dir = "ltr" }] of Object.entries(LOOKS)) {
      await page.emulateMedia({ colorScheme, forcedColors });
      await page.evaluate((dir) => {
        document.documentElement.dir = dir;
        dispatchEvent(new Event("resize")); // menus are placed anew
      }, dir);
      const shot = await page.screenshot({ animations: "disabled", caret: "hide" });
      figures.push(`<figure><figcaption>${width} × ${height}, ${look}</figcaption>
        <img alt="" width="${shown}" src="data:image/png;base64,${shot.toString("base64")}"></figure>`);
    }
  }
  return figures.join("");
}

/**
 * @param {string} name
 * @param {string} figures
 */
function html(name, figures) {
  return `<!doctype html><style>
    body { margin: 16px; background: #888; font: 14px system-ui; }
    h1 { margin: 0 0 8px; font-size: 18px; }
    main { display: flex; flex-wrap: wrap; align-items: start; gap: 12px; }
    figure { margin: 0; }
    img { display: block; }
  </style><h1>${name}</h1><main>${figures}</main>`;
}
