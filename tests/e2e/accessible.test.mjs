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

for (const [name, { fails }] of Object.entries(STATES)) {
  test(name, async () => {
    const { page, problems } = await states.bring(name);
    // As `<script>` it would break the page's policy.
    await page.evaluate(`${axe.source}; null`);
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 });
      for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await page.evaluate(violations), [], `${width} px, ${colorScheme}`);
      }
    }
    await page.setViewportSize({ width: 320, height: 640 });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 320);
    assert.deepEqual(
      problems.filter((problem) => !(fails && /404/.test(problem))),
      [],
    );
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
