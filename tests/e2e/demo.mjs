// The demo page, opened and used as a visitor would.
import { holdAnswers, holdable, releaseAnswers } from "./hold.mjs";

/** Answers may take this long on a busy machine. */
const PATIENCE = 120_000;

/** The parts of the page's chat, which is in a shadow tree. */
export const INPUT = "#conversation textarea";
export const SEND = "#conversation .round[part~=send]";
export const STOP = "#conversation .round[part~=stop]";
export const PROBLEM = "#conversation [role=alert]";
export const MESSAGES = "#conversation article";
export const ANSWER = "#conversation .assistant .text";

/** Runs in the page before its own scripts: notes every text that the page shows. */
function watch() {
  globalThis.seen = { progress: [], answers: [], spoken: [] };
  const note = (list, text) => {
    if (text && text !== list.at(-1)) list.push(text);
  };
  // A conversation that is answered while another is shown has one that is not on the page.
  const roots = [];
  globalThis.shadow = (selector) =>
    roots.filter(({ host }) => host.isConnected).flatMap((root) => [...root.querySelectorAll(selector)]);
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const root = attach.call(this, options);
    roots.push(root);
    new MutationObserver(() => {
      note(seen.progress, root.querySelector(".status")?.textContent);
      note(seen.answers, shadow(".assistant .text").at(-1)?.textContent);
      note(seen.spoken, root.querySelector(".foot > [aria-live]")?.textContent);
    }).observe(root, { subtree: true, childList: true, characterData: true });
    return root;
  };
}

/**
 * Opens the page; `requests` and `problems` fill up as it runs.
 *
 * @param {import("playwright-core").Browser | import("playwright-core").BrowserContext} browser
 * @param {string} address
 */
export async function open(browser, address) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  const requests = [];
  const problems = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => problems.push(`${error}`));
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text());
  });
  await page.addInitScript(watch);
  await holdable(page);
  await page.goto(address);
  return { page, requests, problems };
}

/**
 * Waits until a model is loaded, or the one whose name has a text.
 *
 * @param {import("playwright-core").Page} page
 * @param {string | RegExp} [name]
 */
export async function loaded(page, name = /./) {
  await page.locator("#model-name", { hasText: name }).waitFor();
  await page.locator("#model-size", { hasText: /^[\d.,]+ [kMG]?B$/ }).waitFor();
}

/**
 * Opens the page and waits until its model is loaded.
 *
 * @param {Parameters<typeof open>} where
 */
export async function ready(...where) {
  const opened = await open(...where);
  await loaded(opened.page);
  return opened;
}

/** Asks without waiting for the answer. */
export async function say(page, text) {
  await page.locator(INPUT).fill(text);
  await page.locator(SEND).click();
}

/**
 * Asks and waits for the first words of the answer, which stays there until `answered` lets it go on, a reload, or
 * who stops it.
 */
export async function begin(page, text) {
  await holdAnswers(page);
  await say(page, text);
  await page.waitForFunction(() => shadow(".assistant .text").at(-1)?.textContent.startsWith("Once upon a"));
}

/** Waits for the end of an answer and returns it. */
export async function answered(page) {
  await releaseAnswers(page);
  return finished(page);
}

/** The same of an answer that cannot have been held. */
async function finished(page) {
  await page.locator(STOP).waitFor({ state: "hidden" });
  return page.locator(ANSWER).last().textContent();
}

/** Asks and returns the answer. */
export async function ask(page, text) {
  await say(page, text);
  return answered(page);
}

export const VIEWS = ["chat", "playground", "engine", "bench", "settings"];

/** Opens a view, and waits for what is loaded with it. */
export async function view(page, name) {
  await page.locator(`#tab-${name}`).click();
  await page
    .locator(`#${name} :is(#hello, #example option, .chart, #bench-peers li, #set)`)
    .first()
    .waitFor({ state: "attached" });
}

/**
 * Keeps conversations in the archive of a page that is open; it lists them when it is opened again.
 *
 * @param {import("playwright-core").Page} page
 * @param {object[]} conversations what is in them besides what all have
 */
export function keep(page, conversations) {
  return page.evaluate(async (conversations) => {
    const request = indexedDB.open("tabloom-demo");
    await new Promise((done) => (request.onsuccess = done));
    const transaction = request.result.transaction(["entries", "conversations"], "readwrite");
    for (const [i, conversation] of conversations.entries()) {
      const kept = { id: `${i}`, named: false, model: "", changed: i, ...conversation };
      transaction.objectStore("entries").put({ ...kept, messages: undefined });
      transaction.objectStore("conversations").put(kept);
    }
    await new Promise((done) => (transaction.oncomplete = done));
  }, conversations);
}
