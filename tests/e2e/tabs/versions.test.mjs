// Pages and hosts of different versions of the package: each finds its own kind, and where they
// meet all the same, the page is told.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { url } from "../browser.mjs";
import { FRANCE, open, SHARING, STORY, text } from "./tabs.mjs";

/** A file of the package. */
async function packaged(file) {
  const response = await fetch(`${url}tabloom/${file}`);
  assert.ok(response.ok, `${response.url}: ${response.status}`);
  return Buffer.from(await response.arrayBuffer());
}

const { version } = JSON.parse(await packaged("package.json"));
/** Another version, whose name is as long. */
const other = version.replace(/\d/g, (digit) => (Number(digit) + 1) % 10);

/** The bytes with the package's version replaced by the other. */
function replaced(bytes) {
  const copy = Buffer.from(bytes);
  let count = 0;
  for (let at = copy.indexOf(version); at >= 0; at = copy.indexOf(version, at)) {
    at += copy.write(other, at);
    count++;
  }
  assert.ok(count > 0, `${version} was not found`);
  return copy;
}

const versionJs = replaced(await packaged("version.js"));
const module = replaced(await packaged("wasm/tabloom_bg.wasm"));

let session;

before(async () => {
  session = await open({
    // Pages of the other version with the worker of this one.
    "packages/page/": { "version.js": versionJs },
    // The other version as a whole.
    "packages/other/": { "version.js": versionJs },
    "packages/other/wasm/": { "tabloom_bg.wasm": module },
    "": { "other.js": 'import "./probe.js"; import "./packages/other/worker.js";' },
  });
});

after(() => session?.close());

for (const rung of SHARING) {
  describe(`${rung}:`, () => {
    let visitor;
    let tab;

    before(async () => {
      visitor = await session.visitor();
      [tab] = await visitor.tabs(1, { host: rung });
    });

    after(() => visitor?.close());

    test("a page that meets a worker of another version is told", async () => {
      const old = await visitor.tab({ package: "packages/page/" });
      const error = await old.refused({ host: rung });
      assert.ok(error.typed, JSON.stringify(error));
      assert.equal(error.code, "version_mismatch");
      assert.match(error.details.page, new RegExp(`^${other}`));
      assert.match(error.details.host, new RegExp(`^${version}`));
      assert.match(error.message, /Reload/);
      await old.close();
      assert.equal(text(await tab.ask(FRANCE.params)), FRANCE.answer);
    });

    test("two versions have a host each, side by side", async () => {
      const options = { host: rung, workerFile: "other.js" };
      const [one, two] = [0, 1].map(() => visitor.tab({ package: "packages/other/" }));
      await (await one).load(options);
      await (await two).load(options);
      const tabs = [tab, await one, await two];
      assert.equal((await tab.hosts()).length, 2);
      assert.deepEqual(await Promise.all(tabs.map((tab) => tab.rung())), [rung, rung, rung]);
      const served = await Promise.all(tabs.map(async (tab) => (await tab.metrics()).host.tabs.length));
      assert.deepEqual(served, [1, 2, 2]);
      await Promise.all(tabs.map((tab) => tab.begin("answer", STORY.params)));
      for (const tab of tabs) assert.equal(text(await tab.answer("answer")), STORY.answer);
    });
  });
}
