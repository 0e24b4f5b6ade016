// The web examples, as the demo's site serves them: each is asked and gives the reference's answer.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { launch, launchExtension } from "./browser.mjs";
import { goldens } from "./package.mjs";
import { serve } from "./server.mjs";

const [FRANCE] = goldens;
const QUESTION = FRANCE.messages[0].content;
const STORY = goldens.find((golden) => /story/.test(golden.messages[0].content));
const PATIENCE = 120_000;
/** What Chromium says when zod, in the AI SDK, tries whether the page's policy lets it compile code. */
const EVAL = /requires 'TrustedScript' assignment/;
const GREEDY = '{"do_sample": false}';

const root = fileURLToPath(new URL("../../", import.meta.url));
/** Those that have a test below. */
const tested = new Set();

let server;
let browser;
/** The visitor of all examples but those that want one of their own. */
let visitor;

before(async () => {
  server = await serve({ "model/": { "generation_config.json": GREEDY } });
  browser = await launch();
  visitor = await browser.newContext();
  // A tab that stays, and the engine with it: the examples share what it loads.
  const stays = await visitor.newPage();
  await stays.goto(`${server.url}examples/plain/`);
});

after(async () => {
  await browser?.close();
  await server?.close();
});

/** Tests an example: `use` gets its page, opened. */
function example(name, what, use) {
  tested.add(name);
  // This one shows all who share its engine.
  const alone = name === "many-tabs";
  test(`${name}: ${what}`, async () => {
    const context = alone ? await browser.newContext() : visitor;
    const [pages, problems] = [[], []];
    const open = async () => {
      const page = await context.newPage();
      pages.push(page);
      page.setDefaultTimeout(PATIENCE);
      page.on("pageerror", (error) => problems.push(`${error}`));
      page.on("console", (message) => {
        const known = name === "ai-sdk" && EVAL.test(message.text());
        if (message.type() === "error" && !known) problems.push(message.text());
      });
      await page.goto(`${server.url}examples/${name}/`);
      return page;
    };
    try {
      await use(await open(), open);
      assert.deepEqual(problems, []);
    } finally {
      for (const page of pages) await page.close();
      if (alone) await context.close();
    }
  });
}

/** Asks by keyboard, as soon as the page listens, and waits for an answer that ends as it should. */
async function ask(page, question, end) {
  const input = page.getByRole("textbox", { name: "Your question" });
  await input.waitFor();
  await page.waitForFunction(() => !document.forms.namedItem("form") || form.onsubmit);
  await input.fill(question);
  await input.press("Enter");
  if (end) await page.locator("#output", { hasText: end.slice(-20) }).waitFor();
}

example("plain", "asks when it is opened", async (page) => {
  await page.locator("#output", { hasText: FRANCE.answer }).waitFor();
  assert.equal(await page.locator("#output").textContent(), FRANCE.answer);
});

example("element", "loads when it is asked, and answers", async (page) => {
  const input = page.getByRole("textbox", { name: "Your message" });
  await input.fill(QUESTION);
  await input.press("Enter");
  await input.press("Enter");
  await page.locator("[part~=assistant]", { hasText: FRANCE.answer }).waitFor();
});

example("react", "chats, one question after another", async (page) => {
  await ask(page, STORY.messages[0].content);
  const log = page.getByRole("log");
  await log.getByText(STORY.answer).waitFor();
  await page.getByRole("button", { name: "Ask" }).and(page.locator(":enabled")).waitFor();
  await ask(page, QUESTION);
  await page.waitForFunction(() => document.querySelectorAll("li").length === 4);
  await page.getByRole("button", { name: "Ask" }).and(page.locator(":enabled")).waitFor();
  assert.deepEqual((await log.getByRole("listitem").allTextContents()).slice(0, 3), [
    STORY.messages[0].content,
    STORY.answer,
    QUESTION,
  ]);
  assert.notEqual(await log.getByRole("listitem").last().textContent(), "");
});

for (const name of ["openai-sdk", "ai-sdk"]) {
  example(name, "streams the engine's answer through the client", async (page) => {
    await ask(page, STORY.messages[0].content, STORY.answer);
    assert.equal(await page.locator("#output").textContent(), STORY.answer);
    const elsewhere = await page.evaluate(() =>
      performance
        .getEntriesByType("resource")
        .map(({ name }) => name)
        .filter((name) => !name.startsWith(origin)),
    );
    assert.deepEqual(elsewhere, []);
  });
}

example("structured-output", "shows an object of the schema", async (page) => {
  for (const question of ["Tell me about an animal.", "What is 27 + 15?"]) {
    await ask(page, question);
    await page.waitForFunction(() => output.rows.length > 0);
    const rows = await page.getByRole("row").allTextContents();
    assert.match(
      rows.join("\n"),
      /^animal(cat|dog|fox) \(string\)\nlegs[0-8] \(number\)\nwild(true|false) \(boolean\)$/,
    );
    await page.evaluate(() => output.replaceChildren());
  }
});

example("many-tabs", "shows who shares the engine, and answers both", async (first, open) => {
  await first.getByRole("row", { name: "1 (this one)" }).waitFor();
  assert.match(await first.locator("#host").textContent(), /all tabs share/);
  const second = await open();
  const named = (page) => page.locator("#tabs td:first-child").allTextContents();
  await second.getByRole("row", { name: "2 (this one)" }).waitFor();
  await first.waitForFunction(() => tabs.rows.length === 2);
  assert.deepEqual(await named(first), ["1 (this one)", "2"]);
  assert.deepEqual(await named(second), ["1", "2 (this one)"]);

  const asked = [first, second].map((page) => ask(page, STORY.messages[0].content, STORY.answer));
  await Promise.all(asked);
  for (const page of [first, second]) {
    assert.equal(await page.locator("#output").textContent(), STORY.answer);
  }
  await second.close();
  await first.waitForFunction(() => tabs.rows.length === 1);
});

tested.add("extension");
test("extension: the popup asks the background, whose engine is in an offscreen document", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tabloom-extension-"));
  try {
    const extension = join(folder, "extension");
    cpSync(join(root, "target/www/examples/extension"), extension, { recursive: true });
    writeFileSync(join(extension, "model/generation_config.json"), GREEDY);
    const { context, url } = await launchExtension(join(folder, "profile"), extension);
    try {
      const popup = await context.newPage();
      popup.setDefaultTimeout(PATIENCE);
      await popup.goto(`${url}popup.html`);
      await ask(popup, QUESTION, FRANCE.answer);
      assert.equal(await popup.locator("#output").textContent(), FRANCE.answer);
      await popup.close();

      // The engine has stayed: another popup has nothing to load.
      const again = await context.newPage();
      await again.goto(`${url}popup.html`);
      await ask(again, STORY.messages[0].content, STORY.answer);
      assert.equal(await again.locator("#output").textContent(), STORY.answer);
    } finally {
      await context.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("every example has a test here, and is in the list of examples", async () => {
  const entries = readdirSync(join(root, "examples/web"), { withFileTypes: true });
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  assert.deepEqual([...tested].sort(), folders.sort());
  const list = readFileSync(join(root, "examples/README.md"), "utf8");
  assert.deepEqual(
    folders.filter((name) => !list.includes(`(web/${name})`)),
    [],
  );
});
