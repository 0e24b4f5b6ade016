// The demo page, opened and used as a visitor would.

/** Answers may take this long on a busy machine. */
const PATIENCE = 120_000;

/** Runs in the page before its own scripts: notes every text that the page shows. */
function watch() {
  globalThis.seen = { progress: [], answers: [] };
  const note = (list, text) => {
    if (text && text !== list.at(-1)) list.push(text);
  };
  new MutationObserver(() => {
    note(seen.progress, document.getElementById("loading-detail")?.textContent);
    note(seen.answers, [...document.querySelectorAll("#messages .assistant .text")].at(-1)?.textContent);
  }).observe(document, { subtree: true, childList: true, characterData: true });
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
  await page.goto(address);
  return { page, requests, problems };
}

/**
 * Opens the page and waits until it can be used.
 *
 * @param {Parameters<typeof open>} where
 */
export async function ready(...where) {
  const opened = await open(...where);
  await opened.page.locator("#prompt:enabled").waitFor();
  return opened;
}

/** Asks without waiting for the answer. */
export async function say(page, text) {
  await page.locator("#prompt").fill(text);
  await page.locator("#send").click();
}

/** Waits for the end of an answer and returns it. */
export async function answered(page) {
  await page.locator("#messages .assistant").last().waitFor();
  await page.locator("#send").waitFor();
  return page.locator("#messages .assistant .text").last().textContent();
}

/** Asks and returns the answer. */
export async function ask(page, text) {
  await say(page, text);
  return answered(page);
}
