// Frames: where the browser lets a frame share nothing with others, it gets an engine of its own.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { FRANCE, open, policy, within } from "./tabs.mjs";

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

before(async () => {
  session = await open({}, { headers: { "content-security-policy": framing } });
  visitor = await session.visitor();
});

after(() => session?.close());

/** Shows `address` in a frame of a page of this site. */
async function framed(address, attributes = {}) {
  const page = await visitor.context.newPage();
  await page.goto(`${visitor.url}top.html`);
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

test("a sandboxed frame without an origin has its own engine", async (t) => {
  const other = await open({}, { headers: opaque });
  t.after(() => other.close());
  const frame = await framed(`${other.server.url}frame.html`, { sandbox: "allow-scripts" });
  assert.equal(await frame.evaluate(() => origin), "null");
  assert.equal(await chat(frame), "private");
});
