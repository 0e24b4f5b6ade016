// <tabloom-chat> in WebKitGTK, under the policy of the demo page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "../browser.mjs";
import { goldens } from "../package.mjs";
import { policy, serve } from "../server.mjs";

const [FIRST, BETWEEN, SECOND] = goldens.find(({ messages }) => messages.length === 3).messages;
const { answer } = goldens.find(({ messages }) => messages.length === 3);

const HTML = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>A page with a chat</title>
<script src="violations.js"></script>
<script type="module" src="tabloom/element.js"></script>
<tabloom-chat id="kept" model="model/" device="cpu" temperature="0" storage="local"></tabloom-chat>`;

/** Runs in the page before the element's script. */
function watch() {
  globalThis.violations = [];
  document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
    violations.push(`${violatedDirective} ${blockedURI}`),
  );
}

let server;
let browser;
let page;

before(async () => {
  const files = { "chat.html": HTML, "violations.js": `(${watch})()` };
  server = await serve({ "": files }, { "content-security-policy": policy });
  browser = await launch();
  page = await browser.newPage();
  await page.goto(`${server.url}chat.html`);
});

after(async () => {
  await browser?.close();
  await server?.close();
});

/** Waits until the chat has so many messages and is not about to add to them; gives what they say. */
async function said(count) {
  await page.waitForFunction((count) => {
    const { state, messages } = /** @type {any} */ (document.querySelector("tabloom-chat"));
    return messages?.length === count && ["ready", "idle"].includes(state);
  }, count);
  return page.evaluate(() =>
    /** @type {any} */ (document.querySelector("tabloom-chat")).messages.map(({ content }) => content),
  );
}

test("questions are answered, by the button and by the keyboard", async () => {
  const input = page.locator("tabloom-chat textarea");
  await input.fill(FIRST.content);
  await page.locator("tabloom-chat .round[part~=send]").click();
  assert.deepEqual(await said(2), [FIRST.content, BETWEEN.content]);
  await input.fill(SECOND.content);
  await input.press("Enter");
  assert.deepEqual(await said(4), [FIRST.content, BETWEEN.content, SECOND.content, answer]);
  assert.equal(await page.locator("tabloom-chat .assistant .text").last().textContent(), answer);
  assert.deepEqual(await page.evaluate(() => violations), []);
});

test("the conversation is there after a reload", async () => {
  await page.reload();
  assert.deepEqual(await said(4), [FIRST.content, BETWEEN.content, SECOND.content, answer]);
  assert.equal(await page.locator("tabloom-chat .assistant .text").last().textContent(), answer);
});
