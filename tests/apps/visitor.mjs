// A visitor of an app: asks, stops the answer, reloads, asks again. Each app has a text box, a button "Send",
// a button "Stop", and shows the answer.
import assert from "node:assert/strict";
import { goldens } from "../e2e/package.mjs";
import { holdAnswers, holdable, releaseAnswers } from "../e2e/hold.mjs";

const PATIENCE = 60_000;
const { messages, answer: ANSWER } = goldens.find(({ messages }) => /story/.test(messages[0].content));

/**
 * @param {import("playwright-core").BrowserContext} context
 * @param {string} address
 * @param {(page: import("playwright-core").Page) => Promise<void>} [then] what else there is to see
 */
export async function visit(context, address, then) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const problems = [];
  page.on("pageerror", (error) => problems.push(`${error.stack}`));
  page.on("console", (message) => {
    const { url } = message.location();
    // The smallest apps have no icon.
    if (message.type() === "error" && !url.endsWith("/favicon.ico")) problems.push(`${message.text()} ${url}`);
  });
  await holdable(page);
  try {
    await page.goto(address);
    await stopped(page);
    await page.reload();
    await ask(page);
    await heard(page);
    await then?.(page);
  } catch (error) {
    problems.push(`${error}`, ...(await page.locator("output, [part~=error]:visible").allInnerTexts()));
  }
  assert.deepEqual(problems, []);
}

const button = (page, name) => page.getByRole("button", { name, exact: true });
const said = (page) => page.locator("output, [part~=assistant] [part~=text]");

async function send(page) {
  await page.getByRole("textbox").waitFor();
  await page.getByRole("textbox").fill(messages[0].content);
  await button(page, "Send").click();
}

/** An answer that is stopped keeps its first words. */
async function stopped(page) {
  await holdAnswers(page);
  await send(page);
  await said(page).filter({ hasText: /\S/ }).waitFor();
  await button(page, "Stop").click();
  await releaseAnswers(page);
  const words = (await said(page).innerText()).trim();
  assert.ok(words.length < ANSWER.length / 2 && ANSWER.startsWith(words), words);
}

/** Apps that listen to the element have a heading that says so, or another title, which becomes the last message. */
async function heard(page) {
  const listens = (await page.locator("h1").count()) > 0;
  if (listens) await page.getByRole("heading", { name: "Ready", exact: true }).waitFor();
  await page.waitForFunction((answer) => ["A private chat", `assistant: ${answer}`].includes(document.title), ANSWER);
}

/** An answer that is not stopped is whole. */
async function ask(page) {
  await send(page);
  await said(page).filter({ hasText: ANSWER }).waitFor();
}
