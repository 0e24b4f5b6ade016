// The models of the demo page: which it offers, which it comes back with, and how far one is loaded.
import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { after, before, test } from "node:test";
import { launch, testBeyondFirefox, url } from "./browser.mjs";
import { INPUT, PROBLEM, ask, loaded, open, ready, view } from "./demo.mjs";
import { modelFile, modelFolder, serve } from "./server.mjs";
import { SUGGESTED } from "../../www/suggested.js";

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

/** Keeps a whole model at an address, as far as lists of models are concerned. */
const store = (page, address) =>
  page.evaluate(async (address) => {
    const cache = await caches.open("tabloom");
    const record = { chunk_bytes: 8, chunks: ["x"], bytes: 8, is_sealed: true };
    await cache.put(`${address}config.json?tabloom`, new Response(JSON.stringify(record)));
    await cache.put(`${address}config.json?tabloom=0`, new Response("12345678"));
  }, address);

test("a better model that is on the device is offered as that, also without a network", async () => {
  const { page } = await open(await browser.newContext(), `${url}sw.js`);
  const { name, address } = SUGGESTED.find(({ name }) => name === "SmolLM2 360M Instruct");
  await store(page, address);
  await page.goto(`${url}?device=cpu`);
  await page.locator("#get-better").click();
  const choice = page.locator("#upgrades li", { hasText: name });
  assert.match(await choice.textContent(), /Recommended for this device.*On this device; [\d.]+ [MG]B of memory;/);
  assert.doesNotMatch(await choice.textContent(), /download|min at|Fits/);
  assert.ok(await choice.getByRole("radio").isChecked());
  assert.ok((await page.locator("#upgrades li", { hasText: "to download" }).count()) > 1);
  await page.keyboard.press("Escape");

  await page.locator("#choose").click();
  const kept = page.locator("#kept li", { hasText: "SmolLM2-360M-Instruct" });
  await kept.filter({ hasText: "Recommended for this device: 8 B, kept on this device" }).waitFor();
  assert.equal(await page.locator("#picker li", { hasText: "Recommended" }).count(), 1);
  const far = page.locator("#suggested button:enabled");
  assert.ok((await far.count()) > 1);
  await page.context().setOffline(true);
  await page.locator("#room", { hasText: "There is no network now: only what is kept can be loaded." }).waitFor();
  await far.first().waitFor({ state: "detached" });
  assert.ok(await kept.getByRole("button", { name: "Load" }).isEnabled());
  await page.keyboard.press("Escape");

  await page.locator("#get-better").click();
  await choice.waitFor();
  assert.equal(await page.locator("#upgrades li").count(), 1);
  await page.context().close();
});

test("both dialogs in which a model is chosen say where it will run", async () => {
  const { page } = await open(browser, `${url}?model=nowhere/`);
  await page.locator(PROBLEM).waitFor();
  const hasText = "Models run on the processor here";
  await page.locator("#choose").click();
  await page.locator("#room", { hasText }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator("#get-better").dispatchEvent("click");
  await page.locator("#slow", { hasText }).waitFor();
  await page.close();
});

test("who wants the processor beside a GPU is offered what suits it", async () => {
  const context = await browser.newContext();
  await context.addInitScript(() => {
    const { prototype } = /** @type {any} */ (globalThis).GPUAdapterInfo;
    for (const name of ["vendor", "architecture", "device", "description"]) {
      Object.defineProperty(prototype, name, { value: "real" });
    }
    Object.defineProperty(prototype, "isFallbackAdapter", { value: false });
  });
  const { page } = await ready(context, `${url}?device=cpu`);
  await page.locator("#get-better").click();
  await page.locator("#slow", { hasText: "Models run on the processor here" }).waitFor();
  assert.equal(await page.locator("#upgrades li", { hasText: "graphics card" }).count(), 0);
  await context.close();
});

test("a name that the hub does not know is told as it was written, and apart from a failing network", async () => {
  const { page } = await ready(await browser.newContext(), `${url}?device=cpu`);
  const problem = page.locator(PROBLEM);
  const use = async (model) => {
    await page.locator("#choose").click();
    await page.locator("#address").fill(model);
    await page.keyboard.press("Enter");
  };
  const headers = { "access-control-allow-origin": "*" };
  for (const status of [401, 404]) {
    await page.route("https://huggingface.co/**", (route) => route.fulfill({ status, headers }));
    await use("no-such/model");
    await problem.filter({ hasText: "“no-such/model” was not found, or is not public. Check the name." }).waitFor();
    await problem.getByRole("button", { name: "Choose another model" }).waitFor();
    await page.getByRole("button", { name: "Dismiss" }).click();
    await page.unroute("https://huggingface.co/**");
  }
  await page.route("https://huggingface.co/**", (route) => route.abort());
  await use("no-such/model");
  await problem
    .filter({ hasText: "“no-such/model” could not be fetched. Check your connection and the name" })
    .waitFor();
  await problem.getByRole("button", { name: "Try again" }).waitFor();
  await page.context().close();
});

testBeyondFirefox("folders")(
  "of a model that was on this device a reload says that it has to be chosen again",
  async () => {
    const folder = await modelFolder();
    const { page } = await ready(await browser.newContext(), `${url}?device=cpu`);
    const name = folder.split("/").at(-1);
    await page.locator("#folder").setInputFiles(folder);
    await loaded(page, name);
    await ask(page, "What is the capital of France?");
    const notice = page.locator("#conversation [part=notice]");
    assert.equal(await notice.isVisible(), false);
    await page.reload();
    await notice
      .filter({ hasText: `“${name}” was opened from this device. Choose it again to go on with it.` })
      .waitFor();
    assert.equal(await page.locator("#conversation article").count(), 2, "the conversation is there");
    await ask(page, "What is 17 + 25?");
    assert.equal(await notice.isVisible(), false);
    await page.reload();
    await loaded(page);
    assert.equal(await notice.isVisible(), false, "it is said once");
    await page.context().close();
    await rm(folder, { recursive: true });
  },
);

test("who has chosen a model finds it again while it is on the device, unless the page may have died of it", async () => {
  const weights = await modelFile("model.safetensors");
  const half = (response) => {
    response.writeHead(200, { "content-length": weights.length });
    response.write(weights.subarray(0, weights.length / 2));
  };
  const server = await serve({ "models/half/": { "model.safetensors": half } });
  const address = `${server.url}?device=cpu`;
  const { page } = await ready(await browser.newContext(), address);
  const context = page.context();
  const use = async (model) => {
    await page.locator("#choose").click();
    await page.locator("#address").fill(model);
    await page.keyboard.press("Enter");
  };
  /** What another page, or this one again, comes with. */
  const found = async (page) => {
    await loaded(page);
    return page.locator("#model-name").textContent();
  };
  const another = async () => {
    const { page } = await open(context, address);
    const name = await found(page);
    await page.close();
    return name;
  };
  await use("models/own/");
  await loaded(page, "own");
  const asked = server.requests.length;
  await page.reload();
  assert.equal(await found(page), "own");
  assert.deepEqual(
    server.requests.slice(asked).filter((path) => /^model.*safetensors$/.test(path)),
    [],
    "it is downloaded again",
  );
  // While another is loaded the page may die of it.
  await use("models/half/");
  await page.locator("#switching-part", { hasText: "MB" }).waitFor();
  assert.equal(await another(), "Built-in model");
  await page.locator("#cancel-switch").click();
  assert.equal(await another(), "own");
  // An address that names a model is no choice.
  const { page: named } = await ready(context, `${address}&model=model/`);
  await named.close();
  assert.equal(await another(), "own");
  await page.locator("#choose").click();
  await page.getByRole("button", { name: "Delete own" }).click();
  await page.getByRole("button", { name: "Delete own" }).waitFor({ state: "detached" });
  await page.reload();
  assert.equal(await found(page), "Built-in model");
  await context.close();
  await server.close();
});

test("a model that is left frees its memory, and takes its figures with it", async () => {
  const server = await serve({});
  const { page } = await ready(await browser.newContext(), `${server.url}?device=cpu`);
  await ask(page, "What is the capital of France?");
  await page.locator("#speed", { hasText: "tokens/s" }).waitFor();
  await view(page, "engine");
  const memory = page.locator("#panel").getByText(/Memory for models: [1-9]/);
  const before = await memory.textContent();
  await page.locator("#choose").click();
  await page.locator("#address").fill("models/other/");
  await page.keyboard.press("Enter");
  await loaded(page, "other");
  await page.locator("#panel").getByText(before, { exact: true }).waitFor();
  await page.locator("#tab-chat").click();
  assert.doesNotMatch(await page.locator("#speed").textContent(), /tokens/);
  await page.context().close();
  await server.close();
});

test("what is suggested is in the visitor's language, but for the built-in model, which knows English alone", async () => {
  const server = await serve({});
  const { page } = await ready(await browser.newContext({ locale: "de-DE" }), `${server.url}?device=cpu`);
  const suggested = () =>
    page.locator("#suggestions").evaluate((/** @type {HTMLElement} */ place) => [place.lang, place.textContent]);
  const [language, text] = await suggested();
  assert.equal(language, "en");
  assert.match(text, /What is the capital of France\?/);
  await page.goto(`${server.url}?device=cpu&model=models/own/`);
  await loaded(page);
  const [other, german] = await suggested();
  assert.equal(other, "de");
  assert.match(german, /Was ist die Hauptstadt von Frankreich\?/);
  await page.context().close();
  await server.close();
});

test("times are told by the last download, not by what is read from the device", async () => {
  const server = await serve({});
  const { page } = await open(await browser.newContext(), `${server.url}sw.js`);
  await page.evaluate(() => localStorage.setItem("tabloom-rate", "1"));
  const rate = async () => {
    await loaded(page);
    return page.evaluate(() => Number(localStorage.getItem("tabloom-rate")));
  };
  await page.goto(`${server.url}?device=cpu`);
  const first = await rate();
  assert.ok(first > 1000, `${first} bytes/s`);
  await page.reload();
  assert.equal(await rate(), first);
  await page.locator("#choose").click();
  await page.locator("#address").fill("models/another/");
  await page.keyboard.press("Enter");
  await loaded(page, "another");
  assert.notEqual(await rate(), first);
  await page.context().close();
  await server.close();
});

test("times are rounded to what one would say, and never by half", async () => {
  const { page } = await open(browser, `${url}sw.js`);
  const told = await page.evaluate(async () => {
    const { duration } = await import("/format.js");
    return [0.2, 7.2, 14, 58, 65.7, 94, 96, 149, 151].map(duration);
  });
  assert.deepEqual(told, ["1 sec", "8 sec", "10 sec", "60 sec", "70 sec", "90 sec", "2 min", "2 min", "3 min"]);
  await page.close();
});

test("how far a model is loaded is the same number in all places, and never falls within one word", async () => {
  const { page } = await open(browser, `${url}?device=cpu`);
  const told = await page.evaluate(async () => {
    const [{ Picker }, { showSwitching }, { View }] = await Promise.all(
      ["/picker.js", "/switching.js", "/tabloom/element/view/view.js"].map((path) => import(path)),
    );
    const host = document.createElement("div");
    const view = new View(host.attachShadow({ mode: "open" }), /** @type {any} */ ({ engine: () => null }));
    const loader = Object.assign(new EventTarget(), { current: null, name: "a", next: "b", progress: null });
    new Picker(loader, /** @type {any} */ ({}));
    showSwitching(loader);
    const texts = [];
    for (const [stage, share] of /** @type {[string, number][]} */ ([
      ["download", 0.4567],
      ["download", 0.9999],
      ["compile", 0.2999],
      ["compile", 0.9999],
    ])) {
      loader.progress = { stage, loaded: share * 5_300_000, total: 5_300_000 };
      loader.dispatchEvent(new Event("progress"));
      view.progress(loader.progress);
      const said = (root, selector) => root.querySelector(selector).textContent;
      // What writes it in the chat is loaded on demand.
      const isWritten = () => said(host.shadowRoot, ".status span + span") === said(document, "#switching-part");
      for (let tries = 0; tries < 100 && !isWritten(); tries++) await new Promise((then) => setTimeout(then, 20));
      texts.push([
        said(document, "#model-size"),
        said(document, "#switching-part"),
        said(host.shadowRoot, ".status span + span"),
        host.shadowRoot.querySelector(".track").getAttribute("aria-valuenow"),
      ]);
    }
    return texts;
  });
  assert.deepEqual(told, [
    ["loading 45%", "2.4 / 5.3 MB", "2.4 / 5.3 MB", "45"],
    ["loading 99%", "5.3 / 5.3 MB", "5.3 / 5.3 MB", "99"],
    ["preparing", "29%", "29%", "29"],
    ["preparing", "99%", "99%", "99"],
  ]);
  await page.close();
});

test("a model without a chat template is told as that before anything is asked", async () => {
  const { chat_template, ...rest } = JSON.parse(`${await modelFile("tokenizer_config.json")}`);
  assert.ok(chat_template);
  const server = await serve({ "models/base/": { "tokenizer_config.json": JSON.stringify(rest) } });
  const { page } = await ready(await browser.newContext(), `${server.url}?device=cpu&model=models/base/`);
  const problem = page.locator(PROBLEM, { hasText: "The model is not made for chats" });
  await problem.waitFor();
  await page.locator(INPUT).fill("What is written stays.");
  await page.getByRole("button", { name: "Choose another model" }).click();
  await page.getByRole("button", { name: "Load Built-in model" }).click();
  await problem.waitFor({ state: "hidden" });
  assert.equal(await page.locator(INPUT).inputValue(), "What is written stays.");

  await page.locator("#choose").click();
  await page.locator("#address").fill("models/base/");
  await page.keyboard.press("Enter");
  await problem.waitFor();
  await page.context().close();
  await server.close();
});
