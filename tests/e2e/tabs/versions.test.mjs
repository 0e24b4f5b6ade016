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
  return response.text();
}

const { version } = JSON.parse(await packaged("package.json"));
const other = "0.0.1-other";

const page = { "version.js": (await packaged("version.js")).replace(version, other) };
assert.ok(page["version.js"].includes(other));

/** A worker of the other version: what pages say of themselves is what the module is made for. */
const worker = `
  import "./probe.js";
  import "./packages/other/worker.js";
  const { stringify } = JSON;
  const known = (message) => (message?.version === "${other}" ? { ...message, version: "${version}" } : message);
  JSON.stringify = (message) => stringify(known(message));
`;

let session;

before(async () => {
  session = await open({
    "packages/other/": page,
    "": { "other.js": worker },
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

    test("a page that meets a worker of another version is refused", async () => {
      const old = await visitor.tab({ package: "packages/other/" });
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
      assert.deepEqual(await Promise.all(tabs.map((tab) => tab.rung())), [rung, rung, rung]);
      const served = await Promise.all(tabs.map(async (tab) => (await tab.metrics()).host));
      assert.equal(served[1].name, served[2].name);
      assert.notEqual(served[0].name, served[1].name);
      assert.deepEqual(
        served.map(({ tabs }) => tabs.length),
        [1, 2, 2],
      );
      await Promise.all(tabs.map((tab) => tab.begin("answer", STORY.params)));
      for (const tab of tabs) assert.equal(text(await tab.answer("answer")), STORY.answer);
    });
  });
}
