// The demo page beyond a question and its answer: what is kept, changed, measured, and how it looks and
// works for everybody.
import assert from "node:assert/strict";
import { readFile, rm } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { brotliCompressSync, constants } from "node:zlib";
import { ADAPTER, allowClipboard, launch, noteWarnings, saved, testBeyondFirefox, url, waitUntil } from "./browser.mjs";
import { INPUT, MESSAGES, PROBLEM, SEND, STOP, VIEWS } from "./demo.mjs";
import { ask, answered, begin, keep, loaded, open, ready, say, view } from "./demo.mjs";
import { FIREFOX } from "./firefox.mjs";
import { holdAnswers, releaseAnswers } from "./hold.mjs";
import { goldens } from "./package.mjs";
import { modelFile, modelFolder, serve } from "./server.mjs";

const [FRANCE] = goldens;
const QUESTION = FRANCE.messages[0].content;
const STORY = "Tell me a story about a fox.";
/** Most of the page is the same on the CPU, which compiles no pipelines. */
const address = `${url}?temperature=0&device=cpu`;

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

/** What is said, as it is shown. */
const said = (page) => page.locator(`${MESSAGES} .text`).allTextContents();
/** The names of the conversations that are kept. */
const titles = (page) => page.locator("#conversation-list .title > span:first-child").allTextContents();
/** Opens the menu of the conversation in this place of the list, and chooses from it. */
const choose = async (page, i, name) => {
  await page.locator("#conversation-list .icon").nth(i).click();
  await page.getByRole("menuitem", { name }).click();
};
/** Waits until the last answer is kept as it is shown. */
const kept = (page) =>
  waitUntil(page, async () => {
    const request = indexedDB.open("tabloom-demo");
    await new Promise((done) => (request.onsuccess = done));
    const all = request.result.transaction("conversations").objectStore("conversations").getAll();
    await new Promise((done) => (all.onsuccess = done));
    request.result.close();
    const shown = shadow(".assistant .text").at(-1).textContent;
    return all.result.some(({ messages }) => messages.at(-1).content.trim() === shown);
  });
/** Waits until a page that notes its warnings has had one that says this. */
const warning = (page, text) =>
  page.waitForFunction((text) => warned.some((told) => new RegExp(text).test(told)), text.source);
/** Whether the end of an element is in the window, and nothing lies over it. */
const inSight = (place) =>
  place.evaluate((element) => {
    const root = /** @type {ShadowRoot} */ (element.getRootNode());
    const { left, width, bottom } = element.getBoundingClientRect();
    return element.contains(root.elementFromPoint(left + width / 2, bottom - 1));
  });
/** A page in a context of its own. */
const fresh = async (options = {}) => ready(await browser.newContext(options), address);

describe("a first visit on a phone", () => {
  const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true };

  test("fetches little before the model, and nothing that only one view needs", async () => {
    const server = await serve({});
    const { page } = await ready(await browser.newContext(PHONE), `${server.url}?device=cpu`);
    const model = server.requests.findIndex((path) => path.startsWith("model/"));
    const early = server.requests.slice(0, model);
    assert.ok(early.length <= 40, `${early.length} requests: ${early.join(" ")}`);
    assert.deepEqual(
      early.filter((path) => /playground|bench|panel|language-model|code|math/.test(path)),
      [],
    );
    // Nor does another module have it.
    const scripts = early.filter((path) => path.endsWith(".js"));
    const texts = await Promise.all(scripts.map(async (path) => (await fetch(`${url}${path}`)).text()));
    for (const id of ["bench-peers", "play-stop", "tab-2"]) {
      assert.deepEqual(
        scripts.filter((_, i) => texts[i].includes(id)),
        [],
        id,
      );
    }
    const weigh = async (path) => {
      const response = await fetch(`${url}${path}`);
      const params = { [constants.BROTLI_PARAM_QUALITY]: 5 };
      return brotliCompressSync(new Uint8Array(await response.arrayBuffer()), { params }).length;
    };
    const bytes = (await Promise.all(early.map(weigh))).reduce((sum, some) => sum + some, 0);
    assert.ok(bytes <= 1_200_000, `${bytes} bytes`);
    await page.context().close();
    await server.close();
  });

  testBeyondFirefox("shifts")("nothing jumps while it loads and first answers", async () => {
    const context = await browser.newContext(PHONE);
    await context.addInitScript(noteShifts);
    const { page } = await ready(context, address);
    await ask(page, QUESTION);
    await page.waitForTimeout(500);
    const shift = await page.evaluate(() => shifted);
    assert.ok(shift < 0.05, `a layout shift of ${shift}`);
    await context.close();
  });

  testBeyondFirefox("shifts")(
    "nothing jumps where it turns out late that there is no GPU, which is told in sight",
    async () => {
      const without = await launch({ webgpu: false });
      const context = await without.newContext(PHONE);
      await context.addInitScript(noteShifts);
      await context.addInitScript(() =>
        Object.defineProperty(Navigator.prototype, "gpu", { value: { requestAdapter: async () => null } }),
      );
      const { page } = await ready(context, `${url}?temperature=0`);
      const told = page.locator("#adapter", { hasText: "This browser offers no WebGPU" });
      await told.waitFor();
      const { y, height } = await told.boundingBox();
      assert.ok(y + height < (await page.locator(INPUT).boundingBox()).y, "it is in sight");
      const shift = await page.evaluate(() => shifted);
      assert.ok(shift < 0.05, `a layout shift of ${shift}`);
      await without.close();
    },
  );
});

/** Runs in a page before its own scripts: adds up how far what is shown jumps, in `shifted`. */
function noteShifts() {
  globalThis.shifted = 0;
  const add = (/** @type {any[]} */ shifts) => {
    for (const { value, hadRecentInput } of shifts) if (!hadRecentInput) shifted += value;
  };
  new PerformanceObserver((list) => add(list.getEntries())).observe({ type: "layout-shift", buffered: true });
}

/** Runs in a page before its own scripts: while it is `deaf`, it does not hear what other tabs have changed. */
function deafen() {
  const onmessage = Object.getOwnPropertyDescriptor(BroadcastChannel.prototype, "onmessage");
  Object.defineProperty(BroadcastChannel.prototype, "onmessage", {
    ...onmessage,
    set(listener) {
      onmessage.set.call(this, (event) => {
        if (!globalThis.deaf || this.name !== "tabloom-demo") listener(event);
      });
    },
  });
}

describe("conversations", () => {
  let page;
  let problems;

  before(async () => ({ page, problems } = await fresh()));

  after(() => page?.context().close());

  test("one is there after a reload, and in the list", async () => {
    await ask(page, QUESTION);
    await page.locator("#conversation-list .title").waitFor();
    await page.reload();
    await page.locator(`${MESSAGES}.assistant`).waitFor();
    assert.deepEqual(await said(page), [QUESTION, FRANCE.answer]);
    assert.deepEqual(await titles(page), [QUESTION]);
    await loaded(page);
    const spoken = await page.evaluate(() => seen.spoken.join(" "));
    assert.ok(!spoken.includes(FRANCE.answer), "what was said before is not read out");
  });

  test("New chat leaves the others; each opens again", async () => {
    await page.locator("#clear").click();
    assert.deepEqual(await said(page), []);
    await page.locator("#search").fill("zebra");
    await ask(page, "What is 17 + 25?");
    // One that begins ends the search, which would hide it.
    await page.locator("#conversation-list li").nth(1).waitFor();
    assert.equal(await page.locator("#search").inputValue(), "");
    assert.deepEqual(await titles(page), ["What is 17 + 25?", QUESTION]);
    await page.locator("#conversation-list .title", { hasText: QUESTION }).click();
    await page.locator(MESSAGES, { hasText: "Paris" }).waitFor();
    assert.deepEqual(await said(page), [QUESTION, FRANCE.answer]);
  });

  test("an earlier question is edited; what was said before stays as a version", async () => {
    await ask(page, "What is 17 + 25?");
    const before = await said(page);
    assert.equal(before.length, 4);
    const edit = page.getByRole("button", { name: "Edit question" }).first();
    await page.locator(INPUT).fill("a draft");
    await edit.click();
    assert.equal(await page.locator(INPUT).inputValue(), QUESTION);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(INPUT).inputValue(), "a draft");
    await page.locator(INPUT).fill("");
    await edit.click();
    assert.ok(await page.locator("#conversation [part=editing]").isVisible());
    await ask(page, goldens[1].messages[0].content);
    assert.deepEqual(await said(page), [goldens[1].messages[0].content, goldens[1].answer]);
    await page.getByRole("button", { name: "Previous version" }).click();
    assert.deepEqual(await said(page), before);
    await page.getByRole("button", { name: "Next version" }).click();
    assert.deepEqual(await said(page), [goldens[1].messages[0].content, goldens[1].answer]);
  });

  test("an answer is made anew, by the same settings the same; both stay after a reload", async () => {
    await page.getByRole("button", { name: "Regenerate" }).last().click();
    assert.equal(await answered(page), goldens[1].answer);
    const versions = page.locator(`${MESSAGES}.assistant .versions`);
    assert.equal(await versions.textContent(), "2/2");
    await page.waitForTimeout(200);
    await page.reload();
    await versions.waitFor();
    assert.equal(await versions.textContent(), "2/2");
    await loaded(page);
  });

  test("an answer is copied", async () => {
    await allowClipboard(page);
    await page.getByRole("button", { name: "Copy answer" }).click();
    await page.locator("#conversation .foot > [aria-live]", { hasText: "Copied" }).waitFor({ state: "attached" });
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), goldens[1].answer);
    await page.getByRole("button", { name: "Copy question" }).click();
    const question = goldens[1].messages[0].content;
    await waitUntil(page, async (question) => (await navigator.clipboard.readText()) === question, question);
  });

  test("one that was stopped is kept with what there is of it", async () => {
    await page.locator("#clear").click();
    await begin(page, STORY);
    await page.locator(STOP).click();
    const part = await answered(page);
    await page.locator("#conversation-list li").nth(2).waitFor();
    await page.reload();
    await page.locator("#conversation .note", { hasText: "Stopped" }).waitFor();
    assert.deepEqual(await said(page), [STORY, part]);
    await loaded(page);
  });

  test("who leaves in the middle of an answer is told that it goes on, and finds it", async () => {
    const title = page.locator("#conversation-list .title", { hasText: STORY }).first();
    const told = (text) => page.locator("#said", { hasText: text }).waitFor();
    await page.locator("#clear").click();
    await begin(page, STORY);
    await page.locator("#clear").click();
    await told(`“${STORY}” is still being answered.`);
    await title.filter({ hasText: "being answered" }).waitFor();
    assert.deepEqual(await said(page), []);

    // Whoever comes back finds it being written, and can name it, leave it again, or stop it.
    await title.click();
    const [question, part] = await said(page);
    assert.equal(question, STORY);
    assert.match(part, /^Once upon a/);
    assert.ok(await page.locator(STOP).isVisible());
    await title.filter({ hasText: "being answered" }).waitFor({ state: "detached" });
    await page.locator("#clear").click();
    await title.filter({ hasText: "being answered" }).waitFor();
    const count = (await titles(page)).length;
    await choose(page, 0, "Pin");
    await page.locator("#conversation-list .title", { hasText: `★ ${STORY}` }).waitFor();

    // Another is answered meanwhile.
    assert.equal(await ask(page, QUESTION), FRANCE.answer);
    await told(`“${STORY}” has been answered.`);
    await title.filter({ hasText: "being answered" }).waitFor({ state: "detached" });
    assert.equal((await titles(page)).length, count + 1);
    await choose(page, 1, "Delete");
    await page.locator("#said", { hasText: "Deleted" }).waitFor();
    await title.click();
    await page.locator(MESSAGES, { hasText: part }).waitFor();
    const whole = (await said(page))[1];
    assert.ok(whole.startsWith(part) && whole.length > part.length, whole);
    assert.equal(await page.locator("#conversation .note").last().isVisible(), false);
    await choose(page, 0, "Delete");
    await page.locator("#said", { hasText: "Deleted" }).waitFor();

    // What is deleted is not answered any more.
    await begin(page, STORY);
    await page.locator("#clear").click();
    await title.filter({ hasText: "being answered" }).waitFor();
    await choose(page, 0, "Delete");
    await page.locator("#undo").click();
    await title.click();
    await page.locator("#conversation .note", { hasText: "Stopped" }).waitFor();
    assert.match((await said(page))[1], /^Once upon a/);
    await choose(page, 0, "Delete");
    await page.locator("#said", { hasText: "Deleted" }).waitFor();
    await releaseAnswers(page);
  });

  test("what is not asked yet stays with its conversation, also over a reload; a new one begins empty", async () => {
    const input = page.locator(INPUT);
    const chips = page.locator("#conversation [part=attachment]");
    const open = async (title) => {
      await page.locator("#conversation-list .title", { hasText: title }).first().click();
      await page.locator(`${MESSAGES}.user`, { hasText: title }).waitFor();
    };
    await page.locator("#clear").click();
    assert.equal(await input.inputValue(), "");
    await ask(page, QUESTION);
    await input.fill("And of Spain?");
    await drop(page, "#conversation .log", [["notes.txt", "The fox is red."]]);
    await chips.waitFor();
    await page.locator("#clear").click();
    assert.equal(await input.inputValue(), "");
    assert.equal(await chips.count(), 0);
    await ask(page, "What is the opposite of hot?");
    await input.fill("And of cold?");
    await page.locator("#clear").click();
    await input.fill("A new one");
    await open(QUESTION);
    assert.equal(await input.inputValue(), "And of Spain?");
    assert.equal(await chips.count(), 1);
    await page.reload();
    await page.locator(MESSAGES).first().waitFor();
    await chips.waitFor();
    assert.equal(await input.inputValue(), "And of Spain?");
    await open("What is the opposite of hot?");
    assert.equal(await input.inputValue(), "And of cold?");
    assert.equal(await chips.count(), 0);
    // What was begun in a new one is there in the next, once.
    await page.locator("#clear").click();
    assert.equal(await input.inputValue(), "A new one");
    await loaded(page);
    await ask(page, "What is 2 + 2?");
    await page.locator("#clear").click();
    assert.equal(await input.inputValue(), "");
    for (let i = 0; i < 2; i++) {
      await choose(page, 0, "Delete");
      await page.locator("#said", { hasText: "Deleted" }).waitFor();
    }
    await open(QUESTION);
    await input.fill("");
    await page.getByRole("button", { name: "Remove notes.txt" }).click();
    await choose(page, 0, "Delete");
    await page.locator("#said", { hasText: "Deleted" }).waitFor();
  });

  test("a question that is being edited still is after another conversation and after a reload", async () => {
    const input = page.locator(INPUT);
    await page.locator("#clear").click();
    await ask(page, QUESTION);
    await input.fill("And of Spain?");
    await page.getByRole("button", { name: "Edit question" }).click();
    await input.fill("What is the capital of Italy?");
    await page.locator("#clear").click();
    assert.equal(await input.inputValue(), "");
    await page.locator("#conversation-list .title", { hasText: QUESTION }).first().click();
    const note = page.locator("#conversation [part=editing]");
    await note.waitFor();
    assert.equal(await input.inputValue(), "What is the capital of Italy?");
    await page.reload();
    await note.waitFor();
    assert.equal(await input.inputValue(), "What is the capital of Italy?");
    await loaded(page);
    await ask(page, "What is the capital of Italy?");
    assert.equal(await page.locator(`${MESSAGES}.user .versions`).textContent(), "2/2");
    assert.equal(await input.inputValue(), "And of Spain?");
    await input.fill("");
    await choose(page, 0, "Delete");
    await page.locator("#said", { hasText: "Deleted" }).waitFor();
  });

  test("an answer that a reload interrupts is kept as far as it was, and so is what is not asked yet", async () => {
    await page.locator("#clear").click();
    await begin(page, STORY);
    await page.locator(INPUT).fill("And then?");
    await page.waitForTimeout(1500);
    await page.reload();
    await page.locator(`${MESSAGES}.assistant`).waitFor();
    const [question, part] = await said(page);
    assert.equal(question, STORY);
    assert.ok(part.startsWith("Once upon a"), part);
    assert.equal(await page.locator(INPUT).inputValue(), "And then?");
    await loaded(page);
    await page.locator(INPUT).fill("");
    await choose(page, 0, "Delete");
  });

  test("a reload in the middle of an answer loses nothing that was shown, even if the database is slow", async () => {
    await page.locator("#clear").click();
    await begin(page, STORY);
    await kept(page);
    await page.evaluate(() => {
      // From here on the database is too slow for all that comes.
      IDBObjectStore.prototype.put = () => {
        throw new DOMException("No.", "QuotaExceededError");
      };
      addEventListener("pagehide", () =>
        sessionStorage.setItem("shown", shadow(".assistant .text").at(-1).textContent),
      );
    });
    await holdAnswers(page, 80);
    await page.waitForFunction(() => shadow(".assistant .text").at(-1).textContent.length >= 80);
    await page.reload();
    const shown = await page.evaluate(() => sessionStorage.getItem("shown"));
    assert.ok(shown.length >= 80, shown);
    await page.locator(`${MESSAGES}.assistant`).waitFor();
    const [, part] = await said(page);
    assert.ok(part.startsWith(shown), `${part} for ${shown}`);
    await page.locator("#conversation .note", { hasText: "Stopped" }).waitFor();
    await loaded(page);
    const [title] = await titles(page);
    assert.equal(title, STORY);
    // A page that comes back from being left may delete what it kept then.
    await begin(page, STORY);
    await kept(page);
    const left = () => page.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith("tabloom-left")));
    await page.evaluate(() => dispatchEvent(new Event("pagehide")));
    assert.equal((await left()).length, 1);
    await page.evaluate(() => dispatchEvent(new Event("pageshow")));
    await page.locator(STOP).click();
    await answered(page);
    await choose(page, 0, "Delete");
    await page.locator("#said", { hasText: "Deleted" }).waitFor();
    assert.deepEqual(await left(), []);
  });

  test("one is renamed, pinned, saved as JSON, deleted and brought back", async () => {
    // What was deleted before is not offered any more.
    await page.reload();
    await loaded(page);
    await choose(page, 0, "Rename");
    await page.keyboard.type("A fox");
    await page.keyboard.press("Enter");
    await page.locator("#conversation-list .title", { hasText: "A fox" }).waitFor();
    await page.locator("#conversation-list .icon").first().click();
    const { name, content } = await saved(page, page.getByRole("menuitem", { name: "Save as JSON" }));
    assert.equal(name, "A-fox.json");
    assert.deepEqual(
      content.messages.map(({ role }) => role),
      ["user", "assistant"],
    );
    assert.equal(content.messages[0].content, STORY);
    assert.equal(content.model, "Built-in model");

    await choose(page, 2, "Pin");
    await page.locator("#conversation-list .title", { hasText: "★" }).waitFor();
    assert.match((await titles(page))[0], /^★/);
    await choose(page, 0, "Unpin");
    await page.locator("#conversation-list .title", { hasText: "★" }).waitFor({ state: "detached" });

    const i = (await titles(page)).indexOf("A fox");
    await page.locator("#conversation-list .title").nth(i).click();
    await page.locator(MESSAGES).first().waitFor();
    await choose(page, i, "Delete");
    await page.locator("#said", { hasText: /A fox/ }).waitFor();
    assert.equal((await titles(page)).includes("A fox"), false);
    assert.deepEqual(await said(page), []);
    // Looking around takes nothing away.
    await page.locator("#conversation-list .title").first().click();
    await page.locator(MESSAGES).first().waitFor();
    await page.locator("#clear").click();
    await page.locator("#undo").click();
    await page.locator("#conversation-list [aria-current=true]", { hasText: "A fox" }).waitFor();
    assert.equal((await said(page))[0], STORY, "what was open is open again");
    assert.deepEqual(problems, []);
  });

  test("what is saved as Markdown can be read, and what is saved as JSON is imported as it was", async () => {
    const i = (await titles(page)).indexOf("A fox");
    await page.locator("#conversation-list .title").nth(i).click();
    const [question, answer] = await said(page);
    const save = async (name) => {
      await page.locator("#conversation-list .icon").nth(i).click();
      return saved(page, page.getByRole("menuitem", { name }));
    };
    const { name, content: markdown } = await save("Save as Markdown");
    assert.equal(name, "A-fox.md");
    const pieces = markdown.split(/\n+/).filter(Boolean);
    assert.deepEqual(pieces.slice(0, 4), ["# A fox", "**You**", question, "**Assistant**"]);
    assert.ok(markdown.includes(answer.trim().split("\n")[0]), markdown);

    const { content } = await save("Save as JSON");
    const copy = { name: "copy.json", mimeType: "application/json" };
    const buffer = Buffer.from(JSON.stringify({ ...content, title: "A copy" }));
    await page.locator("#import-file").setInputFiles({ ...copy, buffer });
    await page.locator("#conversation-list [aria-current=true]", { hasText: "A copy" }).waitFor();
    assert.deepEqual(await said(page), [question, answer]);
    const at = (await titles(page)).indexOf("A copy");
    await page.locator("#conversation-list .icon").nth(at).click();
    const again = await saved(page, page.getByRole("menuitem", { name: "Save as JSON" }));
    const { title, changed } = content;
    assert.deepEqual({ ...again.content, title, changed }, { pinned: false, ...content });
    await choose(page, at, "Delete");
    await page.locator("#conversation-list .title", { hasText: "A copy" }).waitFor({ state: "detached" });
    await page.reload();
    await loaded(page);
  });

  test("what is deleted one after the other is brought back together", async () => {
    const before = await titles(page);
    assert.ok(before.length > 2);
    await choose(page, 1, "Delete");
    await page.locator("#said", { hasText: `Deleted “${before[1]}”.` }).waitFor();
    await choose(page, 0, "Delete");
    await page.locator("#said", { hasText: "Deleted 2 conversations." }).waitFor();
    assert.deepEqual(await titles(page), before.slice(2));
    await page.locator("#undo").click();
    await page
      .locator("#conversation-list li")
      .nth(before.length - 1)
      .waitFor();
    assert.deepEqual(await titles(page), before);
    await choose(page, 1, "Delete");
    await page.locator("#said", { hasText: `Deleted “${before[1]}”.` }).waitFor();
    await page.locator("#undo").click();
    const focused = (title) =>
      document.activeElement.matches(".title") && document.activeElement.getAttribute("title") === title;
    await page.waitForFunction(focused, before[1], { timeout: 20_000 });
    await page.reload();
    await loaded(page);
  });

  testBeyondFirefox("clicks")("who does something else before all are deleted is asked once more", async () => {
    const before = await titles(page);
    const all = page.locator("#delete-all");
    await all.click();
    assert.equal(await all.textContent(), "Really delete all?");
    await page.locator("#search").click();
    assert.equal(await all.textContent(), "Delete all");
    await all.dblclick();
    assert.deepEqual(await titles(page), before, "who clicks twice has not read it");
    assert.equal(await all.textContent(), "Really delete all?");
    await page.keyboard.press("Escape");
    assert.equal(await all.textContent(), "Delete all");
    await page.clock.install();
    await all.click();
    await page.clock.runFor(9_000);
    assert.equal(await all.textContent(), "Really delete all?");
    await page.clock.runFor(2_000);
    assert.equal(await all.textContent(), "Delete all");
    await page.clock.resume();
    await page.locator("#search").click();
  });

  test("all are deleted, and brought back by one button", async () => {
    const before = await titles(page);
    assert.ok(before.length > 1);
    const all = page.locator("#delete-all");
    await all.click();
    assert.equal(await all.textContent(), "Really delete all?");
    await all.click();
    await page.locator("#said", { hasText: `Deleted ${before.length} conversations.` }).waitFor();
    assert.deepEqual(await titles(page), []);
    await page.locator("#undo").click();
    await page.waitForFunction(
      (count) => document.querySelectorAll("#conversation-list li").length === count,
      before.length,
    );
    assert.deepEqual(await titles(page), before);
    await page.reload();
    await page
      .locator("#conversation-list li")
      .nth(before.length - 1)
      .waitFor();
    assert.deepEqual(await titles(page), before);
    await loaded(page);
  });

  test("one is found by what was said, and one is imported; a file that is none is refused in words", async () => {
    await page.locator("#search").fill("once UPON");
    await page.waitForFunction(() => document.querySelectorAll("#conversation-list li").length === 1);
    assert.deepEqual(await titles(page), ["A fox"]);
    assert.ok(await page.locator("#delete-all").isHidden(), "it would delete what is not listed, too");
    await page.locator("#search").fill("zebra");
    await page.locator("#nothing-found", { hasText: "No conversation" }).waitFor();
    await page.locator("#search").fill("");
    const file = (name, value) => ({ name, mimeType: "application/json", buffer: Buffer.from(value) });
    const messages = [
      { role: "user", content: "Is it imported?" },
      { role: "assistant", content: "It is." },
    ];
    await page
      .locator("#import-file")
      .setInputFiles(
        file("x.json", JSON.stringify({ title: "From a file", messages, settings: { top_k: 7, top_p: 7 } })),
      );
    await page.locator(MESSAGES, { hasText: "It is." }).waitFor();
    const setting = (name) => page.locator(`[name=${name}]`).inputValue();
    assert.deepEqual([await setting("top_k"), await setting("top_p")], ["7", ""], "out of range");
    await page.locator("#conversation-list .title", { hasText: "From a file" }).waitFor();
    await page.locator("#said", { hasText: "Imported “From a file”." }).waitFor();
    await page.locator("#import-file").setInputFiles(file("rubbish.json", "{"));
    await page.locator("#said", { hasText: "rubbish.json is not a saved conversation: it is not JSON" }).waitFor();
    await page.locator("#import-file").setInputFiles(file("other.json", '{"messages": [{"role": "root"}]}'));
    await page.locator("#said", { hasText: "it has no messages as “Save as JSON” writes them" }).waitFor();
    await page.locator("#search").fill("fox");
    await page.locator("#said").waitFor({ state: "hidden" });
    await page.locator("#search").fill("");
    await page.locator("#import-file").setInputFiles(file("rubbish.json", "{"));
    await page.locator("#said").waitFor();
    await page.locator("#conversation-list .title", { hasText: "A fox" }).click();
    await page.locator("#said").waitFor({ state: "hidden" });
  });

  test("a menu stays in the window and at its button as that is turned", async () => {
    const { width, height } = page.viewportSize();
    for (const { tall } of [{ tall: 390 }, { tall: 844 }]) {
      await page.setViewportSize({ width: 844, height: 1234 - tall });
      await page.locator("#conversation-list .icon").first().click();
      await page.setViewportSize({ width: 844, height: tall });
      const [menu, source] = [page.locator("#menu"), page.locator("#conversation-list .icon").first()];
      await page.waitForFunction(() => document.getElementById("menu").getBoundingClientRect().bottom <= innerHeight);
      const [at, from] = [await menu.boundingBox(), await source.boundingBox()];
      assert.ok(at.y >= 0 && Math.abs(at.x + at.width - from.x - from.width) < 2, JSON.stringify([at, from]));
      await page.keyboard.press("Escape");
    }
    await page.setViewportSize({ width, height });
  });

  test("of a file only messages are needed; what is none, too much or of another kind is refused or left out", async () => {
    const file = (name, value) => ({
      name,
      mimeType: "application/json",
      buffer: Buffer.from(JSON.stringify(value)),
    });
    const told = page.locator("#said");
    const refused = async (value, why) => {
      await page.locator("#import-file").setInputFiles(file("strange.json", value));
      await told.filter({ hasText: `strange.json is not a saved conversation: ${why}` }).waitFor();
    };
    const before = await titles(page);
    const foot = await page.locator("#history .foot").boundingBox();
    await refused({ messages: Array(10_001).fill({ role: "user", content: "a" }) }, "it has more than 10,000 messages");
    const versions = [null, Array(10_000).fill({ role: "user", content: "a" })];
    await refused({ messages: [{ role: "user", content: "a", versions }] }, "it has more than 10,000 messages");
    for (const value of [null, 7, [], { messages: [] }, { messages: [{ role: "user", content: "" }] }]) {
      await refused(value, "it has no messages as “Save as JSON” writes them");
      await page.locator("#import-file").setInputFiles(file("strange.json", { messages: 1 }));
    }
    assert.deepEqual(await titles(page), before);
    assert.deepEqual(await page.locator("#history .foot").boundingBox(), foot, "what is told moves no button");
    const messages = [
      { role: "user", content: "Which one?" },
      { role: "assistant", content: "This one.", end: "constructor" },
    ];
    await page
      .locator("#import-file")
      .setInputFiles(file("bare.json", { title: { a: 1 }, model: 7, changed: "never", settings: [], messages }));
    await page.locator("#conversation-list [aria-current=true]", { hasText: "bare.json" }).waitFor();
    await page.locator(MESSAGES, { hasText: "This one." }).waitFor();
    assert.equal(await page.locator("#conversation .note:visible").count(), 0);
    await choose(page, 0, "Delete");
    const conversations = ["One", "Two", "Three"].map((title) => ({ title, messages }));
    await page.locator("#import-file").setInputFiles(file("some.json", { conversations }));
    await told.filter({ hasText: "Imported 3 conversations." }).waitFor();
    assert.deepEqual(
      (await titles(page)).slice(0, 3),
      ["Three", "Two", "One"],
      "without a date the last is the newest",
    );
    for (let i = 0; i < 3; i++) await choose(page, 0, "Delete");
    await page.locator("#conversation-list .title", { hasText: "A fox" }).click();
  });

  test("who imports what was saved finds nothing twice, but what has changed beside it", async () => {
    const { page } = await fresh();
    const question = (content) => ({ role: "user", content });
    await keep(page, [
      { title: "A pinned one", pinned: true, messages: [question("a")] },
      { title: "Another", messages: [question("b")], settings: { top_k: 7 } },
    ]);
    await page.reload();
    const { content } = await saved(page, page.locator("#save-all"));
    const load = (value) =>
      page
        .locator("#import-file")
        .setInputFiles({ name: "all.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(value)) });
    await load(content);
    await page.locator("#said", { hasText: /^\s*Already there, unchanged: 2\./ }).waitFor();
    assert.deepEqual(await titles(page), ["★ A pinned one", "Another"]);
    assert.deepEqual(await said(page), ["a"], "the last of the file is shown all the same");
    content.conversations[0].messages.push(question("c"));
    await load(content);
    await page.locator("#said", { hasText: "Imported “Another”. Already there, unchanged: 1." }).waitFor();
    assert.deepEqual(await titles(page), ["★ A pinned one", "Another", "Another"]);
    assert.deepEqual(await said(page), ["a"]);
    await page.context().close();
  });

  test("what was found is listed with what was said around it", async () => {
    const { page } = await fresh();
    const answer = `${"More words. ".repeat(20)}The zebra is striped.${" More words.".repeat(20)}`;
    const messages = [
      { role: "user", content: "What is striped?" },
      { role: "assistant", content: answer },
    ];
    await keep(page, [
      { title: "What is striped?", messages },
      { title: "A zebra", messages: [{ role: "user", content: "A zebra" }] },
    ]);
    await page.reload();
    await page.locator("#conversation-list li").nth(1).waitFor();
    await page.locator("#search").pressSequentially("ZEBRA", { delay: 60 });
    const excerpts = page.locator("#conversation-list .excerpt");
    await excerpts.locator("mark", { hasText: "zebra" }).waitFor();
    assert.deepEqual(await titles(page), ["A zebra", "What is striped?"]);
    assert.match((await excerpts.allTextContents()).join("|"), /^…words\. The zebra is striped\. More words\.[^|]*$/);
    assert.equal(await excerpts.locator("mark").textContent(), "zebra");
    // On a phone it has the whole row.
    await page.setViewportSize({ width: 390, height: 844 });
    await page.locator("#show-history").click();
    const [row, excerpt] = await page.evaluate(() =>
      [".title", ".excerpt"].map((one) => document.querySelector(`li:has(.excerpt) ${one}`).getBoundingClientRect()),
    );
    assert.ok(excerpt.width > 0.8 * row.width, `${excerpt.width} px of ${row.width}`);
    await page.locator("#search").fill("");
    await page.waitForFunction(() => document.querySelectorAll(".excerpt").length === 0);
    await page.context().close();
  });

  test("what was found is shown where it was said", async () => {
    const messages = Array.from({ length: 30 }, (_, i) => ({
      role: i % 2 ? "assistant" : "user",
      content: `${i === 4 ? "A walrus. " : ""}${"Words and words. ".repeat(40)}`,
    }));
    const buffer = Buffer.from(JSON.stringify({ title: "At sea", messages }));
    await page.locator("#import-file").setInputFiles({ name: "sea.json", mimeType: "application/json", buffer });
    await page.locator("#said", { hasText: "Imported “At sea”." }).waitFor();
    await page.locator("#clear").click();
    await page.locator("#search").fill("WALRUS");
    await page.waitForFunction(() => document.querySelectorAll("#conversation-list li").length === 1);
    await page.locator("#conversation-list .title").click();
    const hit = await page.locator(MESSAGES, { hasText: "walrus" }).elementHandle();
    await page.waitForFunction((hit) => {
      const log = hit.closest(".log").getBoundingClientRect();
      const { top, bottom } = hit.getBoundingClientRect();
      return top > log.top - 1 && bottom < log.bottom + 1;
    }, hit);
    await choose(page, 0, "Delete");
    await page.locator("#said", { hasText: "Deleted “At sea”" }).waitFor();
    await page.locator("#search").fill("");
  });

  test("how full the context is stays true: after a stop, in another version, in a conversation of another day", async () => {
    const context = page.locator("#speed");
    const tokens = async () => {
      const counted = /^(\d+) of 1,024 tokens$/;
      await page.waitForFunction(() => document.getElementById("speed").title !== "");
      return Number(counted.exec(await context.getAttribute("title"))[1]);
    };
    await page.locator("#clear").click();
    await begin(page, STORY);
    await page.locator(STOP).click();
    await page.locator("#conversation .note", { hasText: "Stopped" }).waitFor();
    const stopped = await tokens();
    assert.ok(stopped > 10 && stopped < 200, `${stopped} tokens`);
    await kept(page);
    await page.reload();
    await page.locator(MESSAGES).first().waitFor();
    await loaded(page);
    assert.equal(await tokens(), stopped);
    await page.locator(MESSAGES).last().getByRole("button", { name: "Regenerate" }).click();
    await answered(page);
    const whole = await tokens();
    assert.ok(whole > stopped, `${whole} tokens`);
    await page.locator(MESSAGES).last().getByRole("button", { name: "Previous version" }).click();
    await page.waitForFunction(
      (title) => document.getElementById("speed").title === title,
      `${stopped} of 1,024 tokens`,
    );
    await choose(page, 0, "Delete");
    await page.locator("#said", { hasText: "Deleted “Tell me a story" }).waitFor();
  });

  test("a word of a version that is not shown is found, too", async () => {
    await page.locator("#clear").click();
    const versions = [null, [{ role: "assistant", content: "A heron." }]];
    const messages = [
      { role: "user", content: "A bird?" },
      { role: "assistant", content: "A wren.", versions },
    ];
    const buffer = Buffer.from(JSON.stringify({ title: "Birds", pinned: true, messages }));
    await page.locator("#import-file").setInputFiles({ name: "birds.json", mimeType: "application/json", buffer });
    await page.locator("#said", { hasText: "Imported “Birds”." }).waitFor();
    for (const word of ["heron", "wren"]) {
      await page.locator("#search").fill(word);
      await page.waitForFunction(() => document.querySelectorAll("#conversation-list li").length === 1);
      assert.deepEqual(await titles(page), ["★ Birds"]);
      await page.locator("#clear").click();
      await page.locator("#search").fill(word);
      await page.locator("#conversation-list .title", { hasText: "Birds" }).click();
      await page.locator(MESSAGES, { hasText: `A ${word}.` }).waitFor();
    }
    await choose(page, 0, "Delete");
    await page.locator("#said", { hasText: "Deleted “Birds”" }).waitFor();
    await page.locator("#search").fill("");
  });

  test("what was found is deleted, and the others are listed again once one begins", async () => {
    await page.reload();
    await loaded(page);
    const count = (await titles(page)).length;
    const search = async () => {
      await page.locator("#search").fill("is it IMPORTED");
      await page.waitForFunction(() => document.querySelectorAll("#conversation-list li").length === 1);
      await choose(page, 0, "Delete");
      await page.locator("#nothing-found", { hasText: "No conversation" }).waitFor();
      await page.locator("#said", { hasText: "From a file" }).waitFor();
    };
    await search();
    await page.locator("#undo").click();
    await page.locator("#conversation-list .title", { hasText: "From a file" }).waitFor();
    await search();
    await page.locator("#tab-settings").click();
    await page.locator("#tab-chat").click();
    assert.ok(await page.locator("#undo").isVisible(), "it can be taken back after a look around");
    await page.locator("#clear").click();
    await page.waitForFunction(
      (count) => document.querySelectorAll("#conversation-list li").length === count,
      count - 1,
    );
    assert.equal(await page.locator("#search").inputValue(), "");
    assert.ok(await page.locator("#delete-all").isVisible());
  });

  test("another tab sees them at once", async () => {
    const other = await ready(page.context(), address);
    await other.page.locator("#conversation-list .title", { hasText: "A fox" }).waitFor();
    assert.deepEqual(await said(other.page), []);
    await choose(page, (await titles(page)).indexOf("A fox"), "Delete");
    await other.page.locator("#conversation-list .title", { hasText: "A fox" }).waitFor({ state: "detached" });
    await other.page.close();
  });

  test("two tabs on one conversation lose nothing", async () => {
    await page.locator("#clear").click();
    await ask(page, "What is 17 + 25?");
    const before = await said(page);
    await page.context().addInitScript(deafen);
    await page.reload();
    await loaded(page);
    const other = await ready(page.context(), address);
    await other.page.locator("#conversation-list .title").first().click();
    await other.page.locator(MESSAGES).nth(1).waitFor();
    await ask(other.page, QUESTION);
    // The first tab shows it without being asked to.
    await page.locator(MESSAGES, { hasText: FRANCE.answer }).waitFor();
    assert.deepEqual(await said(page), [...before, QUESTION, FRANCE.answer]);
    // While one is answered, the other says so.
    await begin(page, "Tell me a story about a whale.");
    await other.page.locator("#said", { hasText: "Another tab is getting an answer here." }).waitFor();
    // What is sent meanwhile waits, and can be taken back; what is written then is another question.
    const waiting = other.page.locator("#conversation [part=next]", { hasText: "Waiting: “Me, too.”" });
    await say(other.page, "Me, too.");
    await waiting.waitFor();
    assert.equal(await other.page.getByText("Another tab is getting an answer here.").count(), 1);
    await other.page.locator(INPUT).fill("And a dog.");
    await other.page.locator("#conversation [part=next] button").click();
    await waiting.waitFor({ state: "hidden" });
    assert.equal(await other.page.locator(INPUT).inputValue(), "Me, too.\n\nAnd a dog.");
    await say(other.page, "Me, too.");
    await waiting.waitFor();
    await other.page.locator(INPUT).fill("A draft");
    await answered(page);
    await waiting.waitFor({ state: "hidden" });
    await page.waitForFunction(() => shadow(".user .text").at(-1).textContent === "Me, too.");
    assert.equal(await other.page.locator(INPUT).inputValue(), "A draft");
    await other.page.locator(INPUT).fill("");
    await answered(other.page);
    await page.locator("#said").waitFor({ state: "hidden" });
    const long = await said(other.page);
    await page.waitForFunction((long) => shadow("article .text").at(-1).textContent === long, long.at(-1));
    assert.deepEqual(await said(page), long);
    // Both ask before they know of each other: there are two conversations then.
    const count = (await titles(page)).length;
    const both = [page, other.page];
    await Promise.all(both.map((one) => one.evaluate(() => (globalThis.deaf = true))));
    await Promise.all(both.map((one) => ask(one, STORY)));
    const parted = (count) => document.querySelectorAll("#conversation-list li").length > count;
    await Promise.any(both.map((one) => one.waitForFunction(parted, count)));
    const told = "#said:not([hidden]) span";
    const own = ["Another tab asked here, too: your question was moved to a new conversation."];
    const words = await Promise.all(both.map((one) => one.locator(told).allTextContents()));
    assert.deepEqual(words.flat(), own, "the tab that has the new one says so");
    await page.locator("#conversation-list .title", { hasText: /\(2\)/ }).waitFor();
    const [a, b] = [await said(page), await said(other.page)];
    for (const texts of [a, b]) {
      assert.deepEqual(texts.slice(0, long.length), long);
      assert.equal(texts.at(-2), STORY);
      assert.match(texts.at(-1), /^Once upon a/);
    }
    await other.page.close();
    await page.waitForTimeout(300);
    await page.reload();
    await page.locator(MESSAGES).first().waitFor();
    assert.deepEqual(await said(page), a);
    await loaded(page);
  });
});

test("all are saved as one file, which is imported whole, but for what is no conversation", async () => {
  const { page } = await fresh();
  await page.locator("#history .foot").waitFor();
  assert.ok(await page.locator("#save-all").isHidden(), "there is nothing to save");
  const messages = ["user", "assistant"].map((role) => ({ role, content: `From the ${role}.` }));
  await keep(page, [
    { title: "One", changed: 1000, messages, model: "A model", settings: { temperature: 0.5, system: "Be short." } },
    { title: "Two", changed: 2000, messages: [...messages, messages[0]] },
    { title: "Three", changed: 3000, messages, pinned: true },
    { title: "None", changed: 4000, messages: "of another version" },
  ]);
  await page.reload();
  await page.locator("#conversation-list li").nth(3).waitFor();
  const { name, content } = await saved(page, page.locator("#save-all"));
  assert.equal(name, "conversations.json");

  const { page: other } = await fresh();
  const buffer = Buffer.from(JSON.stringify(content));
  await other.locator("#import-file").setInputFiles({ name, mimeType: "application/json", buffer });
  const told =
    "None is not a saved conversation: it has no messages as “Save as JSON” writes them. Imported 3 conversations.";
  await other.locator("#said", { hasText: told }).waitFor();
  assert.deepEqual(await titles(other), ["★ Three", "Two", "One"]);
  assert.deepEqual(await said(other), ["From the user.", "From the assistant."]);
  const again = await saved(other, other.locator("#save-all"));
  const right = content.conversations.filter(({ title }) => title !== "None");
  const whole = right.map(({ settings = {}, pinned = false, ...kept }) => ({ ...kept, settings, pinned }));
  assert.deepEqual(again.content.conversations, whole);
  await page.context().close();
  await other.context().close();
});

test("one that another tab renames and sets while it is answered stays one", async () => {
  const { page, problems } = await ready(await browser.newContext(), address);
  await begin(page, STORY);
  const other = await ready(page.context(), address);
  await choose(other.page, 0, "Rename");
  await other.page.locator("#conversation-list input").fill("Birds");
  await other.page.locator("#conversation-list input").press("Enter");
  await page.locator("#conversation-list .title", { hasText: "Birds" }).waitFor();
  const answer = await answered(page);
  await other.page.locator("#conversation-list .title").click();
  await other.page.locator(MESSAGES, { hasText: answer }).waitFor();
  for (const one of [page, other.page]) {
    assert.deepEqual(await titles(one), ["Birds"]);
    assert.ok(await one.locator("#said").isHidden());
  }
  assert.deepEqual([...problems, ...other.problems], []);
  await page.context().close();
});

test("a question waits while another tab waits for the first word of an answer", async () => {
  const { page } = await ready(await browser.newContext(), address);
  const other = await ready(page.context(), address);
  await holdAnswers(page, 0);
  await say(page, STORY);
  await other.page.locator("#conversation-list .title", { hasText: STORY }).click();
  const growing = other.page.getByText("Another tab is getting an answer here.");
  await growing.waitFor();
  // Longer than a tab that is gone is waited for.
  await other.page.waitForTimeout(6_000);
  assert.ok(await growing.isVisible());
  await say(other.page, QUESTION);
  await other.page.locator("#conversation [part=next]").waitFor();
  await answered(page);
  await other.page.locator(MESSAGES, { hasText: FRANCE.answer }).waitFor();
  assert.equal((await titles(page)).length, 1);
  await page.context().close();
});

test("one that another tab deletes stays in sight, and can be kept; undoing gives back exactly one", async () => {
  const { page } = await fresh();
  const rows = (page, count) =>
    page.waitForFunction((count) => document.querySelectorAll("#conversation-list li").length === count, count);
  const lost = page.locator("#lost", { hasText: "This conversation was deleted in another tab." });
  await ask(page, QUESTION);
  const texts = [QUESTION, FRANCE.answer];
  const other = await ready(page.context(), address);
  const remove = async () => {
    await rows(other.page, 1);
    await choose(other.page, 0, "Delete");
    await lost.waitFor();
    await rows(page, 0);
    assert.deepEqual(await said(page), texts);
  };
  const undo = async () => {
    await other.page.locator("#undo").click();
    await other.page.locator("#said").waitFor({ state: "hidden" });
  };
  const one = async () => {
    await Promise.all([page, other.page].map((page) => rows(page, 1)));
    await lost.waitFor({ state: "hidden" });
  };

  await remove();
  await undo();
  await one();
  // Whoever keeps it has it again, and undoing brings no second one.
  await remove();
  await page.locator("#keep").click();
  await one();
  await undo();
  await one();
  // So does whoever asks on.
  await remove();
  await ask(page, "What is 17 + 25?");
  texts.splice(0, 2, ...(await said(page)));
  assert.equal(texts.length, 4);
  await one();
  await undo();
  await one();
  // In the middle of an answer: that goes on, and is not kept unless it is wanted.
  await begin(page, STORY);
  await kept(page);
  await rows(other.page, 1);
  await choose(other.page, 0, "Delete");
  await lost.waitFor();
  await undo();
  await lost.waitFor({ state: "hidden" });
  await answered(page);
  await kept(page);
  await one();
  await page.reload();
  await page.locator(MESSAGES).nth(5).waitFor();
  assert.deepEqual((await said(page)).slice(0, 5), [...texts, STORY]);
  await page.context().close();
});

test("five hundred conversations scroll in their list, and not the page", async () => {
  const { page } = await fresh();
  const words = "More words. ".repeat(300);
  const kept = Array.from({ length: 500 }, (_, i) => ({
    title: `Question ${i}`,
    messages: [{ role: "user", content: `Question ${i}. ${words}` }],
  }));
  await keep(page, kept);
  await page.reload();
  await page.locator("#conversation-list li").nth(499).waitFor();
  const high = await page.evaluate(() => [document.documentElement.scrollHeight, innerHeight]);
  assert.equal(high[0], high[1], "the list scrolls, and not the page");
  const [row, title] = await page.evaluate(() =>
    ["li", ".title span"].map((one) => document.querySelector(`#conversation-list ${one}`).getBoundingClientRect()),
  );
  assert.ok(row.height <= 45, `a row of ${row.height} px`);
  assert.ok(title.width >= 0.75 * row.width, `a title of ${title.width} px in ${row.width}`);
  const first = page.locator("#conversation-list li").first();
  assert.equal(await first.locator(".title").getAttribute("title"), "Question 499");
  assert.match(await first.locator("time").textContent(), /1970/, "another year is told");
  // The one that begins is in sight.
  await page.locator("#conversation-list").evaluate((list) => list.scrollTo(0, 9_000));
  await ask(page, QUESTION);
  await first.filter({ hasText: QUESTION }).waitFor();
  await page.waitForFunction(() => document.querySelector("#conversation-list").scrollTop < 5);

  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator("#show-history").click();
  const phone = await page.evaluate(() => [
    document.documentElement.scrollHeight - innerHeight,
    document.querySelector("#conversation-list").getBoundingClientRect().height,
  ]);
  assert.ok(phone[0] === 0 && phone[1] > 200, `${phone}`);
  await page.context().close();
});

test("the list of conversations fades out where there is more below, and not at its end", async () => {
  const { page } = await fresh({ viewport: { width: 390, height: 844 }, reducedMotion: "reduce" });
  await keep(
    page,
    Array.from({ length: 30 }, (_, i) => ({ title: `Number ${i}`, messages: [{ role: "user", content: "Who?" }] })),
  );
  await page.reload();
  await loaded(page);
  await page.locator("#show-history").click();
  const list = page.locator("#conversation-list");
  await list.locator("li").nth(29).waitFor();
  await list.evaluate((list) => {
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (list.querySelectorAll("li")))
      row.style.background = "red";
  });
  const { x, y, width, height } = await list.boundingBox();
  /** A strip of the page as a picture. */
  const strip = (y) => page.screenshot({ clip: { x: x + 10, y, width: width - 40, height: 1 } });
  const ground = await strip(y - 3);
  assert.notDeepEqual(await strip(y + 3), ground);
  assert.deepEqual(await strip(y + height - 1), ground, "the last line is the ground");
  await list.evaluate((list) => list.scrollTo(0, list.scrollHeight));
  const last = await list.locator("li").last().boundingBox();
  const fade = await list.evaluate((list) => Number.parseFloat(getComputedStyle(list, "::after").height));
  assert.ok(last.y + last.height <= y + height - fade + 1, "the last row is free");
  assert.notDeepEqual(await strip(last.y + last.height - 2), ground);
  await page.context().close();
});

testBeyondFirefox("touch")(
  "on a touch screen a long title can be read, and what is small elsewhere is large enough",
  async () => {
    const { page } = await fresh({ viewport: { width: 390, height: 844 }, hasTouch: true });
    const title = "Donaudampfschifffahrtsgesellschaftskapitän, and what else is long";
    await keep(page, [{ title, messages: [{ role: "user", content: title }] }]);
    await page.reload();
    await page.locator("#show-history").click();
    const row = page.locator("#conversation-list .title");
    await row.waitFor();
    const cut = await row.locator("span").evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
    assert.equal(cut, 0);
    await row.click();
    await page.locator(MESSAGES).first().waitFor();
    await page.getByRole("button", { name: "Edit question" }).click();
    const { height } = await page.locator("#conversation [part=editing] button").boundingBox();
    assert.ok(height >= 44, `${height} px`);
    // The input has the width of the composer.
    const [input, composer] = [
      await page.locator(INPUT).boundingBox(),
      await page.locator("#conversation form").boundingBox(),
    ];
    assert.ok(input.width > 0.9 * composer.width, `${input.width} px of ${composer.width}`);
    await page.context().close();
  },
);

testBeyondFirefox("touch")("a tap opens no keyboard over what it shows; keys go on in the input", async () => {
  const { page } = await fresh({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const focused = () => page.evaluate(() => shadow("textarea:focus").length === 1);
  const leave = () => page.evaluate(() => /** @type {HTMLElement} */ (document.activeElement).blur());
  const suggestion = page.locator("#suggestions button").nth(2);
  await leave();
  await holdAnswers(page);
  await suggestion.tap();
  await page.locator(STOP).waitFor();
  assert.equal(await focused(), false, "a suggestion");
  assert.equal(await page.evaluate(() => shadow("[role=log]:focus").length), 1, "the focus is on the conversation");
  await answered(page);
  await page.locator("#clear").tap();
  await page.locator(MESSAGES).first().waitFor({ state: "detached" });
  assert.equal(await focused(), false, "a new chat");
  await page.locator("#show-history").tap();
  await page.locator("#conversation-list .title").tap();
  await page.locator(MESSAGES).first().waitFor();
  assert.equal(await focused(), false, "a conversation");
  for (const opens of ["#clear", "#conversation-list .title"]) {
    if (opens !== "#clear") await page.locator("#show-history").press("Enter");
    await page.locator(opens).press("Enter");
    await page.waitForFunction(() => shadow("textarea:focus").length === 1);
    await leave();
  }
  await page.context().close();
});

describe("what the browser does not keep", () => {
  /** A page whose database refuses what `when` says, until `refusing` is false. */
  async function refused(method, name) {
    const context = await browser.newContext();
    await context.addInitScript(
      ([method, name]) => {
        globalThis.refusing = true;
        const { prototype } = method === "open" ? IDBFactory : IDBObjectStore;
        const real = prototype[method];
        prototype[method] = function (...args) {
          if (refusing && (method === "put" || args[0] === "tabloom-demo")) throw new DOMException("No.", name);
          return real.apply(this, args);
        };
      },
      [method, name],
    );
    return ready(context, address);
  }

  test("a database that the browser has closed is opened again", async () => {
    const context = await browser.newContext();
    await context.addInitScript(() => {
      const { open } = IDBFactory.prototype;
      IDBFactory.prototype.open = function (...args) {
        const request = open.apply(this, args);
        request.addEventListener("success", () => (globalThis.database = request.result));
        return request;
      };
    });
    const { page } = await ready(context, address);
    await page.evaluate(() => database.close());
    await ask(page, QUESTION);
    assert.ok(await page.locator("#said").isHidden());
    await page.reload();
    await page.locator(MESSAGES, { hasText: FRANCE.answer }).waitFor();
    await context.close();
  });

  test("a full storage is told; the conversation stays, can be saved, and is kept once there is room", async () => {
    const { page, problems } = await refused("put", "QuotaExceededError");
    await ask(page, QUESTION);
    const full = page.locator("#said", { hasText: "The browser’s storage is full: what is said now is not kept." });
    await full.waitFor();
    await page.locator("#clear").click();
    await ask(page, "What is 17 + 25?");
    await page.waitForFunction(() => document.querySelectorAll("#conversation-list li").length === 2);
    await page.locator("#conversation-list .title", { hasText: QUESTION }).click();
    await page.locator(MESSAGES, { hasText: "Paris" }).waitFor();
    assert.deepEqual(await said(page), [QUESTION, FRANCE.answer]);
    await page.locator("#conversation-list .icon").nth(1).click();
    const { content } = await saved(page, page.getByRole("menuitem", { name: "Save as JSON" }));
    assert.deepEqual(
      content.messages.map(({ content }) => content),
      [QUESTION, FRANCE.answer],
    );
    await page.evaluate(() => (refusing = false));
    await choose(page, 0, "Delete");
    await full.waitFor({ state: "hidden" });
    const other = await open(page.context(), address);
    await other.page.evaluate(() => (refusing = false));
    await other.page.locator("#conversation-list .title", { hasText: QUESTION }).waitFor();
    assert.deepEqual(problems, []);
    await page.context().close();
  });

  test("a storage that is denied is told; conversations stay while the page does", async () => {
    const { page, problems } = await refused("open", "SecurityError");
    await page.locator("#nothing-kept", { hasText: "save as a file what you need later" }).waitFor();
    await ask(page, QUESTION);
    await page.locator("#clear").click();
    await page.locator("#conversation-list .title", { hasText: QUESTION }).click();
    await page.locator(MESSAGES, { hasText: "Paris" }).waitFor();
    await choose(page, 0, "Delete");
    await page.locator("#undo").click();
    await page.locator("#conversation-list .title", { hasText: QUESTION }).waitFor();
    assert.deepEqual(problems, []);
    await page.context().close();
  });

  test("conversations that a newer version of the page keeps, or an older one holds, are told as that", async () => {
    const context = await browser.newContext();
    await context.addInitScript(() => {
      // As a later version of the page would.
      if (document.location.search.includes("newer")) indexedDB.open("tabloom-demo", 99);
    });
    const newer = await open(context, `${address}&newer`);
    const told = newer.page.locator("#nothing-kept");
    await told.filter({ hasText: "A newer version of this page keeps conversations here. Reload the page." }).waitFor();
    assert.equal(await ask(newer.page, QUESTION), FRANCE.answer);
    await context.close();

    const other = await browser.newContext();
    const { page: older } = await open(other, `${url}sw.js`);
    await older.evaluate(() =>
      new Promise(
        (done) => (indexedDB.open("tabloom-demo", 1).onsuccess = ({ target }) => done((globalThis.held = target))),
      ).then(() => {}),
    );
    const { page } = await open(other, address);
    await page.locator("#nothing-kept", { hasText: "Another tab has an older version of this page open" }).waitFor();
    await other.close();
  });

  test("a conversation of another version is told, stays as it is, and can be saved", async () => {
    const { page, problems } = await fresh();
    const strange = [
      { title: "Later", messages: [{ role: "tool", content: [{ type: "text", text: "zebra" }] }] },
      { title: "Rubbish", messages: "none" },
      { messages: null, changed: "never" },
      { title: "Good", messages: [{ role: "user", content: "Good?" }] },
    ];
    await keep(page, strange);
    await page.reload();
    await loaded(page);
    await page.locator("#conversation-list li").nth(3).waitFor();
    await page.locator("#conversation-list .title", { hasText: "Good" }).click();
    for (const name of ["Later", "Rubbish"]) {
      await page.locator("#conversation-list .title", { hasText: name }).click();
      await page.locator("#said", { hasText: `“${name}” is of another version of this page` }).waitFor();
      assert.deepEqual(await said(page), ["Good?"]);
    }
    const i = (await titles(page)).indexOf("Later");
    await choose(page, i, "Save as Markdown");
    await page.locator("#said", { hasText: "“Later”" }).waitFor();
    await page.locator("#conversation-list .icon").nth(i).click();
    const { content } = await saved(page, page.getByRole("menuitem", { name: "Save as JSON" }));
    assert.deepEqual(content.messages, strange[0].messages);
    await page.locator("#search").fill("good?");
    await page.waitForFunction(() => document.querySelectorAll("#conversation-list li").length === 1);
    assert.deepEqual(problems, []);
    await page.context().close();
  });

  test("a file that is too large to be a conversation is refused at once", async () => {
    const { page, problems } = await fresh();
    await page.locator(INPUT).fill("a draft");
    await page.locator("#import-file").evaluate((/** @type {HTMLInputElement} */ input) => {
      const data = new DataTransfer();
      data.items.add(new File(["[".repeat(50e6)], "large.json"));
      input.files = data.files;
      input.dispatchEvent(new Event("change"));
    });
    await page.locator("#said", { hasText: "large.json is not a saved conversation: it is larger" }).waitFor();
    assert.equal(await page.locator(INPUT).inputValue(), "a draft");
    assert.deepEqual(problems, []);
    await page.context().close();
  });
});

test("where the browser can install the page, a button does, until it has", async () => {
  const { page } = await fresh();
  const button = page.getByRole("button", { name: "Install as an app" });
  assert.equal(await button.isVisible(), false);
  const offer = () =>
    page.evaluate(() => {
      const event = new Event("beforeinstallprompt", { cancelable: true });
      dispatchEvent(Object.assign(event, { prompt: () => (globalThis.prompted = true) }));
      return event.defaultPrevented;
    });
  assert.equal(await offer(), true);
  await button.click();
  assert.equal(await page.evaluate(() => prompted), true);
  await button.waitFor({ state: "hidden" });
  await offer();
  await button.waitFor();
  await page.evaluate(() => dispatchEvent(new Event("appinstalled")));
  await button.waitFor({ state: "hidden" });
  await page.context().close();
});

/** Drops files on an element of the page. */
const drop = (page, selector, files) =>
  page.locator(selector).evaluate((element, files) => {
    const dataTransfer = new DataTransfer();
    for (const [name, text] of files) dataTransfer.items.add(new File([text], name));
    element.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, composed: true, cancelable: true }));
  }, files);

test("text that is dropped goes to the chat, a model is loaded, and what is neither is told", async () => {
  const { page, problems } = await fresh();
  const chip = page.locator("#conversation [part=attachment]");
  const notice = page.locator("#conversation [part=notice]");
  await page.locator("#tab-settings").click();
  await drop(page, "body", [["notes.txt", "The fox is red."]]);
  await chip.filter({ hasText: /notes\.txtTokens: \d+/ }).waitFor();
  assert.ok(await page.locator("#chat").isVisible());
  await drop(page, "#conversation .log", [["cat.png", "\0"]]);
  await notice.filter({ hasText: "cat.png holds neither text nor a model." }).waitFor();
  assert.equal(await chip.count(), 1);
  // What a model's folder has beside its weights is text like any other.
  await drop(page, "#conversation .log", [["config.json", '{"a": 1}']]);
  await chip.filter({ hasText: "config.json" }).waitFor();
  await page.getByRole("button", { name: "Remove config.json" }).click();
  await page.locator("#tab-settings").click();
  const messages = [
    { role: "user", content: "Is it there?" },
    { role: "assistant", content: "It is." },
  ];
  await drop(page, "body", [["saved.json", JSON.stringify({ title: "Saved before", messages })]]);
  await page.locator(MESSAGES, { hasText: "It is." }).waitFor();
  assert.deepEqual(await titles(page), ["Saved before"]);
  assert.equal(await chip.count(), 0, "it is no attachment");
  await choose(page, 0, "Delete");
  await chip.filter({ hasText: "notes.txt" }).waitFor();
  await drop(page, "#conversation .log", [["long.txt", "fox ".repeat(5_000)]]);
  await notice.filter({ hasText: /Too long: [\d,]+ tokens, and the model’s context has [\d,]+\./ }).waitFor();
  await page.getByRole("button", { name: "Remove long.txt" }).click();

  await ask(page, "");
  const question = page.locator(`${MESSAGES}.user`);
  await question.getByText("notes.txt").waitFor();
  assert.deepEqual(await titles(page), ["notes.txt"]);
  await page.reload();
  await question.getByText("notes.txt").click();
  assert.equal(await question.locator("pre").textContent(), "The fox is red.");
  await loaded(page);
  await page.getByRole("button", { name: "Edit question" }).click();
  await chip.filter({ hasText: "notes.txt" }).waitFor();
  assert.equal(await page.locator(INPUT).inputValue(), "");

  await drop(page, "#conversation .log", [["x.gguf", "no model after all"]]);
  await page.locator(PROBLEM, { hasText: "“x.gguf” is not a model: it is neither" }).waitFor();
  assert.equal(await chip.count(), 1);
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("who reads back while an answer grows stays there, and finds back to the end", async () => {
  const { page } = await fresh({ viewport: { width: 400, height: 320 } });
  await begin(page, STORY);
  const log = page.locator("#conversation .log");
  const more = async (characters) => {
    const before = await page.locator(`${MESSAGES}.assistant .text`).textContent();
    await holdAnswers(page, characters);
    await page.waitForFunction((before) => shadow(".assistant .text").at(-1).textContent !== before, before);
  };
  const room = () => log.evaluate((log) => log.scrollHeight - log.clientHeight);
  for (let characters = 60; characters < 600 && (await room()) < 40; characters += 60) await more(characters);
  assert.ok((await room()) >= 40, "there is something to scroll");
  await log.hover();
  await page.mouse.wheel(0, -16);
  const latest = page.getByRole("button", { name: "Go to the end" });
  await latest.waitFor();
  const top = await log.evaluate((log) => log.scrollTop);
  await page.setViewportSize({ width: 400, height: 300 });
  await answered(page);
  assert.ok((await log.evaluate((log) => log.scrollTop)) <= top + 1);
  const end = () => log.evaluate((log) => log.scrollHeight - log.clientHeight - log.scrollTop);
  await latest.click();
  await latest.waitFor({ state: "hidden" });
  assert.ok((await end()) < 2);
  // In an empty input, too, pages are turned.
  await page.locator(INPUT).press("PageUp");
  await latest.waitFor();
  await page.locator(INPUT).press("PageDown");
  await latest.waitFor({ state: "hidden" });
  await page.locator(INPUT).fill("A draft");
  await page.locator(INPUT).press("PageUp");
  assert.ok((await end()) < 2, "a draft has pages of its own");
  await page.context().close();
});

test("what a model writes is Markdown, and never HTML", async () => {
  const { page } = await fresh();
  const shown = await page.evaluate(async () => {
    const { Drafts } = await import("/drafts.js");
    const { Message } = await import("/tabloom/element/parts.js");
    const source = "**Bold** and <img src=x onerror=alert(1)> `code`\n\n- one\n- two";
    const message = new Message({ role: "assistant", content: source });
    document.body.append(message.element);
    const drafts = new Drafts();
    drafts.add(source.indexOf("Bold"), source.indexOf(" and"));
    drafts.add(source.indexOf("two"), source.length);
    const text = message.element.querySelector(".text");
    drafts.show(text, source);
    const marked = [...CSS.highlights.get("drafted")].map(({ startContainer, startOffset, endOffset }) =>
      /** @type {Text} */ (startContainer).data.slice(startOffset, endOffset),
    );
    const parts = [...text.querySelectorAll("*")].map(({ localName }) => localName);
    return { parts, marked, text: text.firstElementChild.textContent };
  });
  assert.deepEqual(shown.parts, ["p", "strong", "code", "ul", "li", "p", "li", "p"]);
  assert.deepEqual(shown.marked, ["Bold", "two"]);
  assert.match(shown.text, /<img src=x onerror=alert\(1\)>/);
  await page.context().close();
});

const RICH = [
  "Code:",
  "```python\ndef add(a, b):\n    # the sum\n    return a + 17  # '=' is not '+'\n```",
  "```css\n.a > b { color: red; }\n```",
  '```json\n{ "a": [1, true, null] }\n```',
  "```klingon\nnuqneH\n```",
  "So $x^2$ is less than $5, and",
  "\\[ \\sum_{i=1}^n i = \\frac{n(n+1)}{2} \\]",
  "but not $\\frac{$.",
].join("\n\n");

for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
  const declare = colorScheme === "light" ? test : testBeyondFirefox("scheme");
  declare(`code is coloured and formulas are set, by what is loaded for them, ${colorScheme}`, async () => {
    const { page, problems, requests } = await fresh({ colorScheme, serviceWorkers: "block" });
    assert.equal(await ask(page, QUESTION), FRANCE.answer);
    const libraries = () =>
      requests.map((request) => new URL(request).pathname).filter((path) => /code|math/.test(path));
    assert.deepEqual(libraries(), []);
    const messages = [
      { role: "user", content: "Show me" },
      { role: "assistant", content: RICH },
    ];
    const buffer = Buffer.from(JSON.stringify({ title: "Rich", messages }));
    await page.locator("#import-file").setInputFiles({ name: "rich.json", mimeType: "application/json", buffer });
    await page.locator(`${MESSAGES} math`).nth(1).waitFor({ state: "attached" });
    await page.locator(`${MESSAGES} [part=code-keyword]`).first().waitFor();
    assert.equal(libraries().length, 2);
    const found = await page.evaluate(() => ({
      code: shadow("pre").map((pre) => [pre.textContent, pre.querySelectorAll("span").length > 0]),
      math: shadow("math").map((math) => [math.namespaceURI, math.getAttribute("display")]),
      text: shadow(".assistant .text p").map((p) => p.textContent),
    }));
    const code = [...RICH.matchAll(/```\w+\n(.*?)\n```/gs)].map(([, text]) => [text, text !== "nuqneH"]);
    assert.deepEqual(found.code, code);
    const MATHML = "http://www.w3.org/1998/Math/MathML";
    assert.deepEqual(found.math, [
      [MATHML, null],
      [MATHML, "block"],
    ]);
    assert.match(found.text.at(-3), / is less than \$5, and$/);
    assert.equal(found.text.at(-1), "but not $\\frac{$.");
    assert.deepEqual(await page.evaluate(pale), []);
    assert.deepEqual(problems, []);
    await page.context().close();
  });
}

test("each conversation has settings of its own; a new one begins with those of the one that is shown", async () => {
  const { page } = await ready(await browser.newContext(), `${url}?device=cpu`);
  const temperature = page.getByLabel("Temperature");
  const open = (title) => page.locator("#conversation-list .title", { hasText: title }).dispatchEvent("click");
  const shown = async (title, value) => {
    await page.locator("#whose", { hasText: title }).waitFor();
    assert.equal(await temperature.inputValue(), value, title);
  };
  await keep(page, [{ title: "Without any", messages: [{ role: "user", content: "Without any" }] }]);
  await ask(page, QUESTION);
  await page.locator("#clear").click();
  await ask(page, "What is 17 + 25?");
  await page.locator("#tab-settings").click();
  await temperature.fill("0.5");
  await page.getByLabel("System prompt").fill("Be short.");
  await shown("What is 17 + 25?", "0.5");
  await open(QUESTION);
  await shown(QUESTION, "");
  await open("Without any");
  await shown("Without any", "");
  await page.locator("#clear").dispatchEvent("click");
  await shown("New chat", "");
  assert.equal(await page.getByLabel("System prompt").inputValue(), "");
  await open("What is 17 + 25?");
  await shown("What is 17 + 25?", "0.5");
  await page.locator("#clear").dispatchEvent("click");
  await shown("New chat", "0.5");
  assert.equal(await page.getByLabel("System prompt").inputValue(), "Be short.");
  await page.locator("#tab-chat").click();
  await ask(page, "What is the opposite of hot?");
  await page.locator("#tab-settings").click();
  await temperature.fill("");
  await open("What is 17 + 25?");
  await shown("What is 17 + 25?", "0.5");

  await page.reload();
  await shown("What is 17 + 25?", "0.5");
  await open(QUESTION);
  await shown(QUESTION, "");
  await open("What is the opposite of hot?");
  await shown("What is the opposite of hot?", "");
  const another = await ready(page.context(), `${url}?device=cpu`);
  assert.equal(await another.page.getByLabel("System prompt").inputValue(), "", "another tab begins anew");
  await page.context().close();
});

test("a new chat says which settings it has from the one before, and can do without", async () => {
  const { page } = await fresh();
  const changed = page.locator("#changed");
  assert.equal(await changed.isVisible(), false, "what the address says is no setting from before");
  await view(page, "settings");
  await page.locator("[name=system]").fill("Answer in one short sentence.");
  await page.getByLabel("Temperature").fill("0.5");
  await page.getByRole("switch", { name: "Speculative decoding" }).uncheck();
  await view(page, "chat");
  await ask(page, QUESTION);
  await page.locator("#clear").click();
  const told =
    "Settings, as set before: System prompt “Answer in one short sentence.”, Temperature 0.5, Speculative decoding off";
  await changed.filter({ hasText: told }).waitFor();
  await changed.getByRole("button", { name: "Back to the defaults" }).click();
  await changed.waitFor({ state: "hidden" });
  assert.equal(await page.locator("[name=system]").inputValue(), "");
  assert.equal(await page.locator("[name=temperature]").inputValue(), "");
  assert.ok(await page.locator("[name=speculation]").isChecked());
  await page.locator("#conversation-list .title", { hasText: QUESTION }).click();
  await page.locator(MESSAGES).first().waitFor();
  assert.equal(await page.locator("[name=system]").inputValue(), "Answer in one short sentence.");
  await page.context().close();
});

test("settings are used, kept and put back", async () => {
  const { page } = await ready(await browser.newContext(), `${url}?device=cpu`);
  await page.locator("#tab-settings").click();
  await page.getByLabel("Temperature").fill("0");
  await page.getByLabel("Max tokens").fill("3");
  await page.getByRole("switch", { name: "Speculative decoding" }).uncheck();
  await page.getByLabel("Top-p").fill("7");
  await page.keyboard.press("Tab");
  const colour = (selector) => page.locator(selector).evaluate((element) => getComputedStyle(element).color);
  assert.notEqual(await colour("#set [role=alert]"), await colour("#about-top-k"), "what is out of range is told");
  assert.equal(await page.getByLabel("Top-p").inputValue(), "");
  await page.locator("#tab-chat").click();
  const short = await ask(page, QUESTION);
  assert.ok(FRANCE.answer.startsWith(short) && short.length < FRANCE.answer.length, short);
  await page.locator("#conversation .note", { hasText: "token limit" }).waitFor();

  await page.reload();
  await loaded(page);
  await page.locator("#tab-settings").click();
  assert.equal(await page.getByLabel("Temperature").inputValue(), "0");
  assert.equal(await page.getByLabel("Top-p").inputValue(), "", "what is out of range is not used");
  const prompt = page.getByLabel("System prompt");
  await prompt.fill("Written by hand.");
  await page.getByRole("button", { name: "Back to the defaults" }).click();
  assert.equal(await prompt.inputValue(), "");
  await page.getByRole("button", { name: "Undo" }).click();
  assert.equal(await prompt.inputValue(), "Written by hand.");
  assert.equal(await page.getByLabel("Temperature").inputValue(), "0");
  await page.getByRole("button", { name: "Back to the defaults" }).click();
  assert.equal(await page.getByLabel("Max tokens").inputValue(), "");
  assert.equal(await page.getByRole("switch", { name: "Speculative decoding" }).isChecked(), true);
  await page.context().close();
});

test("penalties and stop strings are a conversation's, and part of its requests", async () => {
  const { page } = await ready(await browser.newContext(), address);
  await view(page, "settings");
  await page.getByLabel("Frequency penalty").fill("0.5");
  await page.getByLabel("Presence penalty").fill("-1");
  await page.getByLabel("Repetition penalty").fill("1.1");
  const word = FRANCE.answer.split(" ").at(-1);
  await page.getByLabel("Stop strings").fill(`\nnever said\n${word}\n`);
  const params = await page.evaluate(async () => {
    const { Settings, latest } = await import("/settings.js");
    const settings = new Settings(/** @type {any} */ (document.getElementById("set")), {});
    settings.use(latest());
    return settings.params;
  });
  const { frequency_penalty, presence_penalty, repetition_penalty, stop } = /** @type {any} */ (params);
  assert.deepEqual([frequency_penalty, presence_penalty, repetition_penalty], [0.5, -1, 1.1]);
  assert.deepEqual(stop, ["never said", word]);
  for (const name of ["Frequency penalty", "Presence penalty", "Repetition penalty"]) {
    await page.getByLabel(name).fill("");
  }
  await view(page, "chat");
  const answer = await ask(page, QUESTION);
  assert.equal(answer, FRANCE.answer.slice(0, FRANCE.answer.indexOf(word)).trimEnd());
  // Another conversation that begins without them is answered in full.
  await page.locator("#clear").click();
  await view(page, "settings");
  await page.getByRole("button", { name: "Back to the defaults" }).click();
  await view(page, "chat");
  assert.equal(await ask(page, QUESTION), FRANCE.answer);
  await page.context().close();
});

test("settings that no request may have are marked, and not used; a system prompt has a bound", async () => {
  const { page } = await ready(await browser.newContext(), `${url}?device=cpu`);
  await view(page, "settings");
  for (const name of ["seed", "top_k", "max_tokens"]) {
    await page.locator(`[name=${name}]`).fill("1e20");
    assert.equal(await page.locator(`[name=${name}]:out-of-range`).count(), 1, name);
  }
  await page.getByLabel("Temperature").fill("9");
  const why = page.locator("#set [role=alert]");
  assert.equal(await why.textContent(), "9 is not used: it has to be from 0 to 2.");
  await page.getByLabel("Temperature").blur();
  assert.equal(await page.getByLabel("Temperature").inputValue(), "");
  assert.ok(await why.isVisible(), "it still says what became of it");
  await page.getByLabel("Top-k").fill("1.5");
  assert.equal(await why.textContent(), "1.5 is not used: it has to be a whole number from 0 to 4294967295.");
  // The largest of each, as the request takes them.
  await page.getByLabel("Temperature").fill("0");
  await page.getByLabel("Seed").fill(`${2 ** 53 - 1}`);
  await page.getByLabel("Top-k").fill(`${2 ** 32 - 1}`);
  await page.getByLabel("Max tokens").fill(`${2 ** 32 - 1}`);
  await view(page, "chat");
  assert.equal(await ask(page, QUESTION), FRANCE.answer);
  await view(page, "settings");
  const system = page.getByLabel("System prompt");
  await system.focus();
  await page.evaluate(() => document.execCommand("insertText", false, "word ".repeat(500_000)));
  assert.equal((await system.inputValue()).length, 1_000_000);
  await page.context().close();
});

test("what is too long for the context is told where it is written, and an answer that fills the context says so", async () => {
  const { page } = await fresh();
  const lines = Array.from({ length: 100 }, (_, i) => `This is line ${i} of a long text.`).join("\n");
  const tooLong = page.locator("#conversation .notice", {
    hasText: /^Too long: [\d,]+ tokens, and the model’s context has 1,024\. Shorten it\.$/,
  });
  await page.locator(INPUT).fill(lines);
  await tooLong.waitFor();
  await page.locator(INPUT).press("Enter");
  assert.equal(await page.locator(INPUT).inputValue(), lines);
  assert.equal(await page.locator(MESSAGES).count(), 0);

  // Before it is counted it can be sent.
  await page.locator(INPUT).fill("");
  await tooLong.waitFor({ state: "hidden" });
  await page.evaluate((lines) => {
    const [input] = shadow("textarea");
    input.value = lines;
    input.dispatchEvent(new Event("input"));
    input.form.requestSubmit();
  }, lines);
  const problem = page.locator(PROBLEM);
  await problem
    .getByText("This is too long for the model’s context of 1,024 tokens. Shorten it, and send it again.")
    .waitFor();
  assert.doesNotMatch(await page.locator("#speed").textContent(), /left out/);

  await page.locator("#clear").click();
  await page.locator("#tab-settings").click();
  const length = page.locator("#system-length");
  await page.getByLabel("System prompt").fill("Be brief.");
  await length.filter({ hasText: /^\d of the 1,024 tokens of the model’s context\.$/ }).waitFor();
  await page.getByLabel("System prompt").fill(lines);
  await length.filter({ hasText: /^Too long: [\d,]+ tokens, and the model’s context has 1,024\./ }).waitFor();
  await page.locator("#tab-chat").click();
  await say(page, QUESTION);
  await problem.getByText("The system prompt is too long for the model’s context of 1,024 tokens.").waitFor();

  await page.locator("#clear").click();
  await page.locator("#tab-settings").click();
  // With hardly any room for an answer.
  await page.getByLabel("System prompt").fill("word ".repeat(985));
  await length.filter({ hasText: /^9\d\d of the/ }).waitFor();
  await page.locator("#tab-chat").click();
  await ask(page, STORY);
  await page.locator("#conversation .note", { hasText: "Cut off: the context is full." }).waitFor();
  await page.context().close();
});

describe("the playground", () => {
  let page;

  before(async () => {
    // With the settings that visitors find.
    ({ page } = await ready(await browser.newContext(), `${url}?device=cpu`));
    await view(page, "playground");
  });

  after(() => page?.context().close());

  /** The answer to an example, which is of its form. */
  async function played(i) {
    await page.locator("#example").selectOption(`${i}`);
    await page.locator("#play-run").click();
    await page.locator("#verdict.good").waitFor();
    return JSON.parse(await page.locator("#answer").textContent());
  }

  test("each example is answered right, by its form and without blanks that nobody wants", async () => {
    assert.deepEqual(await played(0), { answer: "A cat has 4 legs.", legs: 4 });
    assert.deepEqual(await played(1), { answer: "The capital of France is Paris." });
    assert.deepEqual(await played(2), { sound: "A cat meows." });
    const { story } = await played(3);
    assert.match(story, /^Once upon a time, .* (?:He|She) loved to .* One day, [^.]*\.$/);
    assert.match(story, /\bfox\b/);
  });

  test("on a wide window nothing is stretched over the space that is left", async () => {
    await page.setViewportSize({ width: 1920, height: 1080 });
    const height = await page.locator("#play-run").evaluate((button) => button.getBoundingClientRect().height);
    assert.ok(height < 50, `${height} px`);
    const gaps = await page.locator("#play").evaluate((form) => {
      const boxes = [...form.children].map((child) => child.getBoundingClientRect());
      return boxes.slice(1).map((box, i) => box.top - boxes[i].bottom);
    });
    assert.ok(Math.max(...gaps) < 20, `${gaps}`);
    await page.setViewportSize({ width: 1280, height: 800 });
    const places = () =>
      page.evaluate(() => {
        const box = (selector) => document.querySelector(selector).getBoundingClientRect();
        return { run: box("#play-run").bottom, gap: box("#play").top - box("#playground .about-built-in").bottom };
      });
    const { run } = await places();
    assert.ok(run <= 800, `the button ends at ${run}`);
    await page.locator("#schema").fill("{}");
    const { gap } = await places();
    assert.ok(gap < 40, `${gap} px above the form`);
  });

  test("what answers cannot be held to is named; on a phone the answer is in sight", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    const run = async (schema) => {
      await page.locator("#schema").fill(JSON.stringify(schema));
      await page.locator("#play-run").click();
      await page.locator("#play-run").waitFor();
    };
    const verdict = page.locator("#verdict");
    const a = { type: "string", not: { const: "b" } };
    await run({ type: "object", properties: { a }, required: ["a"], additionalProperties: false });
    await verdict
      .filter({ hasText: "Answers cannot be held to the keyword not, which is at schema.properties.a.not." })
      .waitFor();
    await run({ type: "string", format: "date" });
    await verdict.filter({ hasText: "Not checked by the page: it has no check of format." }).waitFor();
    const box = await verdict.boundingBox();
    assert.ok(box.y + box.height <= 844, `the verdict ends at ${box.y + box.height}`);
  });

  test("the schema's field is as high as its text, where a style sheet cannot say that, too", async () => {
    await page.setViewportSize({ width: 1280, height: 1200 });
    await page.locator("#example").selectOption("0");
    const heights = (lines) =>
      page.locator("#schema").evaluate((field, lines) => {
        const { supports } = CSS;
        const { style } = field;
        const height = () => {
          field.dispatchEvent(new Event("input"));
          return field.offsetHeight;
        };
        field.value = "[\n".repeat(lines);
        const expected = height();
        CSS.supports = (name, ...value) => name !== "field-sizing" && supports.call(CSS, name, ...value);
        style.setProperty("field-sizing", "fixed");
        const found = height();
        style.removeProperty("field-sizing");
        style.removeProperty("block-size");
        CSS.supports = supports;
        return { expected, found };
      }, lines);
    for (const lines of [1, 12, 17, 60]) {
      const { expected, found } = await heights(lines);
      assert.equal(found, expected, `${lines} lines`);
    }
  });

  test("what the engine refuses is told in the visitor's language, and in small print as the engine says it", async () => {
    const { page } = await ready(await browser.newContext(), `${url}?device=cpu&lang=de`);
    await view(page, "playground");
    const verdict = page.locator("#verdict.bad");
    await page.locator("#question").fill("word ".repeat(2000));
    await page.locator("#play-run").click();
    await verdict.filter({ hasText: /^Das ist zu lang für das Modell\./ }).waitFor();
    assert.match(await verdict.locator("small[lang=en]").textContent(), /context/);
    await page.locator("#question").fill("What?");
    await page.locator("#schema").fill('{"type": "nonsense"}');
    await page.locator("#play-run").click();
    await verdict.filter({ hasText: "An dieses Schema lassen sich Antworten nicht binden." }).waitFor();
    assert.match(await verdict.locator("small[lang=en]").textContent(), /found "nonsense", expected array/);
    await page.context().close();
  });

  test("a schema that is none is told before the model is asked", async () => {
    await page.locator("#schema").fill("{");
    await page.locator("#play-run").click();
    assert.equal(await page.locator("#schema").evaluate((field) => field.validity.customError), true);
    await page.locator("#schema").fill('{"type": "nonsense"}');
    await page.locator("#play-run").click();
    await page.locator("#verdict.bad").waitFor();
    assert.match(
      await page.locator("#verdict").textContent(),
      /^Answers cannot be held to this schema\. .*found "nonsense", expected array/,
    );
    await page.locator("#schema").fill("{");
    await page.locator("#play-run").click();
    assert.equal(await page.locator("#verdict").textContent(), "", "what was said of another schema is gone");
  });

  test("the check finds what is wrong", async () => {
    const found = await page.evaluate(async () => {
      const { problems } = await import("/validate.js");
      const unknown = () => {
        try {
          return problems(1, { multipleOf: 2 });
        } catch (error) {
          return error.message;
        }
      };
      const node = { type: "object", properties: { next: { $ref: "#/$defs/node" } }, additionalProperties: false };
      const linked = { $defs: { node }, $ref: "#/$defs/node" };
      return [
        problems(
          { a: 1, b: "x" },
          { type: "object", properties: { a: { type: "string" } }, required: ["a", "c"], additionalProperties: false },
        ),
        problems([1, 2.5], { items: { type: "integer" }, maxItems: 1 }),
        problems("abc", { anyOf: [{ type: "null" }, { pattern: "^x" }] }),
        problems({ a: [1] }, { enum: [{ a: [1] }] }),
        problems({ next: { next: {} } }, linked),
        problems({ next: { next: 3 } }, linked),
        unknown(),
      ];
    });
    assert.deepEqual(found, [
      ["answer.a is not string", "answer.c is missing", "answer.b is not allowed"],
      ["answer[1] is not integer", "answer has more than 1 items"],
      ["answer fits none of anyOf"],
      [],
      [],
      ["answer.next.next is not object"],
      "it has no check of multipleOf",
    ]);
  });
});

test("the browser's way back leads through the views", async () => {
  const page = await (await browser.newContext()).newPage();
  await page.goto(`${url}?device=cpu`);
  const shown = () => page.locator("[role=tab][aria-selected=true]").getAttribute("id");
  for (const name of ["playground", "bench", "bench", "engine"]) await view(page, name);
  // Arrows pass by.
  await page.locator("#tab-engine").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await shown(), "tab-bench");
  for (const name of ["bench", "playground", "chat"]) {
    await page.evaluate(() => history.back());
    await page.waitForFunction((id) => document.getElementById(id)?.ariaSelected === "true", `tab-${name}`);
  }
  await page.context().close();
});

test("a view that cannot be fetched says so, and is there once it is shown again and can be", async () => {
  const { page } = await fresh({ serviceWorkers: "block" });
  const module = /\/benchmark-\w+\.js$/;
  await page.evaluate(noteWarnings);
  const told = page.locator("#bench [role=alert]", { hasText: "This view could not be loaded." });
  await page.route(module, (route) => route.abort());
  await page.locator("#tab-bench").click();
  await told.waitFor();
  await warning(page, /benchmark/);
  await page.unroute(module);
  // Firefox fetches a module that has failed only in a page that is loaded again.
  if (FIREFOX) await page.reload();
  else await page.locator("#tab-chat").click();
  await view(page, "bench");
  assert.equal(await told.count(), 0);
  await page.context().close();
});

test("a language that cannot be fetched gives way to English, which the console explains", async () => {
  const context = await browser.newContext({ locale: "de-DE" });
  await context.route(/\/de-\w+\.js$/, (route) => route.abort());
  await context.addInitScript(noteWarnings);
  const page = await context.newPage();
  await page.goto(address);
  await warning(page, /\/de-\w+\.js/);
  assert.equal(await page.locator("#tab-settings").textContent(), "Settings");
  await context.close();
});

test("the benchmark says what it will measure, draws it, compares it with the last, and saves JSON", async () => {
  const { page, problems } = await ready(await browser.newContext(), `${url}?temperature=0`);
  await page.locator("#tab-bench").click();
  const texts = (selector) => page.locator(selector).allTextContents();
  await page.locator("#bench-run:enabled").waitFor();
  const plan = (await texts("#bench-plan div")).join("\n");
  assert.match(plan, /^ModelBuilt-in model/);
  assert.match(plan, ADAPTER);
  assert.match(plan, /about 30 sec at 30 tokens\/s/);
  assert.match(plan, /1, 2, 4 requests at once.*3 times\n.*48 tokens.*\n.*Tokens\/s/);
  const peers = await texts("#bench-peers li");
  await page.locator("#bench-run").click();
  await page.locator("#bench-save:enabled").waitFor();
  const { name, content } = await saved(page, page.locator("#bench-save"));
  assert.equal(name, "tabloom-bench.json");
  assert.deepEqual(
    content.runs.map(({ requests, drafts, tokens }) => [requests, drafts, tokens]),
    [1, 2, 4].flatMap((n) => [false, true].map((drafts) => [n, drafts, 48 * n])),
  );
  for (const run of content.runs) assert.ok(run.first_token_ms > 0 && run.tokens_per_second > 0, JSON.stringify(run));
  assert.ok(content.runs.every(({ drafts, drafted_tokens }) => drafts || drafted_tokens === 0));
  assert.ok(content.runs.every(({ drafted_tokens, accepted_tokens }) => drafted_tokens >= accepted_tokens));
  const spent = content.runs.reduce((sum, { tokens, tokens_per_second: rate }) => sum + (3 * tokens) / rate, 0);
  const [, time, unit, rate] = /about ([\d.]+) (sec|min) at ([\d.]+) tokens\/s/.exec((await texts("#bench-plan"))[0]);
  assert.ok(Math.abs((Number(time) * (unit === "min" ? 60 : 1)) / spent - 1) < 0.6, `${time} ${unit}: ${spent} s`);
  assert.ok(Math.abs((18 * 48) / Number(rate) / spent - 1) < 0.06, `${rate} tokens/s: ${spent} s`);
  assert.equal(content.drafter, true);
  assert.ok(content.load_ms > 0 && content.weight_bytes > 0);
  assert.match(content.adapter, ADAPTER);
  assert.equal(await page.locator("#bench-results tbody tr").count(), 6);
  const bars = await texts("#bench-results li");
  assert.deepEqual(
    bars,
    content.runs.map(({ requests, drafts, ...rates }) => {
      const name = `${requests} request${requests > 1 ? "s" : ""}${drafts ? ", with drafts" : ""}`;
      const [rate, least, most] = ["", "_least", "_most"].map((of) => rates[`tokens_per_second${of}`]);
      assert.ok(least <= rate && rate <= most && rates.samples === 3, JSON.stringify(rates));
      const figures = [rate, least, most].map((rate) => rate.toLocaleString("en"));
      return name + (least === most ? figures[0] : `${figures[0]} (${figures[1]}–${figures[2]})`);
    }),
  );
  assert.deepEqual(await texts("#bench-peers li"), peers, "figures of another model are not compared");
  const documented = await readFile(new URL("../../docs/performance.md", import.meta.url), "utf8");
  const [, measured] = documented.split("## Comparison with other engines");
  const figures = (engine, adapter) => {
    const [, row] = new RegExp(`^\\| ${engine}[^|]*\\| ([^|]+) \\|`, "m").exec(
      measured.split(/^On lavapipe/m)[adapter],
    );
    return row.split(" / ").map(Number);
  };
  const shown = peers.map((peer) => Number(/[\d.]+$/.exec(peer.replace(/f16(?=[\d.]+$)/, "f16 "))[0]));
  const documentedRates = [
    ...["Tabloom, WebGPU", "Tabloom, CPU", "wllama, CPU", "transformers.js, CPU"].flatMap((name) => figures(name, 0)),
    ...[
      "Tabloom, kernels for software",
      "Tabloom, kernels for graphics",
      "wllama, WebGPU",
      "transformers.js, WebGPU",
    ].flatMap((name) => figures(name, 1)),
  ];
  assert.deepEqual(shown, documentedRates, "each engine's figure is that of the documentation");

  // What a visitor finds who comes back.
  await page.reload();
  await page.locator("#bench-state", { hasText: "The last run in this browser" }).waitFor();
  assert.deepEqual(await texts("#bench-results li"), bars);
  await page.locator("#bench-run:enabled").click();
  const before = content.runs[0].tokens_per_second.toLocaleString("en");
  const compared = new RegExp(`before: ${before.replace(".", "\\.")} \\((.+%|within the noise)\\)$`);
  await page.locator("#bench-results li", { hasText: compared }).first().waitFor();
  await page.locator("#bench-stop").click();
  await page.locator("#bench-state", { hasText: "Stopped." }).waitFor();
  await page.locator("#bench-run").click();
  await page.locator("#bench-stop").click();
  await page.locator("#bench-state", { hasText: "Stopped." }).waitFor();
  await page.goto(`${url}?temperature=0&lang=de#bench`);
  await page.locator("#bench-results caption", { hasText: /^Standardmodell, geladen in / }).waitFor();
  // On a phone each figure has a line, however long its name is.
  await page.setViewportSize({ width: 390, height: 844 });
  const cells = await page.locator("#bench-results tbody tr").evaluateAll((rows) =>
    rows.map((row) =>
      [...row.children].map((cell) => {
        const { left, right, height } = cell.getBoundingClientRect();
        return [left, right, height].map(Math.round).join();
      }),
    ),
  );
  assert.equal(cells.length, 6);
  const [[first]] = cells;
  assert.deepEqual(
    cells.flat().filter((cell) => cell !== first),
    [],
  );
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("a benchmark of the model that others were measured with stands beside their figures", async () => {
  const { page } = await open(await browser.newContext(), `${url}sw.js`);
  const run = {
    requests: 1,
    drafts: false,
    first_token_ms: 20,
    tokens_per_second: 7.25,
    tokens: 48,
    accepted_tokens: 0,
  };
  const report = {
    ...{ date: "2026-11-01T12:00:00Z", name: "SmolLM2-135M-Instruct", model: "https://models.invalid/", load_ms: 100 },
    ...{ device: "gpu", adapter: "a fast one", weight_bytes: 85e6, runs: [run, { ...run, drafts: true }] },
  };
  const here = async (report) => {
    await page.evaluate((report) => localStorage.setItem("tabloom-bench", JSON.stringify(report)), report);
    await page.goto(`${url}?device=cpu#bench`);
    await page.reload();
    await page.locator("#bench-peers li").first().waitFor();
    return page
      .locator("#bench-peers figure")
      .evaluateAll((groups) =>
        groups.map((group) =>
          [...group.querySelectorAll("li")].map(({ textContent }) => textContent).filter((text) => /here/.test(text)),
        ),
      );
  };
  const bar = ["Tabloom here, a fast one7.25"];
  assert.deepEqual(await here(report), [bar, bar]);
  // In more bits than the others.
  assert.deepEqual(await here({ ...report, weight_bytes: 269e6 }), [[], []]);
  await page.context().close();
});

test("a benchmark says in which runs the engine has stopped drafting, where it could have", async () => {
  const { page } = await open(await browser.newContext(), `${url}sw.js`);
  const runs = [
    { requests: 1, drafts: false, accepted_tokens: 0, drafted_tokens: 0 },
    { requests: 1, drafts: true, accepted_tokens: 20, drafted_tokens: 40 },
    { requests: 2, drafts: true, accepted_tokens: 1, drafted_tokens: 2 },
  ].map((run) => ({ ...run, first_token_ms: 20, tokens_per_second: 7, tokens: 48 * run.requests }));
  const report = { date: "2026-11-01T12:00:00Z", model: "https://models.invalid/", load_ms: 100, device: "cpu", runs };
  const told = async (drafter) => {
    const kept = JSON.stringify({ ...report, drafter });
    await page.evaluate((kept) => localStorage.setItem("tabloom-bench", kept), kept);
    await page.goto(`${url}?device=cpu#bench`);
    await page.reload();
    await page.locator("#bench-peers li").first().waitFor();
    const cells = await page.locator("#bench-results td:last-child").allTextContents();
    return [cells, await page.locator("#bench-results .note:visible").allTextContents()];
  };
  const why = "Paused: the engine has stopped drafting, because it does not pay here.";
  assert.deepEqual(await told(true), [["–", "20 of 48", "1 of 96, paused"], [why]]);
  assert.deepEqual(await told(false), [["–", "20 of 48", "1 of 96"], []]);
  await page.context().close();
});

test("a benchmark's run is the median of its samples, and differs from another only beyond both their spreads", async () => {
  const { page } = await open(browser, address);
  const { runs, changes } = await page.evaluate(async () => {
    const { change, runsOf } = await import("/bench.js");
    const sample = (drafts, rate, first) => ({
      ...{ requests: 1, drafts, first_token_ms: first, tokens_per_second: rate },
      ...{ tokens: 48, accepted_tokens: 0, drafted_tokens: rate },
    });
    const samples = [sample(false, 10, 30), sample(true, 20, 5), sample(false, 14, 10), sample(true, 21, 6)];
    const run = (tokens_per_second_least, tokens_per_second, tokens_per_second_most) => ({
      ...{ tokens_per_second_least, tokens_per_second, tokens_per_second_most },
    });
    const pairs = [
      [run(9, 10, 11), run(10.5, 12, 13)],
      [run(9, 10, 11), run(11, 12, 13)],
      [run(14, 15, 16), run(9, 10, 11)],
      [run(4, 5, 6), run(9, 10, 11)],
      // A report of an earlier version of the page.
      [run(9, 10, 11), { tokens_per_second: 10.4 }],
      [run(9, 10, 11), { tokens_per_second: 8 }],
    ];
    return {
      runs: runsOf([...samples, sample(false, 11, 20), sample(true, 30, 4)]),
      changes: pairs.map(([run, before]) => change(/** @type {any} */ (run), /** @type {any} */ (before))),
    };
  });
  const run = { requests: 1, tokens: 48, accepted_tokens: 0, samples: 3 };
  const rates = (first_token_ms, tokens_per_second_least, tokens_per_second, tokens_per_second_most) => ({
    ...{ first_token_ms, tokens_per_second_least, tokens_per_second, tokens_per_second_most },
    drafted_tokens: tokens_per_second,
  });
  assert.deepEqual(runs, [
    { ...run, drafts: false, ...rates(20, 10, 11, 14) },
    { ...run, drafts: true, ...rates(5, 20, 21, 30) },
  ]);
  assert.deepEqual(changes, [null, null, 0.5, -0.5, null, 0.25]);
  await page.close();
});

describe("the choice of a model", () => {
  let page;

  before(async () => ({ page } = await fresh()));

  after(() => page?.context().close());

  test("a model that cannot be loaded is explained, and the present one stays", async () => {
    await page.locator("#choose").click();
    await page.getByLabel("Address of a folder").fill("nowhere/else/");
    await page.keyboard.press("Enter");
    const problem = page.locator(PROBLEM);
    await problem.filter({ hasText: "“nowhere/else/” was not found, or is not public. Check the name." }).waitFor();
    assert.match(await problem.getAttribute("title"), /nowhere\/else\/config\.json/);
    await page.getByRole("button", { name: "Dismiss" }).click();
    assert.equal(await problem.isVisible(), false);

    await page.locator("#choose").click();
    await page.locator("#file").setInputFiles({ name: "notes.txt", mimeType: "", buffer: Buffer.from("It is red.") });
    await problem.filter({ hasText: "“notes.txt” is not a model: it is neither" }).waitFor();
    assert.equal(await page.locator("#file").inputValue(), "", "the same can be chosen again");

    const several = ["a.gguf", "b.gguf"].map((name) => ({ name, mimeType: "", buffer: Buffer.from("GGUF") }));
    await page.locator("#file").evaluate((picker) => picker.setAttribute("multiple", ""));
    await page.locator("#file").setInputFiles(several);
    await problem.filter({ hasText: "These are several models: a.gguf, b.gguf. Choose one of them." }).waitFor();

    const buffer = Buffer.from(await readFile(new URL("../goldens/gguf/llama_q4_0.gguf", import.meta.url)));
    buffer.write("other", buffer.indexOf("llama"));
    await page.locator("#choose").click();
    await page.locator("#file").setInputFiles({ name: "other.gguf", mimeType: "", buffer });
    await problem.filter({ hasText: /“other\.gguf” could not be loaded\..* Choose another model\./ }).waitFor();
    assert.doesNotMatch(await problem.textContent(), /site/);
    // A name that the visitor has not written cannot be wrong.
    await page.route("https://huggingface.co/**", (route) => route.abort());
    await page.locator("#choose").click();
    await page.getByRole("button", { name: "Load SmolLM2 135M Instruct" }).click();
    await problem.filter({ hasText: "could not be fetched. Check your connection, and try again." }).waitFor();
    await page.unroute("https://huggingface.co/**");

    assert.match(await problem.textContent(), /You can go on with “Built-in model”\./);
    assert.match(await page.locator("#model-size").textContent(), /^[\d.]+ MB$/);
    assert.equal(await ask(page, QUESTION), FRANCE.answer);
    assert.equal(await page.locator(PROBLEM).isVisible(), false);
  });

  test("what can be no model is told beside the field, and stays there to be mended", async () => {
    await page.locator("#choose").click();
    const field = page.getByLabel("Address of a folder");
    const told = page.locator("#refusal");
    for (const [entered, why] of [
      ["hello world", "“hello world” is not a model name. Enter a name on Hugging Face"],
      ["http://", "“http://” is not a model name."],
      ["https://models.invalid/some.gguf", "This page may fetch from its own site and from Hugging Face only."],
      ["https://huggingface.co/org/name/blob/main/a.onnx", "“a.onnx” is not a file that can be loaded."],
      ["models/own/config.json?x", "“config.json” is not a file that can be loaded."],
    ]) {
      await field.fill(entered);
      assert.equal(await told.textContent(), "");
      await page.keyboard.press("Enter");
      await told.filter({ hasText: why }).waitFor();
      assert.equal(await field.getAttribute("aria-invalid"), "true");
      assert.equal(await field.inputValue(), entered);
      assert.equal(await page.getByText(why).filter({ visible: true }).count(), 1, "once");
    }
    const right = ["org/name.bin", "hf:org/name:Q4_0", "org/name@main/a b/c", "smollm2-135m", "models/own/", "a.gguf"];
    const refused = await page.evaluate(async (right) => {
      const { refusal } = await import("/addresses.js");
      return right.map(refusal);
    }, right);
    assert.deepEqual(
      refused,
      right.map(() => ""),
    );
    await page.keyboard.press("Escape");
  });

  test("where only another model helps, an error offers to choose one", async () => {
    const problem = page.locator(PROBLEM);
    const another = problem.getByRole("button", { name: "Choose another model" });
    await page.locator("#choose").click();
    await page.locator("#file").setInputFiles({ name: "notes.txt", mimeType: "", buffer: Buffer.from("It is red.") });
    await another.click();
    await page.locator("#picker[open]").waitFor();
    await page.route("https://huggingface.co/**", (route) => route.abort());
    await page.locator("#address").fill("some/model");
    await page.keyboard.press("Enter");
    await problem
      .filter({ hasText: "“some/model” could not be fetched. Check your connection and the name" })
      .waitFor();
    assert.equal(await another.count(), 0);
    await problem.getByRole("button", { name: "Try again" }).waitFor();
    await page.unroute("https://huggingface.co/**");
    await page.getByRole("button", { name: "Dismiss" }).click();
    for (const model of ["hello world", "smollm2-136m", "nowhere/else/", "https://models.invalid/some/"]) {
      const { page } = await open(browser, `${address}&model=${encodeURIComponent(model)}`);
      await page.locator(PROBLEM).getByRole("button", { name: "Choose another model" }).click();
      await page.locator("#picker[open]").waitFor();
      await page.close();
    }
  });

  test("files and folders are chosen by buttons of the page, in its language", async () => {
    const { page } = await fresh({ locale: "de-DE", viewport: { width: 390, height: 844 } });
    await page.locator("#choose").click();
    for (const name of ["Datei auswählen", "Ordner auswählen"]) {
      const picker = page.getByRole("button", { name });
      await page.keyboard.press("Tab");
      await picker.focus();
      const { width, height } = await picker.boundingBox();
      assert.ok(width <= 1 && height <= 1, "the browser's own is not seen");
      const label = page.locator("#disk label", { hasText: name });
      assert.notEqual(await label.evaluate((label) => getComputedStyle(label).outlineStyle), "none");
      const chooser = page.waitForEvent("filechooser");
      await label.click();
      await chooser;
    }
    await page.context().close();
  });

  test("the welcome offers a better model for this device, and so does an answer that gives up", async () => {
    await page.locator("#clear").click();
    const better = page.locator("#get-better");
    await better.waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    const { y, height } = await better.boundingBox();
    assert.ok(y + height < (await page.locator(INPUT).boundingBox()).y, "seen on a phone without scrolling");
    await page.setViewportSize({ width: 1280, height: 720 });
    await page.context().setOffline(true);
    await better.waitFor({ state: "hidden" });
    const unreachable = page.locator("#unreachable", { hasText: "There is no network now" });
    await unreachable.waitFor();
    await page.context().setOffline(false);
    await better.waitFor();
    assert.ok(await unreachable.isHidden());
    await ask(page, QUESTION);
    await better.waitFor({ state: "hidden" });
    assert.match(await ask(page, "Explain the theory of relativity to me."), /^Sorry/);
    await better.waitFor();
    await page.locator("#clear").click();
    const notes = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("It is red.") };
    await page.locator("#conversation input[type=file]").setInputFiles(notes);
    await page.locator("#conversation [part=attachment]").waitFor();
    await ask(page, "What colour is it?");
    await better.waitFor();
  });

  test("what is below the offer of a better model stays where it is as the offer comes", async () => {
    const { page } = await fresh();
    await page.addInitScript(() => {
      globalThis.tops = new Set();
      requestAnimationFrame(function sample() {
        if (document.querySelector("#suggestions button")) {
          globalThis.tops.add(Math.round(document.querySelector(".links").getBoundingClientRect().top));
        }
        requestAnimationFrame(sample);
      });
    });
    await page.reload();
    await page.locator("#get-better").waitFor();
    assert.equal(await page.evaluate(() => globalThis.tops.size), 1);
    await page.context().close();
  });

  test("a better model is shown with what it takes before anything is fetched", async () => {
    const asked = [];
    page.context().on("request", (request) => asked.push(request.url()));
    await page.locator("#clear").click();
    await page.setViewportSize({ width: 390, height: 844 });
    await page.locator("#get-better").click();
    const choices = page.locator("#upgrades li");
    await choices.first().waitFor();
    for (const text of await choices.allTextContents()) {
      const [, size, unit, count, time, speed] = text.match(
        /([\d.]+) ([MG])B to download, about (\d+) (sec|min) at the measured ([\d,.]+) Mbit\/s; [\d.]+ [MG]B of memory; licence Apache/,
      );
      const seconds = (size * (unit === "G" ? 8000 : 8)) / speed.replaceAll(",", "");
      const [told, half] = time === "min" ? [60 * count, 30] : [+count, count < 10 ? 1 : 5];
      assert.ok(0.98 * (told - half) <= seconds && seconds <= 1.02 * (told + half), text);
      // These would be too slow without a GPU.
      assert.doesNotMatch(text, /graphics card/);
    }
    assert.match(await page.locator("#slow").textContent(), /on the processor.*slow/);
    const marked = choices.filter({ hasText: "Recommended for this device" });
    assert.equal(await marked.count(), 1);
    assert.ok(await marked.getByRole("radio").isChecked());
    const begins = page.locator("#upgrade").getByRole("button", { name: "Load" });
    const { y, height } = await begins.boundingBox();
    assert.ok(y + height < 844, "what begins it is in sight");
    await page.locator("#upgrade").getByRole("button", { name: "Cancel" }).click();
    assert.equal(await page.locator("#upgrade").isVisible(), false);
    assert.deepEqual(
      asked.filter((address) => /huggingface/.test(address)),
      [],
    );
    await page.setViewportSize({ width: 1280, height: 720 });
  });

  test("how far another model is loaded is in sight on a phone; cancelled, the present one stays", async () => {
    const weights = await modelFile("model.safetensors");
    const half = (response) => {
      response.writeHead(200, { "content-length": weights.length });
      response.write(weights.subarray(0, weights.length / 2));
    };
    const server = await serve({ "models/half/": { "model.safetensors": half } });
    const { page } = await ready(
      await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true }),
      `${server.url}?device=cpu&temperature=0`,
    );
    await page.locator("#choose").click();
    await page.locator("#address").fill("models/half/");
    await page.keyboard.press("Enter");
    const line = page.locator("#switching");
    await line.filter({ hasText: /Loading half [\d.]+ \/ [\d.]+ MB/ }).waitFor();
    const seen = await page.evaluate(() =>
      ["switching-name", "switching-part", "cancel-switch", "switching-bar"].filter((id) => {
        const { left, top, width, height } = document.getElementById(id).getBoundingClientRect();
        return document.elementFromPoint(left + width / 2, top + height / 2)?.id === id;
      }),
    );
    assert.deepEqual(seen, ["switching-name", "switching-part", "cancel-switch", "switching-bar"]);
    await page.setViewportSize({ width: 844, height: 390 });
    const tops = await page
      .locator("#choose, [role=tab]")
      .evaluateAll((all) => all.map((e) => e.getBoundingClientRect().top));
    assert.ok(Math.max(...tops) - Math.min(...tops) < 20, `on its side, the header is one line: ${tops}`);
    assert.equal(await page.evaluate(() => document.documentElement.scrollHeight), 390);
    await page.setViewportSize({ width: 390, height: 844 });
    assert.equal(await ask(page, QUESTION), FRANCE.answer);
    assert.equal(await page.locator("#model-name").textContent(), "half");
    await view(page, "engine");
    const tabs = page.locator("#panel tbody th");
    await tabs.first().waitFor();
    assert.deepEqual(await tabs.allTextContents(), ["This tab"], "what loads it is no other tab");
    await view(page, "chat");
    await line.getByRole("button", { name: "Cancel" }).click();
    await line.waitFor({ state: "hidden" });
    assert.equal(await page.locator("#model-name").textContent(), "Built-in model");
    assert.match(await page.locator("#model-size").textContent(), /^[\d.]+ MB$/);
    assert.equal(await page.locator(PROBLEM).isVisible(), false);
    assert.equal(await ask(page, QUESTION), FRANCE.answer);
    await page.context().close();
    await server.close();
  });

  test("a conversation that is long for the built-in model says so early, and what to do", async () => {
    const { page } = await fresh();
    const say = (times) => ["user", "assistant"].map((role) => ({ role, content: "Say yes. ".repeat(times) }));
    await keep(page, [
      { title: "Short", messages: say(40) },
      { title: "Long", messages: say(80) },
    ]);
    await page.reload();
    await loaded(page);
    const hint = page.locator("#long");
    const share = async (title, wanted) => {
      await page.locator("#conversation-list .title", { hasText: title }).click();
      await page.locator(MESSAGES).nth(1).waitFor();
      await page.locator("#speed", { hasText: wanted }).waitFor();
    };
    await share("Short", /context [1-5]?\d%/);
    assert.equal(await hint.isVisible(), false);
    const composer = () => page.locator("#conversation .composer").boundingBox();
    const input = await composer();
    await share("Long", /context [67]\d%/);
    await hint.filter({ hasText: "long for the small model" }).waitFor();
    assert.deepEqual(await composer(), input, "the input stays where it is");
    const [speed, place, words, better] = await Promise.all(
      ["#speed", "#better", "#long", "#get-better"].map((id) => page.locator(id).boundingBox()),
    );
    assert.equal(place.x, speed.x);
    assert.ok(input.y - place.y - place.height >= 3, "what is offered is apart from the input below");
    assert.ok(better.y < words.y + words.height, "what helps is beside it");
    await share("Short", /context [1-5]?\d%/);
    await hint.waitFor({ state: "hidden" });
    await share("Long", /context [67]\d%/);
    await page.locator("#better").getByRole("button", { name: "New chat" }).click();
    await hint.waitFor({ state: "hidden" });
    assert.equal(await page.locator(MESSAGES).count(), 0);
    await page.context().close();
  });

  test("the line for a site is shown and copied", async () => {
    await page.locator("#clear").click();
    await page.getByRole("button", { name: "Put this on your site" }).click();
    await page.locator("#site", { hasText: "npm install tabloom" }).waitFor();
    const line = await page.locator("#site-line").textContent();
    const [above, below] = await page.evaluate(() =>
      ["#site-line", "#site .hint"].map((one) => document.querySelector(one).getBoundingClientRect()),
    );
    assert.ok(above.bottom <= below.top, "what is said of the lines is below them");
    // A stranger's site has no built-in model.
    assert.match(
      line,
      /^<script type="module" src="\/tabloom\/element\.js"><\/script>\n<tabloom-chat model="([\w.-]+)"><\/tabloom-chat>$/,
    );
    const { REGISTRY } = await import("../../pkg-template/models/registry.js");
    assert.ok(Object.hasOwn(REGISTRY, /model="(.*)"/.exec(line)[1]), line);
    await page.locator("#site-about", { hasText: "Other sites do not have the built-in model" }).waitFor();
    await allowClipboard(page);
    await page.locator("#copy-site").click();
    await page.locator("#site-said", { hasText: "Copied." }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), line);
    await page.keyboard.press("Escape");
  });

  test("the model in use is marked, and one is recommended", async () => {
    await page.locator("#choose").click();
    await page.locator("#kept [aria-current=true]", { hasText: "Built-in model" }).waitFor();
    assert.equal(await page.locator("#suggested li", { hasText: "Recommended for this device" }).count(), 1);
    assert.match(await page.locator("#room").textContent(), /run on the processor here/);
    assert.doesNotMatch(await page.locator("#room").textContent(), /graphics card/);
    await page.context().setOffline(true);
    await page.keyboard.press("Escape");
    await page.locator("#choose").click();
    await page.locator("#room", { hasText: "There is no network now" }).waitFor();
    await page.context().setOffline(false);
    await page.keyboard.press("Escape");
  });

  testBeyondFirefox("folders")(
    "models of this device are marked, too, and their line for a site is one to change",
    async () => {
      const folder = await modelFolder();
      const { page } = await fresh();
      await page.locator("#choose").click();
      await page.locator("#folder").setInputFiles(folder);
      const name = folder.split("/").at(-1);
      await loaded(page, name);
      await page.locator("#choose").click();
      const present = page.locator("#picker [aria-current=true]");
      await present.filter({ hasText: name }).waitFor();
      assert.equal(await present.count(), 1);
      assert.match(await present.textContent(), /In use; [\d.]+ MB, not kept for the next visit/);
      await page.keyboard.press("Escape");
      await page.locator("#chat .embed").click();
      await page.locator("#site-about", { hasText: "put them on your server, here as /models/my-model/" }).waitFor();
      assert.match(await page.locator("#site-line").textContent(), /model="\/models\/my-model\/"/);
      await page.context().close();

      // Dropped, also where browsers give no handle of it.
      const context = await browser.newContext();
      await context.addInitScript(() => {
        delete (/** @type {any} */ (DataTransferItem.prototype).getAsFileSystemHandle);
      });
      const another = await ready(context, address);
      const devtools = await context.newCDPSession(another.page);
      const data = { items: [], files: [folder], dragOperationsMask: 1 };
      for (const type of /** @type {const} */ (["dragEnter", "dragOver", "drop"])) {
        await devtools.send("Input.dispatchDragEvent", { type, x: 400, y: 300, data });
      }
      await loaded(another.page, name);
      assert.equal(await ask(another.page, QUESTION), FRANCE.answer);
      assert.deepEqual(another.problems, []);
      await context.close();
      await rm(folder, { recursive: true });
    },
  );

  test("suggested models are those of the package's names, or GGUF files of families that tests load", async () => {
    const { REGISTRY } = await import("../../pkg-template/models/registry.js");
    const { SUGGESTED } = await import("../../www/suggested.js");
    const pinned = new Map(Object.values(REGISTRY).map((name) => /** @type {[string, string]} */ (name.split("@"))));
    const loaded = await readFile(new URL("../native/gguf.rs", import.meta.url), "utf8");
    for (const { repository, revision, file, licence, bytes, address } of SUGGESTED) {
      if (file) {
        const [, family] = /^(qwen\d)(?:\.5)?-.*\.gguf$/i.exec(file) ?? [];
        assert.ok(family && loaded.includes(`("${family.toLowerCase()}_`), file);
        assert.equal(address, `https://huggingface.co/${repository}/resolve/main/${file}`);
      } else {
        assert.ok(revision && revision === pinned.get(repository), repository);
        assert.equal(address, `https://huggingface.co/${repository}/resolve/${revision}/`);
      }
      assert.ok(/^[\w.-]+\/[\w.-]+$/.test(repository) && /\d$/.test(licence) && bytes > 1e8, address);
    }
  });

  test("suggestions tell their size, and what is known of their fit", async () => {
    await page.locator("#choose").click();
    await page.locator("#suggested li").first().waitFor();
    for (const text of await page.locator("#suggested p").allTextContents()) {
      assert.match(text, /[\d.]+ [MG]B to download.*; [\d.]+ [MG]B of memory; licence .+\. .+\./);
    }
    const told = await page.evaluate(async () => {
      const { fit } = await import("/better.js");
      const memory = { deviceBytes: 2 ** 33, budgetBytes: 2 ** 32, budgetReason: /** @type {const} */ ("desktop") };
      const told = (neededBytes, storable) => fit({ neededBytes, storable }, memory);
      return [told(1e6, true), told(1e6, false), told(1e6, null), told(5e9, true), told(2 ** 32, true)].concat(
        fit({ neededBytes: 2 ** 31, storable: true }, { ...memory, deviceBytes: 2 ** 31 }),
      );
    });
    assert.match(told[0], /^Fits the browser’s storage/);
    assert.match(told[1], /More than the browser keeps/);
    assert.match(told[2], /not known/);
    assert.match(told[3], /Too large/);
    assert.match(told[4], /^Fits/);
    assert.match(told[5], /More than half of this device’s 2 GiB of memory/);
    await page.keyboard.press("Escape");
  });

  test("what is pasted becomes a name or an address", async () => {
    const sources = await page.evaluate(async () => {
      const { sourceOf } = await import("/addresses.js");
      return [
        "org/name",
        " org/name-GGUF:Q4_0 ",
        " https://huggingface.co/org/name ",
        "https://huggingface.co/org/name/tree/v1",
        "https://huggingface.co/org/name/tree/main/a%20b/c/",
        "https://huggingface.co/org/name/blob/main/a/b.gguf?x",
        "https://example.org/m/",
        "models/mine/",
      ].map(sourceOf);
    });
    assert.deepEqual(sources, [
      "org/name",
      "org/name-GGUF:Q4_0",
      "org/name",
      "org/name@v1",
      "org/name@main/a b/c",
      "https://huggingface.co/org/name/resolve/main/a/b.gguf",
      "https://example.org/m/",
      "models/mine/",
    ]);
  });

  test("a GGUF file is loaded by its repository and quantisation, which are its name", async () => {
    // Requests of a worker of the page's own can be seen.
    const { page } = await ready(await browser.newContext(), `${address}&host=private`);
    const commit = "1".repeat(40);
    const siblings = ["m-Q4_0.gguf", "m-Q8_0.gguf"].map((rfilename) => ({ rfilename }));
    await page.route("https://huggingface.co/**", (route) => {
      const isList = route.request().url().endsWith("/api/models/org/name-GGUF/revision/main");
      return isList ? route.fulfill({ json: { sha: commit, siblings } }) : new Promise(() => {});
    });
    const load = async (name) => {
      await page.locator("#choose").click();
      await page.locator("#address").fill(name);
      await page.keyboard.press("Enter");
    };
    await load("org/name-GGUF");
    const problem = page.locator(PROBLEM, { hasText: "Add a word of its name" });
    await problem.waitFor();
    assert.match(await problem.textContent(), /“org\/name-GGUF” does not say .*m-Q4_0\.gguf, m-Q8_0\.gguf/);
    const asked = page.waitForRequest(`https://huggingface.co/org/name-GGUF/resolve/${commit}/m-Q4_0.gguf`);
    await load("org/name-GGUF:Q4_0");
    await page.locator("#switching-name", { hasText: /^Loading name-GGUF:Q4_0$/ }).waitFor();
    await asked;
    await page.context().close();
  });

  test("a model that is loaded in the middle of answers stays; they can go on with it", async () => {
    await page.locator("#clear").click();
    await begin(page, STORY);
    await page.locator("#clear").click();
    await begin(page, STORY);
    const away = page.locator("#conversation-list .title", { hasText: "being answered" });
    await away.waitFor();
    await page.locator("#choose").click();
    await page.getByLabel("Address of a folder").fill(`${url}model`);
    await page.keyboard.press("Enter");
    await loaded(page, /^model$/);
    await page.locator("#conversation .note", { hasText: "Stopped." }).waitFor();
    await away.waitFor({ state: "detached" });
    await releaseAnswers(page);
    await page.waitForTimeout(500);
    assert.match(await page.locator("#model-size").textContent(), /^[\d.]+ MB$/);
    const [, part] = await said(page);
    await page.getByRole("button", { name: "Continue" }).click();
    const whole = await answered(page);
    assert.ok(whole.startsWith(part) && whole.length > part.length, whole);
  });
});

test("with large text a phone's list of conversations has rows", async () => {
  const { page } = await fresh({ viewport: { width: 390, height: 844 } });
  const messages = [{ role: "user", content: "Who?" }];
  const kept = Array.from({ length: 9 }, (_, n) => ({ title: `Number ${n}`, messages }));
  await keep(page, kept);
  await page.reload();
  await page.locator("#show-history").click();
  const list = page.locator("#conversation-list");
  for (const size of ["100%", "150%", "200%"]) {
    await page.evaluate((size) => (document.documentElement.style.fontSize = size), size);
    const { height } = await list.evaluate((list) => list.getBoundingClientRect());
    assert.ok(height > 844 / 4, `${height} px at ${size}`);
    const foot = page.locator("#history .foot");
    const [below, above] = await Promise.all(
      [foot, list].map((part) => part.evaluate((e) => e.getBoundingClientRect())),
    );
    assert.ok(below.top >= above.bottom - 1, `the list reaches ${above.bottom - below.top} px too far at ${size}`);
  }
  await page.evaluate(() => (document.documentElement.style.fontSize = ""));
  // As a window of 1280x800 is at 200 %: the list lies over the conversation, and nothing else scrolls.
  await page.setViewportSize({ width: 640, height: 400 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollHeight), 400);
  assert.equal(await page.locator(INPUT).isVisible(), false);
  await page.getByRole("button", { name: "Number 3" }).first().click();
  await page.locator(MESSAGES, { hasText: "Who?" }).waitFor();
  await page.context().close();
});

describe("for everybody", () => {
  test("what is short or narrow scrolls, and the welcome begins at its top", async () => {
    const { page } = await fresh({ viewport: { width: 844, height: 390 } });
    const log = () => page.evaluate(() => shadow(".log")[0].scrollTop);
    const beyond = () =>
      page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(await log(), 0);
    await page.setViewportSize({ width: 320, height: 256 });
    const composer = await page.evaluate(
      () => shadow(".composer")[0].getBoundingClientRect().top - shadow(".log")[0].getBoundingClientRect().top,
    );
    assert.equal(await beyond(), 0);
    assert.ok(composer > 40, "there is a log above the composer");
    await page.evaluate(() => (document.documentElement.style.fontSize = "200%"));
    await page.setViewportSize({ width: 390, height: 844 });
    assert.equal(await beyond(), 0);
    assert.ok(await page.locator("#model-name").isVisible());
    await page.locator(SEND).scrollIntoViewIfNeeded();
    const [send, box] = await page.evaluate(() => [
      innerHeight - shadow(".round[part~=send]")[0].getBoundingClientRect().bottom,
      shadow(".log")[0].getBoundingClientRect(),
    ]);
    assert.ok(send >= 0, `Send ends ${-send} px below the window`);
    assert.ok(box.top > 0 && box.height > 844 / 2, `a log of ${box.height} px at ${box.top}`);
    assert.ok((await page.locator("#show-history").evaluate((e) => e.getBoundingClientRect().bottom)) <= box.top);
    for (const name of VIEWS) {
      await view(page, name);
      assert.equal(await beyond(), 0, name);
    }
    for (const [opens, dialog] of [
      ["#choose", "#picker"],
      ["#settings .embed", "#site"],
      ["#get-better", "#upgrade"],
    ]) {
      if (dialog === "#upgrade") await view(page, "chat");
      await page.locator(opens).click();
      await page.locator(`${dialog}[open] :is(li, pre)`).first().waitFor();
      const { wide, seen } = await page.locator(dialog).evaluate((dialog) => {
        const { right, bottom } = dialog.querySelector(".head button").getBoundingClientRect();
        return { wide: dialog.scrollWidth - dialog.clientWidth, seen: right <= innerWidth && bottom <= innerHeight };
      });
      assert.deepEqual({ wide, seen }, { wide: 0, seen: true }, dialog);
      assert.equal(await beyond(), 0, dialog);
      await page.keyboard.press("Escape");
    }
    await page.evaluate(() => (document.documentElement.style.fontSize = ""));
    await page.setViewportSize({ width: 640, height: 400 });
    const messages = [{ role: "user", content: "Who?" }];
    await keep(
      page,
      [1, 2, 3, 4, 5].map((n) => ({ title: `Number ${n}`, messages })),
    );
    await page.reload();
    await loaded(page);
    await page.locator("#show-history").click();
    for (const n of [5, 1]) {
      const entry = page.locator("#conversation-list .title", { hasText: `Number ${n}` });
      await entry.scrollIntoViewIfNeeded();
      const seen = await entry.evaluate((entry) => {
        const clip = (box, { top, bottom }) => [Math.max(box[0], top), Math.min(box[1], bottom)];
        const around = ["#conversation-list", "#history"].map((id) => entry.closest(id).getBoundingClientRect());
        const { top, bottom, height } = entry.getBoundingClientRect();
        const [from, to] = around.reduce(clip, [Math.max(top, 0), Math.min(bottom, innerHeight)]);
        return (to - from) / height;
      });
      assert.ok(seen > 0.95, `${seen} of the conversation is seen`);
    }
    await page.setViewportSize({ width: 844, height: 390 });
    const heights = await page.locator("#conversation-list").evaluate((list) => [list.clientHeight, list.scrollHeight]);
    assert.equal(heights[0], heights[1], "what is around the list scrolls with it");
    await choose(page, 0, "Delete");
    await page.locator("#undo").waitFor();
    assert.ok(await inSight(page.locator("#undo")));
    await page.setViewportSize({ width: 1280, height: 800 });
    await view(page, "engine");
    const broken = await page.locator("#panel .facts :is(dt, dd)").evaluateAll((all) =>
      all.flatMap((e) => {
        const range = document.createRange();
        const words = [...e.textContent.matchAll(/\S+/g)].filter(({ 0: word, index }) => {
          range.setStart(e.firstChild, index);
          range.setEnd(e.firstChild, index + word.length);
          return range.getClientRects().length > 1;
        });
        return words.map(([word]) => word);
      }),
    );
    assert.deepEqual(broken, [], "words in more than one line");
    await page.context().close();
  });

  testBeyondFirefox("scheme")("in forced colours only the chosen tab looks chosen", async () => {
    const { page } = await fresh({ forcedColors: "active" });
    const colours = await page.evaluate(() =>
      [...document.querySelectorAll("[role=tab]")].map((tab) => getComputedStyle(tab).borderBottomColor),
    );
    const [chosen, ...others] = colours;
    assert.equal(new Set(others).size, 1);
    assert.notEqual(chosen, others[0]);
    await page.context().close();
  });

  testBeyondFirefox("scheme")("in forced colours draft tokens are marked in the system's colours", async () => {
    const { page } = await fresh({ forcedColors: "active" });
    await ask(page, QUESTION);
    const [marked, system] = await page.evaluate(() => {
      const probe = document.body.appendChild(document.createElement("p"));
      probe.style.cssText = "background: Mark; color: MarkText; forced-color-adjust: none";
      const answer = /** @type {Element} */ (shadow(".assistant .text").at(-1));
      const looks = [getComputedStyle(answer, "::highlight(drafted)"), getComputedStyle(probe)];
      return looks.map(({ backgroundColor, color }) => ({ backgroundColor, color }));
    });
    assert.deepEqual(marked, system);
    await page.context().close();
  });

  for (const colorScheme of ["light", "dark"]) {
    const declare = colorScheme === "light" ? test : testBeyondFirefox("scheme");
    declare(`text stands out from its ground, ${colorScheme}`, async () => {
      const { page } = await fresh({ colorScheme });
      await ask(page, QUESTION);
      for (const name of VIEWS) {
        await view(page, name);
        assert.deepEqual(await page.evaluate(pale), [], name);
      }
      await page.locator("#choose").click();
      await page.locator("#suggested li").first().waitFor();
      assert.deepEqual(await page.evaluate(pale), [], "picker");
      await page.context().close();
    });
  }

  test("the keyboard reaches everything, and shows where it is", async () => {
    const { page } = await fresh({ reducedMotion: "reduce" });
    await ask(page, QUESTION);
    await page.locator("#conversation-list li").waitFor();
    // The first stop leads past the list, of which each conversation has two.
    const focused = () => page.evaluate(() => document.activeElement.id);
    await page.locator("h1").click();
    await page.keyboard.press("Shift+Tab");
    assert.equal(await focused(), "skip");
    const { width, height } = await page.locator("#skip").boundingBox();
    assert.ok(width > 50 && height > 10 && (await inSight(page.locator("#skip"))), "it is seen");
    assert.equal((await page.locator("#top").boundingBox()).y, 0, "and shoves nothing");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "conversation");
    assert.ok(await page.locator("#chat").isVisible());
    await page.locator("#conversation-list .title").focus();
    let stops = 0;
    while (await page.locator("#conversation-list li").evaluate((row) => row.contains(document.activeElement))) {
      stops++;
      await page.keyboard.press("Tab");
    }
    assert.equal(stops, 2);
    const notes = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("It is red.") };
    await page.locator("#conversation input[type=file]").setInputFiles(notes);
    await page.locator("#conversation [part=attachment]").waitFor();
    for (const name of VIEWS) {
      await view(page, name);
      const { missed, unseen } = await walk(page);
      assert.deepEqual(missed, [], name);
      assert.deepEqual(unseen, [], name);
    }
    await page.locator("#choose").focus();
    await page.keyboard.press("Enter");
    await page.locator("#suggested li").first().waitFor();
    const { missed, unseen } = await walk(page, "#picker");
    assert.deepEqual(missed, []);
    assert.deepEqual(unseen, []);
    await page.keyboard.press("Escape");
    assert.equal(await page.evaluate(() => document.activeElement.id), "choose");
    const moving = await page.evaluate(() => document.getAnimations().length);
    assert.equal(moving, 0, "nothing moves for those who want that");
    await page.context().close();
  });

  testBeyondFirefox("touch")("what is touched is large enough, in every view and dialog", async () => {
    const { page } = await fresh({ viewport: { width: 390, height: 844 }, hasTouch: true });
    const small = () =>
      page.evaluate(() => {
        const fields = "select, textarea, input:not([type=checkbox], [type=radio])";
        const controls = `button, a, summary, ${fields}, :is(label.plain, label.check, #upgrade label)`;
        const dialog = document.querySelector("dialog[open]");
        return [...(dialog ?? document).querySelectorAll(controls), ...(dialog ? [] : shadow(controls))]
          .filter((e) => {
            const { width, height } = e.getBoundingClientRect();
            // A link within a sentence is as high as its line; what is unseen is for the keyboard.
            const within = e.matches("p.lead a, #skip, .visually-hidden");
            return e.checkVisibility({ visibilityProperty: true }) && !within && width > 1 && height < 43.5;
          })
          .map((e) => `${e.localName}#${e.id} ${e.textContent.slice(0, 30)}: ${e.getBoundingClientRect().height}`);
      });
    const below = await page.evaluate(() => innerHeight - shadow(".composer")[0].getBoundingClientRect().bottom);
    assert.ok(below < 24, `${below} px lie below the input`);
    assert.deepEqual(await small(), [], "welcome");
    const notes = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("It is red.") };
    await page.locator("#conversation input[type=file]").setInputFiles(notes);
    await page.locator("#conversation [part=attachment]").waitFor();
    assert.deepEqual(await small(), [], "attached");
    await ask(page, "What colour is it?");
    await page.locator("#conversation summary").waitFor();
    for (const name of VIEWS) {
      await view(page, name);
      if (name === "engine") await page.locator("#panel summary").waitFor();
      assert.deepEqual(await small(), [], name);
    }
    for (const [opens, dialog, content] of [
      ["#choose", "#picker", "#suggested li"],
      ["#settings .embed", "#site", "#site-line"],
      ["#get-better", "#upgrade", "#upgrades li"],
    ]) {
      if (dialog === "#upgrade") {
        await view(page, "chat");
        await page.locator("#clear").click();
      }
      await page.locator(opens).click();
      await page.locator(content).first().waitFor();
      assert.deepEqual(await small(), [], dialog);
      await page.keyboard.press("Escape");
    }
    await page.context().close();
  });

  test("an error is in sight on a phone on its side, with what to do about it", async () => {
    const without = await launch({ webgpu: false });
    const context = await without.newContext({ viewport: { width: 844, height: 390 } });
    const { page } = await open(context, `${url}?model=${encodeURIComponent(`${url}model`)}&temperature=0`);
    await page.locator(PROBLEM, { hasText: "Use the processor, or a current Chrome, Edge or Safari." }).waitFor();
    assert.match(await page.locator(PROBLEM).getAttribute("title"), /WebGPU|adapter/);
    const processor = page.getByRole("button", { name: "Use the processor" });
    const seen = await processor.evaluate((button) => {
      const { left, top, width, height } = button.getBoundingClientRect();
      const root = /** @type {ShadowRoot} */ (button.getRootNode());
      return root.elementFromPoint(left + width / 2, top + height / 2) === button && top + height <= innerHeight;
    });
    assert.ok(seen);
    await processor.click();
    await loaded(page);
    await without.close();
  });

  test("a page that died while it loaded the model asks before it loads it again", async () => {
    const context = await browser.newContext();
    const { page, requests } = await open(context, address);
    await loaded(page);
    // What a page leaves that dies.
    await page.evaluate(() => sessionStorage.setItem("tabloom loading", ""));
    requests.length = 0;
    await page.reload();
    await page.locator(PROBLEM, { hasText: "The page ended while the model was loading" }).waitFor();
    await page.locator("#tab-engine").click();
    await page.locator("#panel", { hasText: "No model is loaded." }).waitFor();
    const weights = () => requests.filter((request) => request.endsWith(".safetensors"));
    assert.deepEqual(weights(), []);
    await page.locator("#tab-chat").click();
    await page.getByRole("button", { name: "Try again" }).click();
    await loaded(page);
    await context.close();
  });

  test("a dialog closes by a click beside it", async () => {
    const { page } = await fresh();
    for (const [opens, dialog] of [
      ["#choose", "#picker"],
      ["#get-better", "#upgrade"],
      ["#chat .embed", "#site"],
    ]) {
      await page.locator(opens).click();
      const open = page.locator(`${dialog}[open]`);
      const { x, y, height } = await open.boundingBox();
      await page.mouse.click(x + 5, y + height / 2);
      assert.ok(await open.isVisible(), "on its edge");
      await page.mouse.click(x - 5, y + height / 2);
      await open.waitFor({ state: "detached" });
    }
    await page.context().close();
  });

  for (const [width, height] of [
    [320, 568],
    [568, 320],
  ]) {
    test(`the smallest phone has input and the end of the answer in sight, ${width} px wide`, async () => {
      const { page } = await fresh({ viewport: { width, height }, hasTouch: true });
      await ask(page, STORY);
      await ask(page, QUESTION);
      const [wide, high, send, arrow] = await page.evaluate(() => [
        document.documentElement.scrollWidth,
        document.documentElement.scrollHeight,
        shadow("[part~=send]")[0].getBoundingClientRect().bottom,
        parseFloat(getComputedStyle(document.querySelector("#choose"), "::after").width),
      ]);
      assert.deepEqual([wide, high], [width, height]);
      assert.ok(send < height, `${send}`);
      assert.ok(await inSight(page.locator(".assistant [part~=text]").last()));
      assert.ok(arrow > 6, `${arrow} px of the arrow`);
      await page.context().close();
    });
  }

  test("who cancels loading on a phone sees what loads the model", async () => {
    const context = await browser.newContext({ viewport: { width: 390, height: 844 } });
    await context.route("**/model/*.safetensors", () => new Promise(() => {}));
    // Requests of a worker of the page's own can be held.
    const { page } = await open(context, `${address}&host=private`);
    await page.getByRole("button", { name: "Cancel" }).click();
    const start = page.getByRole("button", { name: "Load the model" });
    await start.waitFor();
    assert.ok(await inSight(start));
    assert.equal(await page.locator("#model-size").textContent(), "");
    await context.close();
  });

  testBeyondFirefox("touch")(
    "most of a phone is the conversation's, with its keyboard too; a hint that is dismissed stays away",
    async () => {
      const { page } = await fresh({ viewport: { width: 390, height: 844 }, hasTouch: true });
      const log = () => page.evaluate(() => shadow(".log")[0].clientHeight / innerHeight);
      assert.equal(await page.evaluate(() => shadow(".log").map((e) => e.scrollHeight - e.clientHeight)[0]), 0);
      const messages = ["user", "assistant"].map((role) => ({ role, content: "Say yes. ".repeat(80) }));
      await keep(page, [{ title: "Long", messages }]);
      await page.reload();
      await loaded(page);
      const open = async () => {
        await page.locator("#show-history").click();
        await page.locator("#conversation-list .title").click();
        await page.locator("#speed", { hasText: /context [67]\d%/ }).waitFor();
      };
      await open();
      const hint = page.locator("#long");
      await hint.waitFor();
      assert.ok((await log()) > 0.6, `${await log()} of a phone`);
      const { height } = await hint.boundingBox();
      assert.ok(height < 50, `a hint of ${height} px is in more than two lines`);
      await page.setViewportSize({ width: 390, height: 500 });
      await page.locator(INPUT).focus();
      await hint.waitFor({ state: "hidden" });
      assert.ok((await log()) > 0.6, `${await log()} above the keyboard`);
      await page.setViewportSize({ width: 390, height: 844 });
      await page.locator("#better").getByRole("button", { name: "Dismiss" }).click();
      await hint.waitFor({ state: "hidden" });
      await page.locator("#clear").click();
      await open();
      assert.equal(await hint.isVisible(), false);
      await page.reload();
      await page.locator("#clear").click();
      // From here on the page knows all that a hint depends on.
      await page.locator("#get-better").waitFor();
      await open();
      assert.equal(await hint.isVisible(), false);
      await page.context().close();
    },
  );

  test("on a phone the list closes over what was imported, and takes along what was said of it", async () => {
    const { page } = await fresh({ viewport: { width: 390, height: 844 }, hasTouch: true });
    const [list, told] = [page.locator("#conversations"), page.locator("#said")];
    const load = (value) =>
      page
        .locator("#import-file")
        .setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(value)) });
    await page.locator("#show-history").click();
    await load({});
    await told.filter({ hasText: "not a saved conversation" }).waitFor();
    assert.ok(await list.isVisible());
    await page.locator("#show-history").click();
    await told.waitFor({ state: "hidden" });
    await page.locator("#show-history").click();
    await load({ title: "Short", messages: [{ role: "user", content: "Is it imported?" }] });
    await list.waitFor({ state: "hidden" });
    assert.equal(await told.isVisible(), false);
    assert.ok(await inSight(page.locator(MESSAGES)));
    assert.equal(await page.evaluate(() => document.activeElement.id), "show-history");
    await page.locator("#show-history").click();
    const [row, title] = await Promise.all(["li", "li .title span"].map((name) => list.locator(name).boundingBox()));
    const off = title.y + title.height / 2 - row.y - row.height / 2;
    assert.ok(Math.abs(off) < 1, `a title is ${off} px from the middle of its row`);
    await page.context().close();
  });

  testBeyondFirefox("touch")("on a phone the input is in sight, however large the text is", async () => {
    const { page } = await fresh({ viewport: { width: 390, height: 844 }, hasTouch: true });
    const size = (text) => page.evaluate((text) => (document.documentElement.style.fontSize = text), text);
    for (const begun of [false, true]) {
      if (begun) {
        await size("");
        await ask(page, STORY);
        await kept(page);
        await page.reload();
        await loaded(page);
      }
      for (const [width, height, text] of /** @type {const} */ ([
        [390, 844, "175%"],
        [390, 844, "200%"],
        [390, 420, "100%"],
        [360, 640, "130%"],
        [360, 640, "200%"],
        [844, 390, "200%"],
      ])) {
        await page.setViewportSize({ width, height });
        await size(text);
        const [below, log] = await page.evaluate(() => [
          shadow(".composer")[0].getBoundingClientRect().bottom - innerHeight,
          shadow(".log")[0].clientHeight / innerHeight,
        ]);
        assert.ok(below < 0, `${width} x ${height} at ${text}: it ends ${below} px below the window`);
        assert.ok(log > 0.2, `${width} x ${height} at ${text}: a log of ${log}`);
      }
    }
    // Where not all has room, the page scrolls once the conversation is at its end.
    await page.setViewportSize({ width: 390, height: 844 });
    await size("");
    await page.evaluate(() => {
      document.getElementById("top").style.height = "700px";
      shadow(".log")[0].scrollTo(0, 1e6);
    });
    await page.mouse.move(200, 750);
    await page.mouse.wheel(0, 500);
    await page.waitForFunction(() => scrollY > 0);
    await page.context().close();
  });

  test("the tab of the view that is shown is in sight where not all tabs are", async () => {
    const { page } = await fresh({ viewport: { width: 390, height: 844 } });
    await page.evaluate(() => (document.documentElement.style.fontSize = "200%"));
    for (const name of ["settings", "chat"]) {
      await page.evaluate((name) => (location.hash = name), name);
      await page.locator(`#${name}`).waitFor();
      assert.ok(await inSight(page.locator(`#tab-${name}`)), name);
    }
    await page.context().close();
  });

  test("a model's size gives way to its name", async () => {
    const { page } = await fresh({ viewport: { width: 320, height: 640 }, locale: "de-DE" });
    const name = page.locator("#model-name");
    for (const [width, whole] of /** @type {const} */ ([
      [320, false],
      [390, true],
    ])) {
      await page.setViewportSize({ width, height: 640 });
      assert.equal(await name.evaluate((name) => name.scrollWidth - name.clientWidth), 0);
      assert.equal(await inSight(page.locator("#model-size")), whole, `${width} px`);
    }
    await page.context().close();
  });

  test("nothing is wider than a small phone", async () => {
    const { page, problems } = await fresh({ viewport: { width: 360, height: 640 } });
    await ask(page, QUESTION);
    for (const name of VIEWS) {
      await view(page, name);
      const [wide, visible] = await page.evaluate(() => [
        document.documentElement.scrollWidth,
        Math.max(
          ...[...document.querySelectorAll("main *")]
            .concat(shadow("*"))
            .filter((e) => !e.closest("pre"))
            .map((e) => e.getBoundingClientRect().right),
        ),
      ]);
      assert.equal(wide, 360, name);
      assert.ok(visible <= 360, `${name}: something ends at ${visible}`);
    }
    await page.locator("#choose").click();
    await page.locator("#suggested li").first().waitFor();
    assert.ok(await page.locator("#picker").evaluate((dialog) => dialog.scrollWidth <= dialog.clientWidth));
    const close = await page.locator("#picker").evaluate((dialog) => {
      dialog.scrollTo(0, dialog.scrollHeight);
      const { left, top } = document.getElementById("close-picker").getBoundingClientRect();
      return document.elementFromPoint(left + 10, top + 10)?.id;
    });
    assert.equal(close, "close-picker", "it stays where it can be seen");
    await page.keyboard.press("Escape");
    await page.locator("#tab-chat").click();
    await page.locator("#clear").click();
    await page.locator("#chat .embed").click();
    assert.ok(await page.locator("#site").evaluate((dialog) => dialog.scrollWidth <= dialog.clientWidth));
    assert.ok(await page.locator("#site-line").evaluate((line) => line.scrollWidth <= line.clientWidth));
    assert.deepEqual(problems, []);
    await page.context().close();
  });

  test("who reads German finds all in German, on a small phone too", async () => {
    const { page, problems } = await fresh({ locale: "de-DE", viewport: { width: 320, height: 640 } });
    assert.equal(await page.evaluate(() => document.documentElement.lang), "de");
    assert.equal(await page.title(), "Tabloom: privater Chat im Browser");
    const description = await page.locator("meta[name=description]").getAttribute("content");
    assert.match(description, /^Ein Sprachmodell auf dem eigenen Gerät/);
    assert.match(await page.locator("#model-size").textContent(), /^\d,\d+ MB$/);
    assert.equal(await page.locator(INPUT).getAttribute("placeholder"), "Frage stellen");
    await page.locator("#hello", { hasText: "Das Standardmodell ist winzig" }).waitFor();
    assert.equal(await ask(page, QUESTION), FRANCE.answer);
    for (const name of VIEWS) {
      await view(page, name);
      if (name === "engine") await page.locator("#panel table").waitFor();
      const { english, wide } = await page.evaluate(foreign);
      assert.deepEqual(english, [], name);
      assert.deepEqual(wide, [], name);
    }
    await page.locator("#choose").click();
    await page.locator("#suggested li").first().waitFor();
    assert.deepEqual(await page.evaluate(foreign), { english: [], wide: [] });
    assert.deepEqual(problems, []);
    await page.context().close();
  });

  test("the address may name another language; what is unknown is English", async () => {
    const context = await browser.newContext({ locale: "pl-PL" });
    const { page } = await ready(context, address);
    assert.equal(await page.locator("#tab-settings").textContent(), "Settings");
    await page.goto(`${address}&lang=fr`);
    await page.locator("#tab-settings", { hasText: "Réglages" }).waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), "fr");
    await context.close();
  });
});

describe("without a network", () => {
  let server;
  let page;
  let problems;

  before(async () => {
    server = await serve({});
    ({ page, problems } = await ready(await browser.newContext(), `${server.url}?temperature=0&device=cpu`));
    await page.evaluate(() => navigator.serviceWorker.ready);
    await waitUntil(page, async () => (await navigator.serviceWorker.getRegistration())?.active?.state === "activated");
  });

  after(async () => {
    await page?.context().close();
    await server?.close();
  });

  test("the page, its engine and its model are there once they have been", async () => {
    await server.close();
    await page.reload();
    await loaded(page);
    assert.equal(await ask(page, QUESTION), FRANCE.answer);
    for (const [format, ending] of [
      ["Markdown", ".md"],
      ["JSON", ".json"],
    ]) {
      await page.locator("#conversation-list .icon").first().click();
      const { name, content } = await saved(page, page.getByRole("menuitem", { name: `Save as ${format}` }));
      assert.ok(name.endsWith(ending), name);
      assert.ok(JSON.stringify(content).includes(QUESTION), content);
    }
    const notes = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("The fox is red.") };
    await page.locator("#conversation input[type=file]").setInputFiles(notes);
    await page.locator("#conversation [part=attachment]", { hasText: "notes.txt" }).waitFor();
    await ask(page, "What colour is the fox?");
    assert.match((await said(page)).at(-2), /What colour is the fox\?/);
    await page.locator("#clear").click();
    await page.locator("#chat .embed").click();
    await page.locator("#site-line", { hasText: "<tabloom-chat" }).waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#tab-playground").click();
    await page.locator("#play-run").click();
    await page.locator("#verdict.good").waitFor();
    await view(page, "engine");
    await page.locator("#panel table").waitFor();
    await view(page, "bench");
    await page.locator("#bench-peers li").first().waitFor();
    // What only some answers need, and other languages, too.
    const content = "```js\nconst one = 1;\n```\n\n$$x^2$$";
    const messages = ["user", "assistant"].map((role) => ({ role, content }));
    await page.locator("#tab-chat").click();
    const buffer = Buffer.from(JSON.stringify({ title: "Rich", messages }));
    await page.locator("#import-file").setInputFiles({ name: "rich.json", mimeType: "application/json", buffer });
    const rendered = async () => {
      await page.locator("#conversation .assistant [part=code-keyword]").waitFor();
      await page.locator("#conversation .assistant math").first().waitFor({ state: "attached" });
    };
    await rendered();
    for (const code of ["de", "es", "fr", "ja", "zh"]) {
      await page.goto(`${server.url}?temperature=0&device=cpu&lang=${code}`);
      await page.waitForFunction((code) => document.documentElement.lang === code, code);
      // A page that is left in the middle of an import reports that it failed.
      await rendered();
    }
    await loaded(page);
    assert.deepEqual(problems, []);
  });

  test("what is kept is the page's own files; models are left to the engine", async () => {
    const kept = await page.evaluate(async () => {
      const name = (await caches.keys()).find((name) => name.startsWith("tabloom-page-"));
      return (await (await caches.open(name)).keys()).map(({ url }) => new URL(url).pathname);
    });
    for (const path of [
      "/index.html",
      "/main.js",
      "/page.css",
      "/tabloom/worker.js",
      "/tabloom/wasm/tabloom_bg.wasm",
    ]) {
      assert.ok(kept.includes(path), path);
    }
    assert.deepEqual(
      kept.filter((path) => /^\/(model|examples|tabloom\/element)\/|^\/chat\./.test(path)),
      [],
    );
  });

  testBeyondFirefox("manifest")("it can be installed", async () => {
    const devtools = await page.context().newCDPSession(page);
    const { errors, data } = await devtools.send("Page.getAppManifest");
    assert.deepEqual(errors, []);
    const manifest = JSON.parse(data);
    assert.equal(manifest.display, "standalone");
    for (const { src, sizes, type } of manifest.icons) {
      const icon = await fetch(new URL(src, url));
      assert.equal(icon.status, 200, src);
      assert.equal(icon.headers.get("content-type"), type);
      const bytes = Buffer.from(await icon.arrayBuffer());
      if (sizes === "any") continue;
      assert.equal(`${bytes.readUInt32BE(16)}x${bytes.readUInt32BE(20)}`, sizes, src);
    }
  });
});

test("a newer version of the page waits until it is wanted", async () => {
  let change = "";
  const script = await (await fetch(`${url}sw.js`)).text();
  const changed = (response) => {
    response.writeHead(200, { "content-type": "text/javascript", "cache-control": "no-store" });
    response.end(script.replace(/"icon\.svg": "[0-9a-f]{64}",\s*/, (line) => (change ? "" : line)));
  };
  const server = await serve({ "": { "sw.js": changed } });
  const { page } = await ready(await browser.newContext(), `${server.url}?device=cpu`);
  await page.evaluate(() => navigator.serviceWorker.ready);
  assert.equal(await page.locator("#update").isVisible(), false);
  change = "one file less";
  await page.reload();
  await page.locator("#update").waitFor();
  const name = () =>
    page.evaluate(async () => (await caches.keys()).filter((name) => name.startsWith("tabloom-page-")));
  const [before] = await name();
  await Promise.all([page.waitForEvent("load"), page.locator("#reload").click()]);
  await loaded(page);
  await waitUntil(
    page,
    async () => (await caches.keys()).filter((name) => name.startsWith("tabloom-page-")).length === 1,
  );
  assert.notEqual((await name())[0], before);
  await page.context().close();
  await server.close();
});

test("addresses name views, and views addresses", async () => {
  const { page } = await open(browser, `${address}#engine`);
  assert.ok(await page.locator("#engine").isVisible());
  await page.locator("#tab-engine").press("End");
  assert.ok(page.url().endsWith("#settings"));
  assert.ok(await page.locator("#settings").isVisible());
  assert.equal(await page.locator("#engine").isVisible(), false);
  await page.close();
});

/** Texts on the page whose contrast is below 4.5, or 3 where they are large. Runs in the page. */
function pale() {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  /** A colour as browsers compute it, over another. */
  const over = (colour, ground) => {
    canvas.fillStyle = `rgb(${ground.join(" ")})`;
    canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  const ground = (element) => {
    const chain = [];
    for (let e = element; e; e = e.assignedSlot ?? e.parentElement ?? e.getRootNode().host) {
      chain.unshift(getComputedStyle(e).backgroundColor);
    }
    return chain.reduce((below, colour) => over(colour, below), [255, 255, 255]);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const texts = [];
  for (const root of [document.body, document.getElementById("conversation").shadowRoot]) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const { parentElement, textContent } = walker.currentNode;
      if (textContent.trim()) texts.push([parentElement, textContent.trim()]);
    }
    /** @type {NodeListOf<HTMLInputElement>} */
    const fields = root.querySelectorAll("input, textarea, select");
    for (const field of fields) texts.push([field, field.value || field.id]);
  }
  const dialog = document.querySelector("dialog[open]");
  for (const [element, text] of texts) {
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || element.closest(":disabled"))
      continue;
    if (dialog && !dialog.contains(element)) continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const [a, b] = [luminance(over(style.color, below)), luminance(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = Number.parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) found.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return found;
}

/** Goes through the page by Tab: which controls it never came to, and which did not show that it had, or not whole. */
async function walk(page, within = "body") {
  const count = await page.evaluate((within) => {
    const controls = "a[href], button, input, select, textarea, [tabindex]";
    const all = [...document.querySelectorAll(`${within} :is(${controls})`)];
    if (within === "body") all.push(...shadow(`:is(${controls})`));
    const wanted = all.filter(
      (e) => e.checkVisibility({ visibilityProperty: true }) && !e.matches(":disabled, [tabindex='-1']"),
    );
    globalThis.walked = { wanted, reached: new Set(), unseen: new Set() };
    // From the top.
    /** @type {HTMLElement} */ (document.activeElement).blur();
    getSelection().collapse(document.querySelector(within), 0);
    return wanted.length;
  }, within);
  assert.ok(count >= 3, `${count} controls`);
  for (let i = 0; i < count + 20; i++) {
    await page.keyboard.press("Tab");
    const all = await page.evaluate(() => {
      const { activeElement } = document;
      const e = activeElement.shadowRoot?.activeElement ?? activeElement;
      walked.reached.add(e);
      const { outlineStyle, outlineWidth, outlineOffset } = getComputedStyle(e);
      const { left, right, top, bottom, width, height } = e.getBoundingClientRect();
      // The composer shows for its input that it has the focus.
      const ring = getComputedStyle(e.closest(".composer") ?? e).outlineStyle !== "none";
      const outlined = outlineStyle !== "none" && Number.parseFloat(outlineWidth) >= 1;
      const shown = (ring || outlined) && width > 0 && height > 0;
      if (!shown && e !== document.body) walked.unseen.add(e);
      // Whether an ancestor cuts off its ring.
      const grown = Number.parseFloat(outlineOffset) + Number.parseFloat(outlineWidth);
      for (let a = e; outlined && a && a !== document.body; ) {
        a = a.assignedSlot ?? a.parentElement ?? /** @type {ShadowRoot} */ (a.getRootNode()).host;
        if (!a || a.localName === "dialog" || getComputedStyle(a).overflow === "visible") continue;
        const box = a.getBoundingClientRect();
        const [within, below] = [box.left + a.clientLeft, box.top + a.clientTop];
        const beyond = [within - left, right - within - a.clientWidth, below - top, bottom - below - a.clientHeight];
        if (Math.max(...beyond) + grown > 0.5) walked.unseen.add(e);
      }
      return walked.wanted.every((e) => walked.reached.has(e));
    });
    // Firefox would go on to its own controls, and show nothing in the page.
    if (all) break;
  }
  return page.evaluate(() => {
    const name = (e) => `${e.localName}#${e.id} ${e.getAttribute("aria-label") ?? e.textContent.slice(0, 30)}`;
    const missed = walked.wanted.filter((e) => !walked.reached.has(e));
    return { missed: missed.map(name), unseen: [...walked.unseen].map(name) };
  });
}

/** Runs in the page: texts and names with an English word, and what reaches beyond the window. */
function foreign() {
  // What is asked and answered, and models' names, are as they are.
  const free = ".text, .foot > [aria-live], #suggestions, #conversation-list, pre, strong, code";
  const words = /\b(?:the|of|without|and|with|this|not|is|to|by|no|new|chat settings|load|stop|delete|answer)\b/i;
  const all = [...document.querySelectorAll("body *"), ...shadow("*")].filter(
    (element) => !element.closest(free) && !["SCRIPT", "STYLE"].includes(element.tagName),
  );
  const texts = all.flatMap((element) => [
    ...[...element.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map(({ data }) => data),
    ...["aria-label", "placeholder", "title"].map((name) => element.getAttribute(name) ?? ""),
  ]);
  const wide = all
    .filter((element) => element.checkVisibility() && element.getBoundingClientRect().right > innerWidth + 0.5)
    .map((element) => `${element.tagName} ${element.id} ${element.textContent.slice(0, 40)}`);
  return { english: texts.filter((text) => words.test(text)), wide };
}
