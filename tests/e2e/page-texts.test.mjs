// The language of a site's own page with the element.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "./browser.mjs";
import { serve } from "./server.mjs";

const SCRIPT = `import { TEXTS } from "./tabloom/element/parts.js";
import { languageOf, textsFor } from "./tabloom/element/texts/index.js";
globalThis.language = languageOf();
Object.assign(TEXTS, await textsFor());
await import("./tabloom/element.js");`;
const PAGE = `<!doctype html><html lang="en"><title>A page with a chat</title><link rel="icon" href="icon.svg">
<script type="module" src="chat.js"></script><tabloom-chat model="model/"></tabloom-chat>`;

let browser;
let server;

before(async () => {
  browser = await launch();
  server = await serve({ "": { "chat.html": PAGE, "chat.js": SCRIPT } });
});

after(async () => {
  await browser?.close();
  await server?.close();
});

for (const { locale, language, placeholder } of [
  { locale: "de-DE", language: "de", placeholder: "Frage stellen" },
  { locale: "pt-BR", language: "en", placeholder: "Ask anything" },
]) {
  test(`an element speaks its visitor's language, as far as it knows it: ${locale}`, async () => {
    const page = await (await browser.newContext({ locale })).newPage();
    const requests = [];
    page.on("request", (request) => requests.push(new URL(request.url()).pathname));
    await page.goto(`${server.url}chat.html`);
    await page.locator("tabloom-chat textarea").waitFor();
    assert.equal(await page.locator("tabloom-chat textarea").getAttribute("placeholder"), placeholder);
    assert.equal(await page.evaluate(() => globalThis.language), language);
    const tables = requests.filter((path) => /element\/texts\/\w\w\.js$/.test(path));
    assert.deepEqual(tables, language === "en" ? [] : [`/tabloom/element/texts/${language}.js`]);
    await page.context().close();
  });
}
