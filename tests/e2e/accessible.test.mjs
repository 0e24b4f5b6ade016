// What holds in every state of the page and the element: axe-core finds nothing, nothing is wider than a
// small phone, and the console stays empty.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import axe from "axe-core";
import { STATES, begin } from "./states.mjs";

let states;

before(async () => {
  states = await begin();
});

after(() => states?.close());

/**
 * How it is looked at; on its side a phone is low.
 *
 * @type {{width: number, height?: number, colorScheme?: "dark", forcedColors?: "active", dir?: string}[]}
 */
const LOOKS = [
  ...[1280, 390].flatMap((width) => [{ width }, { width, colorScheme: /** @type {const} */ ("dark") }]),
  { width: 390, forcedColors: /** @type {const} */ ("active") },
  { width: 1280, forcedColors: /** @type {const} */ ("active") },
  { width: 390, dir: "rtl" },
  { width: 1280, dir: "rtl" },
  { width: 844, height: 390 },
];

for (const [name, { fails }] of Object.entries(STATES)) {
  test(name, async () => {
    const { page, problems } = await states.bring(name);
    await page.setViewportSize({ width: 320, height: 640 });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 320);
    assert.deepEqual(
      problems.filter((problem) => !(fails && /404/.test(problem))),
      [],
    );
    // As `<script>` it would break the page's policy; where a page scrolls, its own inline styles do.
    await page.evaluate(`${axe.source}; null`);
    for (const look of LOOKS) {
      const { width, height = 800, colorScheme = "light", forcedColors = "none", dir = "ltr" } = look;
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme, forcedColors });
      await page.evaluate((dir) => (document.documentElement.dir = dir), dir);
      assert.deepEqual(await page.evaluate(violations), [], JSON.stringify(look));
    }
  });
}

/** Runs in the page: what is wrong, and where. */
async function violations() {
  const rules = { "target-size": { enabled: true } };
  const { violations } = await axe.run(document, { rules, resultTypes: ["violations"] });
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`),
  );
}
