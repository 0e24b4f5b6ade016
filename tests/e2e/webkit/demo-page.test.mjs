// The demo page in WebKitGTK, where its model runs on the processor.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, waitUntil } from "../browser.mjs";
import { ANSWER, PROBLEM, VIEWS, loaded, say, view } from "../demo.mjs";
import { goldens } from "../package.mjs";
import { serve } from "../server.mjs";

const [FRANCE] = goldens;

let server;
let browser;
let page;

before(async () => {
  server = await serve({});
  browser = await launch();
  page = await browser.newPage();
  await page.goto(`${server.url}?temperature=0`);
});

after(async () => {
  await browser?.close();
  await server?.close();
});

async function asksAndHears() {
  await loaded(page);
  await view(page, "chat");
  await say(page, FRANCE.messages[0].content);
  await page.locator(ANSWER, { hasText: FRANCE.answer }).last().waitFor();
  assert.equal(await page.locator(PROBLEM).isVisible(), false);
}

test("a visitor asks, and the processor answers", async () => {
  await asksAndHears();
  assert.match(await page.locator("#adapter").textContent(), /no WebGPU.*on the processor/);
});

test("every view is there", async () => {
  for (const name of VIEWS) {
    await view(page, name);
    for (const other of VIEWS) assert.equal(await page.locator(`#${other}`).isVisible(), other === name, other);
  }
});

test("an answer keeps to a schema", async () => {
  await view(page, "playground");
  await page.locator("#play-run").click();
  await page.locator("#verdict.good").waitFor();
});

test("without a network the page, its engine and its model are there once they have been", async () => {
  await waitUntil(page, async () => (await navigator.serviceWorker.getRegistration())?.active?.state === "activated");
  await server.close();
  await page.reload();
  await asksAndHears();
});
