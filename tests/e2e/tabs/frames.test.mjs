// Frames: where the browser lets a frame share nothing with others, it gets an engine of its own.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { policy } from "../server.mjs";
import { FRANCE, open, serveSite, SHARING, STORY, text, within } from "./tabs.mjs";

/** The policy of the demo page, but pages may frame each other. */
const framing = policy
  .replace("frame-ancestors 'none'", "frame-ancestors *; frame-src *")
  .replace(/; require-trusted-types-for.*/, "");

/**
 * For documents with an origin of their own: to them the files are another site's, and only a script
 * without a server can be their worker.
 */
const opaque = {
  "content-security-policy": framing.replaceAll("'self'", "http://127.0.0.1:* data:"),
  "access-control-allow-origin": "*",
};

let session;
let visitor;
/** Another origin. */
let foreign;

before(async () => {
  session = await open({}, { headers: { "content-security-policy": framing } });
  visitor = await session.visitor();
  foreign = await serveSite({}, opaque);
});

after(async () => {
  await foreign?.close();
  await session?.close();
});

/** Shows `address` in a frame of a page of this site, a new one unless it is named. */
async function framed(address, attributes = {}, shown = null) {
  const page = shown ?? (await visitor.context.newPage());
  if (!shown?.url().endsWith("top.html")) await page.goto(`${visitor.url}top.html`);
  const loaded = page.waitForEvent("framenavigated", (frame) => frame.url() === address);
  await page.evaluate(
    ([src, attributes]) => {
      const frame = document.createElement("iframe");
      for (const [name, value] of Object.entries(attributes)) frame.setAttribute(name, value);
      frame.src = src;
      document.body.append(frame);
    },
    [address, attributes],
  );
  const frame = await within("the frame", loaded);
  await frame.waitForFunction(() => globalThis.chat, null, { timeout: 30_000 });
  return frame;
}

/** The answer in a frame, and the rung it came from. */
async function chat(frame, options = {}) {
  const asked = frame.evaluate(([params, options]) => chat(params, options), [FRANCE.params, options]);
  const { host, text } = await within("the frame's answer", asked);
  assert.equal(text, FRANCE.answer);
  return host;
}

/** The name under which another site shows the same files. */
const elsewhere = (url) => url.replace("127.0.0.1", "localhost");

test("a frame of the same site shares the host", async () => {
  const top = await framed(`${visitor.url}frame.html`);
  const nested = await framed(`${visitor.url}frame.html`);
  assert.deepEqual([await chat(top), await chat(nested)], ["shared", "shared"]);
  const { host } = await nested.evaluate(() => engine.metrics());
  assert.equal(host.tabs.length, 2);
});

test("a frame of another site has its own engine", async () => {
  const frame = await framed(`${elsewhere(visitor.url)}frame.html`);
  assert.equal(await chat(frame), "private");
  for (const host of ["shared", "leader"]) {
    const error = await frame.evaluate((options) => refused(options), { host });
    assert.equal(error.code, "no_host", host);
    assert.match(error.message, /private|auto/);
  }
});

test("a sandboxed frame that keeps its origin shares the host", async () => {
  const frame = await framed(`${visitor.url}frame.html`, { sandbox: "allow-scripts allow-same-origin" });
  assert.equal(await chat(frame), "shared");
});

test("a sandboxed frame without an origin has its own engine", async () => {
  const frame = await framed(`${foreign.url}frame.html`, { sandbox: "allow-scripts" });
  assert.equal(await frame.evaluate(() => origin), "null");
  assert.equal(await chat(frame), "private");
  for (const host of SHARING) {
    const error = await frame.evaluate((options) => refused(options), { host });
    assert.equal(error.code, "no_host", host);
  }
});

test("frames of other origins, and without one, find no host that lives, none of its locks, nothing of its store", async () => {
  const own = await session.visitor();
  const tabs = [];
  for (const host of SHARING) tabs.push(...(await own.tabs(1, { host })));
  for (const [i, store] of ["cache", "opfs"].entries()) await tabs[i].load({ host: SHARING[i], store });
  const [first] = tabs;
  const before = await first.hosts();
  const held = await first.run("locks", async () => (await navigator.locks.query()).held.map(({ name }) => name));
  const locks = held.filter((name) => name.startsWith("tabloom"));
  for (const tab of tabs) {
    await tab.begin("kept", STORY.params);
    await tab.pieces("kept", 1);
  }
  const page = await own.context.newPage();
  const intruders = [
    await framed(`${foreign.url}frame.html`, { sandbox: "allow-scripts" }, page),
    await framed(`${foreign.url}frame.html`, {}, page),
    await framed(`${elsewhere(own.url)}frame.html`, {}, page),
  ];
  const nothing = { hosts: [], locks: [], caches: [], files: [] };
  const theirs = (names) => names.filter((name) => locks.includes(name));
  const owns = [];
  for (const frame of intruders) {
    const found = await within(
      "the intruder",
      frame.evaluate(([locks, worker]) => intrude(locks, worker), [locks, `${own.url}observed.js`]),
    );
    owns.push(found.hosts.length);
    assert.deepEqual({ ...found, hosts: theirs(found.hosts), locks: theirs(found.locks) }, nothing);
  }
  // A frame that has an origin may have a worker by that name, of its own.
  assert.deepEqual(owns, [0, 1, 0]);
  // A page of the site is answered meanwhile.
  await first.run("a join", async () => {
    const { connect } = await import("./hostile.js");
    (await connect("leader")).port.close();
  });
  for (const tab of tabs) assert.equal(text(await tab.answer("kept")), STORY.answer);
  for (const frame of intruders) assert.deepEqual(await frame.evaluate(() => heard()), []);
  assert.deepEqual(
    (await first.hosts()).map(({ id }) => id),
    before.map(({ id }) => id),
  );
  await own.close();
});
