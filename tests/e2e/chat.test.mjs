// The demo page, used as a visitor would: by mouse, by keyboard, with and without WebGPU.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ADAPTER, launch, testBeyondFirefox, url } from "./browser.mjs";
import { answered, ask, open, ready, say } from "./demo.mjs";
import { goldens } from "./package.mjs";
import { serve } from "./server.mjs";

const [FRANCE] = goldens;
const PLURALS = goldens.find((golden) => golden.messages.length === 3);
const STORY = goldens.find((golden) => /story/.test(golden.messages[0].content));

let browser;
let server;
/** The page with the built-in model made greedy, so that answers are the reference's. */
let greedy;

before(async () => {
  const models = { "models/greedy/": { "generation_config.json": '{"do_sample": false}' } };
  server = await serve(models);
  greedy = `${server.url}?model=models/greedy/`;
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.close();
});

test("a visitor watches the model load, asks, and reads the answer as it is made", async () => {
  const { page, requests, problems } = await ready(browser, `${url}?temperature=0`);
  const { progress } = await page.evaluate(() => seen);
  assert.match(progress.join("\n"), /^model\.safetensors: .+ of [\d.]+ MB, .+\/s$/m);
  assert.match(progress.join("\n"), /^\d+ of \d+$/m);
  const adapter = await page.locator("#adapter").textContent();
  assert.match(adapter, /software adapter/);
  assert.match(adapter, ADAPTER);
  assert.equal(await page.locator("#problem").isVisible(), false);

  assert.equal(await ask(page, STORY.messages[0].content), STORY.answer);
  const { answers } = await page.evaluate(() => seen);
  assert.ok(answers.length > 3, `${answers.length} pieces`);
  answers.reduce((a, b) => {
    assert.ok(b.startsWith(a) && b.length > a.length);
    return b;
  });
  assert.match(await page.locator("#speed").textContent(), /^\d+\.\d tokens\/s · First token after \d+ ms$/);
  assert.deepEqual(problems, []);
  assert.deepEqual(
    requests.filter((address) => !address.startsWith(url)),
    [],
  );
  await page.close();
});

test("draft tokens are marked and counted while the switch is on; answers are the same without", async () => {
  const { page, problems } = await ready(browser, `${greedy}&host=private`);
  const speculation = page.getByRole("switch", { name: "Draft tokens" });
  const toggle = async () => {
    await speculation.focus();
    await page.keyboard.press("Space");
  };
  /** Asks once more; gives the answer, and what is marked and told below it. */
  const again = async () => {
    await ask(page, FRANCE.messages[0].content);
    return page.evaluate(() => {
      const answer = [...document.querySelectorAll("#messages .assistant")].at(-1);
      const marked = [...CSS.highlights.get("drafted")]
        .filter(({ startContainer }) => answer.contains(startContainer))
        .map(({ startContainer, startOffset, endOffset }) =>
          /** @type {Text} */ (startContainer).data.slice(startOffset, endOffset),
        );
      const [text, drafts] = [".text", ".drafts"].map((name) => answer.querySelector(name).textContent);
      return { text, marked, drafts };
    });
  };
  assert.equal(await speculation.isChecked(), true);
  await toggle();
  assert.equal(await speculation.isChecked(), false);
  assert.deepEqual(await again(), { text: FRANCE.answer, marked: [], drafts: "" });
  // What drafting costs here is not known yet, and so it is tried.
  await toggle();
  const on = await again();
  assert.ok(on.marked.length > 0 && on.marked.every((text) => on.text.includes(text)), `${on.marked}`);
  const [, right, all] = /^(\d+) of (\d+) draft tokens were accepted$/.exec(on.drafts).map(Number);
  assert.ok(right > 0 && right <= all, on.drafts);

  await page.locator("#clear").click();
  await toggle();
  await again();
  assert.deepEqual(await again(), { text: on.text, marked: [], drafts: "" });
  assert.deepEqual(problems, []);
  await page.close();
});

describe("with the built-in model made greedy", () => {
  let page;

  before(async () => ({ page } = await ready(browser, greedy)));

  test("a second question is answered in the light of the first", async () => {
    const [first, between, second] = PLURALS.messages;
    assert.equal(await ask(page, first.content), between.content);
    assert.equal(await ask(page, second.content), PLURALS.answer);
    assert.equal(await page.locator("#messages li").count(), 4);
  });

  test("New chat begins anew", async () => {
    await page.locator("#clear").click();
    assert.equal(await page.locator("#messages li").count(), 0);
    assert.equal(await page.locator("#speed").textContent(), "");
    assert.ok(await page.locator("#suggestions").isVisible());
    assert.notEqual(await ask(page, PLURALS.messages[2].content), PLURALS.answer);
    await page.locator("#clear").click();
  });

  test("a suggestion is a question", async () => {
    const text = FRANCE.messages[0].content;
    await page.locator("#suggestions button", { hasText: text }).click();
    assert.equal(await answered(page), FRANCE.answer);
    assert.equal(await page.locator("#messages .user").textContent(), text);
    assert.equal(await page.locator("#suggestions").isVisible(), false);
    await page.locator("#clear").click();
  });

  test("Stop ends an answer and keeps what there is of it", async () => {
    await say(page, STORY.messages[0].content);
    await page.waitForFunction(() => seen.answers.at(-1)?.startsWith("Once upon a"));
    await page.locator("#stop").click();
    const part = await answered(page);
    assert.ok(STORY.answer.startsWith(part) && part.length < STORY.answer.length, part);
    assert.equal(await page.locator("#messages .failed").count(), 0);
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
  });

  test("Escape ends an answer too", async () => {
    await page.locator("#clear").click();
    await say(page, STORY.messages[0].content);
    await page.waitForFunction(() => seen.answers.at(-1)?.startsWith("Once upon a"));
    await page.keyboard.press("Escape");
    const part = await answered(page);
    assert.ok(STORY.answer.startsWith(part) && part.length < STORY.answer.length, part);
  });

  test("the end of a long answer stands above the composer", async () => {
    const size = page.viewportSize();
    /** Whether the answer ends above the composer, within a few frames of what has changed. */
    const ends = () =>
      page.evaluate(async () => {
        const box = (selector) => [...document.querySelectorAll(selector)].at(-1).getBoundingClientRect();
        for (let frames = 1; ; frames++) {
          await new Promise(frame);
          const [answer, composer] = [box("#messages li").bottom, box("#composer").top];
          if (answer <= composer) return true;
          if (frames === 60) return `the answer ends at ${answer}, the composer begins at ${composer}`;
        }
      });
    await page.setViewportSize({ width: 380, height: 440 });
    // On a busy machine a frame may come so late that all of the answer comes with it.
    await page.evaluate(() => {
      globalThis.frame = requestAnimationFrame;
      globalThis.requestAnimationFrame = (show) => setTimeout(show, 350);
    });
    await page.locator("#clear").click();
    assert.equal(await ask(page, STORY.messages[0].content), STORY.answer);
    assert.equal(await ends(), true);
    await page.evaluate(() => (globalThis.requestAnimationFrame = frame));
    await page.locator("#clear").click();
    assert.equal(await ask(page, STORY.messages[0].content), STORY.answer);
    assert.equal(await ends(), true);
    // A phone's keyboard leaves less room.
    await page.setViewportSize({ width: 380, height: 360 });
    assert.equal(await ends(), true);
    await page.setViewportSize(size);
  });

  test("New chat in the middle of an answer leaves nothing of it", async () => {
    await say(page, STORY.messages[0].content);
    await page.locator("#stop").waitFor();
    await page.locator("#clear").click();
    await page.locator("#send").waitFor();
    assert.equal(await page.locator("#messages li").count(), 0);
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
    assert.equal(await page.locator("#messages li").count(), 2);
    await page.locator("#clear").click();
  });

  test("the keyboard is enough", async () => {
    const focused = () => page.evaluate(() => document.activeElement.id);
    assert.equal(await focused(), "prompt");
    await page.keyboard.type("What is the capital");
    await page.keyboard.press("Shift+Enter");
    assert.match(await page.locator("#prompt").inputValue(), /capital\n$/);
    await page.keyboard.press("Backspace");
    await page.keyboard.type(" of France?");
    await page.keyboard.press("Enter");
    assert.equal(await answered(page), FRANCE.answer);

    assert.equal(await focused(), "prompt");
    await page.keyboard.type(STORY.messages[0].content);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => seen.answers.at(-1)?.startsWith("Once upon a"));
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "stop");
    await page.keyboard.press("Enter");
    await page.locator("#send").waitFor();
    assert.equal(await focused(), "prompt");

    await page.keyboard.press("Tab");
    assert.equal(await focused(), "send");
    for (let i = 0; (await focused()) !== "clear"; i++) {
      assert.ok(i < 60, "New chat is not among the next sixty places");
      await page.keyboard.press("Shift+Tab");
    }
    await page.keyboard.press("Enter");
    assert.equal(await page.locator("#messages li").count(), 0);
    assert.equal(await focused(), "prompt");
    // Suggestions come before the prompt.
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    const last = page.locator("#suggestions button").last();
    assert.equal(await page.locator("#messages .user").textContent(), await last.textContent());
    assert.notEqual(await answered(page), "");
  });

  test("a conversation that outgrows the context is refused in words", async () => {
    await page.locator("#clear").click();
    assert.equal(await ask(page, "Tell me a story. ".repeat(500)), "");
    assert.match(await page.locator("#messages .failed").textContent(), /context holds 1024.*Shorten/);
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
  });

  testBeyondFirefox("crash")("a lost device costs the visitor nothing but time", async () => {
    await page.locator("#clear").click();
    await say(page, STORY.messages[0].content);
    await page.locator("#messages .assistant", { hasText: "Once upon a" }).waitFor();
    const devtools = await browser.newBrowserCDPSession();
    await devtools.send("Browser.crashGpuProcess");
    assert.equal(await answered(page), STORY.answer);
    assert.equal(await page.locator("#problem").isVisible(), false);
  });
});

test("a model that is not there is explained", async () => {
  const { page } = await open(browser, `${url}?model=nowhere/`);
  await page.locator("#problem").waitFor();
  assert.match(await page.locator("#problem-text").textContent(), /nowhere\/config\.json/);
  assert.equal(await page.locator("#use-cpu").isVisible(), false);
  assert.ok(await page.locator("#retry").isVisible());
  assert.equal(await page.locator("#prompt").isEnabled(), false);
  await page.close();
});

test("without WebGPU the page explains it and offers the processor", async () => {
  const without = await launch({ webgpu: false });
  try {
    const { page } = await open(without, greedy);
    await page.locator("#problem").waitFor();
    assert.match(await page.locator("#problem-title").textContent(), /no WebGPU/);
    assert.match(await page.locator("#problem-text").textContent(), /Use a browser with WebGPU/);
    await page.locator("#use-cpu").click();
    await page.locator("#prompt:enabled").waitFor();
    assert.match(await page.locator("#adapter").textContent(), /without WebGPU/);
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
  } finally {
    await without.close();
  }
});

testBeyondFirefox("crash")("when the GPU stays away the page says so and offers the processor", async () => {
  const failing = await launch();
  try {
    const { page } = await ready(failing, greedy);
    const devtools = await failing.newBrowserCDPSession();
    // The second loss within two minutes is the last: Chromium gives no other adapter.
    for (const lost of [1, 2]) {
      await page.locator("#clear").click();
      await say(page, STORY.messages[0].content);
      await page.locator("#messages .assistant", { hasText: "Once upon a" }).waitFor();
      await devtools.send("Browser.crashGpuProcess");
      if (lost === 1) assert.equal(await answered(page), STORY.answer);
    }
    await page.locator("#problem").waitFor();
    assert.match(await page.locator("#problem-title").textContent(), /stopped/);
    await page.locator("#use-cpu").click();
    await page.locator("#prompt:enabled").waitFor();
    assert.match(await page.locator("#adapter").textContent(), /without WebGPU/);
    await page.locator("#clear").click();
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
  } finally {
    await failing.close();
  }
});
