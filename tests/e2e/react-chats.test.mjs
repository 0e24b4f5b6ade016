// React's libraries for chats in a page without a server: each sends, streams, stops, answers again, keeps its
// messages and shows errors.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { waitUntil } from "./browser.mjs";
import { openClients } from "./bundled-clients.mjs";
import { goldens } from "./package.mjs";

let session;
let page;
const problems = [];

before(async () => {
  session = await openClients("react/page.jsx");
  page = session.page;
  page.on("pageerror", (error) => problems.push(`${error}`));
  page.on("request", (request) => problems.push(request.url()));
});

after(() => session?.close());

const CHATS = {
  "useChat, the SDK's transport": "direct",
  "useChat, a transport of the page": "own",
  "assistant-ui, local runtime": "local",
};

const show = (chat, settings = {}) =>
  page.evaluate(([chat, settings]) => clients.show(engine, chat, settings), [chat, settings]);

const messages = () => page.getByRole("article").allTextContents();
const press = (name) => page.getByRole("button", { name }).last().click();
const isIdle = () => page.locator("button:disabled", { hasText: "Stop" }).waitFor();

/** How many requests the engine has done, by how they ended. */
const done = () => page.evaluate(async () => (await engine.metrics()).request_success);

async function ask(question) {
  const input = page.getByRole("textbox", { name: "Your message" });
  await input.fill(question);
  await input.press("Enter");
}

/** Waits until the message in this place has this text. */
const has = (place, text) => page.getByRole("article").nth(place).filter({ hasText: text }).waitFor();

/** Waits until so many requests have ended in a way. */
const ended = (way, count) =>
  waitUntil(page, async ([way, count]) => (await engine.metrics()).request_success[way] === count, [way, count]);

for (const [title, chat] of Object.entries(CHATS)) {
  test(`${title}: messages are kept, and the last one is answered again`, async () => {
    const { messages: asked, answer } = goldens.find((golden) => /And of/.test(golden.messages.at(-1).content));
    const texts = [...asked.map(({ content }) => content), answer];
    const { stop } = await done();
    await show(chat);
    await ask(texts[0]);
    await has(1, texts[1]);
    await isIdle();
    await ask(texts[2]);
    await has(3, answer);
    await isIdle();
    assert.deepEqual(await messages(), texts);
    await press("Again");
    await ended("stop", stop + 3);
    await has(3, answer);
    await isIdle();
    assert.deepEqual(await messages(), texts);
  });

  test(`${title}: an answer is stopped, and stays`, async () => {
    const { messages: asked, answer } = goldens.find((golden) => /story/.test(golden.messages[0].content));
    const { abort } = await done();
    await show(chat, { max_tokens: 900, ignore_eos: true });
    await ask(asked[0].content);
    await has(1, /\w/);
    await press("Stop");
    await ended("abort", abort + 1);
    await isIdle();
    const [question, text, ...others] = await messages();
    assert.deepEqual([question, others], [asked[0].content, []]);
    assert.ok(text.startsWith(answer.slice(0, text.length)), text);
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  test(`${title}: an error is shown`, async () => {
    await show(chat, { temperature: 9 });
    await ask("Who are you?");
    await page.getByRole("alert").filter({ hasText: "temperature" }).waitFor();
  });
}

test("nothing went wrong, and nothing has left the page", () => {
  assert.deepEqual(
    problems.filter((it) => !it.startsWith(session.server.url)),
    [],
  );
});
