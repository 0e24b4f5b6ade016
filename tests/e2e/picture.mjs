// Makes the README's picture: the state of two tabs on one engine, one with a chat, one with the Engine
// view; light and dark. With TABLOOM_URL and TABLOOM_CHROMIUM set as for the tests:
//   node tests/e2e/picture.mjs
import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { crc32, deflateSync } from "node:zlib";
import { launch, url } from "./browser.mjs";
import { ready } from "./demo.mjs";
import { share } from "./states.mjs";

const FOLDER = fileURLToPath(new URL("../../docs/pictures/", import.meta.url));
const HEIGHT = 900;
/** Widths of the two windows. */
const [CHAT, ENGINE] = [540, 760];
/** Characters of an answer after which there is something to see of both. */
const ENOUGH = 300;

const browser = await launch();
await mkdir(FOLDER, { recursive: true });
try {
  for (const colorScheme of /** @type {const} */ (["light", "dark"])) await picture(colorScheme);
} finally {
  await browser.close();
}

/** @param {"light" | "dark"} colorScheme */
async function picture(colorScheme) {
  const context = await browser.newContext({ colorScheme, deviceScaleFactor: 2 });
  const [{ page: chat }, { page: engine }] = [await ready(context, url), await ready(context, url)];
  await chat.setViewportSize({ width: CHAT, height: HEIGHT });
  await engine.setViewportSize({ width: ENGINE, height: HEIGHT });
  await share(engine, chat);
  const length = () => shadow(".assistant .text").at(-1)?.textContent.length ?? 0;
  while ((await chat.evaluate(length)) < ENOUGH) await chat.waitForTimeout(50);
  const shots = [];
  for (const { page, width } of [
    { page: engine, width: ENGINE },
    { page: chat, width: CHAT },
  ]) {
    await page.bringToFront();
    const shot = await page.screenshot({ animations: "disabled", caret: "hide" });
    shots.unshift({ width, data: shot.toString("base64") });
  }
  const both = await context.newPage();
  await both.setContent(sheet(shots, colorScheme));
  const shot = await both.locator("main").screenshot({ omitBackground: true });
  const image = await both.evaluate(indexed, shot.toString("base64"));
  await writeFile(`${FOLDER}demo-${colorScheme}.png`, png(image));
  await context.close();
}

/**
 * A picture in its 256 most frequent colours, the others as the nearest of these: a quarter of the bytes.
 * It runs in a page.
 *
 * @param {string} data a PNG in base64
 */
async function indexed(data) {
  const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const parts = (colour) => [0, 8, 16, 24].map((shift) => (colour >>> shift) & 255);
  const byCount = [...counts].sort(([, a], [, b]) => b - a).map(([colour]) => colour);
  const palette = byCount.slice(0, 256).map(parts);
  const places = new Map(byCount.map((colour, i) => [colour, i < 256 ? i : nearest(parts(colour))]));
  function nearest(wanted) {
    const far = palette.map((colour) => colour.reduce((sum, part, i) => sum + (part - wanted[i]) ** 2, 0));
    return far.indexOf(Math.min(...far));
  }
  let places64 = "";
  for (const pixel of pixels) places64 += String.fromCharCode(places.get(pixel));
  return { width, height, palette, places: btoa(places64) };
}

/** The bytes of a PNG with a palette. */
function png({ width, height, palette, places }) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type, "latin1"), Buffer.from(data)]);
    const [length, sum] = [data.length, crc32(body)].map((number) => {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(number);
      return bytes;
    });
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3], 8);
  const pixels = Buffer.from(places, "base64");
  const rows = Array.from({ length: height }, (_, y) => [Buffer.of(0), pixels.subarray(y * width, (y + 1) * width)]);
  return Buffer.concat([
    Buffer.from("89504e470d0a1a0a", "hex"),
    chunk("IHDR", head),
    chunk(
      "PLTE",
      palette.flatMap((colour) => colour.slice(0, 3)),
    ),
    chunk(
      "tRNS",
      palette.map((colour) => colour[3]),
    ),
    chunk("IDAT", deflateSync(Buffer.concat(rows.flat()), { level: 9, memLevel: 9 })),
    chunk("IEND", []),
  ]);
}

/**
 * Windows side by side.
 *
 * @param {{width: number, data: string}[]} shots PNGs in base64
 * @param {"light" | "dark"} colorScheme
 */
function sheet(shots, colorScheme) {
  const line = colorScheme === "light" ? "#d0d3cf" : "#3c4443";
  const image = ({ width, data }) =>
    `<img alt="" width="${width}" height="${HEIGHT}" src="data:image/png;base64,${data}">`;
  return `<!doctype html><style>
    body { margin: 0; }
    main { display: flex; gap: 16px; width: max-content; padding: 1px; }
    img { border-radius: 10px; outline: 1px solid ${line}; }
  </style><main>${shots.map(image).join("")}</main>`;
}
