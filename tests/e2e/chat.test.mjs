// The demo page, used as a visitor would: by mouse, by keyboard, with and without WebGPU.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ADAPTER, launch, testBeyondFirefox, url } from "./browser.mjs";
import { INPUT, MESSAGES, PROBLEM, SEND, STOP, answered, ask, begin, loaded, open, ready, say } from "./demo.mjs";
import { holdAnswers, releaseAnswers } from "./hold.mjs";
import { goldens } from "./package.mjs";
import { modelFile, serve } from "./server.mjs";

const [FRANCE] = goldens;
const PLURALS = goldens.find((golden) => golden.messages.length === 3);
const STORY = goldens.find((golden) => /story/.test(golden.messages[0].content));

let browser;
let server;
/** The page with the built-in model made greedy, so that answers are the reference's. */
let greedy;
/** Lets the model that is held be loaded. */
let release;

before(async () => {
  const greedily = { "generation_config.json": '{"do_sample": false}' };
  const held = new Promise((resolve) => (release = resolve));
  const weights = await modelFile("model.safetensors");
  const slowly = async (response) => {
    response.writeHead(200, { "content-length": weights.length });
    response.write(weights.subarray(0, 1000));
    await held;
    response.end(weights.subarray(1000));
  };
  const models = { "models/greedy/": greedily, "models/held/": { ...greedily, "model.safetensors": slowly } };
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
  assert.match(progress.join("\n"), /^Loading the model[\d.]+ \/ [\d.]+ MB/m);
  assert.match(progress.join("\n"), /^Preparing the model\d+%/m);
  const adapter = await page.locator("#adapter").textContent();
  assert.match(adapter, /software adapter/);
  assert.match(adapter, ADAPTER);
  assert.equal(await page.locator(PROBLEM).isVisible(), false);

  assert.equal(await ask(page, STORY.messages[0].content), STORY.answer);
  const { answers } = await page.evaluate(() => seen);
  assert.ok(answers.length > 3, `${answers.length} pieces`);
  answers.reduce((a, b) => {
    assert.ok(b.startsWith(a) && b.length > a.length);
    return b;
  });
  assert.match(
    await page.locator("#speed").textContent(),
    /^context \d+% · \d+\.\d tokens\/s · first token in [\d,]+ ms$/,
  );
  assert.match(await page.locator("#speed").getAttribute("title"), /^\d+ of 1,024 tokens$/);
  assert.deepEqual(problems, []);
  assert.deepEqual(
    requests.filter((address) => !address.startsWith(url)),
    [],
  );
  await page.close();
});

test("draft tokens are marked and counted on request; answers are the same without them", async () => {
  const { page, problems } = await ready(browser, `${greedy}&host=private`);
  const toggle = async (view, name) => {
    await page.locator(`#tab-${view}`).click();
    await page.getByRole("switch", { name }).click();
    await page.locator("#tab-chat").click();
  };
  /** Asks once more; gives the answer, what is marked in it and what is said below. */
  const again = async () => {
    await ask(page, FRANCE.messages[0].content);
    const [text, marked] = await page.evaluate(() => {
      const answer = shadow(".assistant .text").at(-1);
      const marked = [...CSS.highlights.get("drafted")]
        .filter(({ startContainer }) => answer.contains(startContainer))
        .map(({ startContainer, startOffset, endOffset }) =>
          /** @type {Text} */ (startContainer).data.slice(startOffset, endOffset),
        );
      return [answer.textContent, marked];
    });
    return { text, marked, below: await page.locator("#speed").textContent() };
  };
  // Nobody who has not asked for it sees which tokens were drafted.
  const plain = await again();
  assert.deepEqual([plain.text, plain.marked], [FRANCE.answer, []]);
  assert.doesNotMatch(plain.below, /draft/);
  await page.locator("#clear").click();
  await toggle("engine", "Mark accepted draft tokens");
  // There are drafts as far as they pay: where they did not, they are tried again after some hundred steps.
  let on = await again();
  for (let more = 40; more > 0 && on.marked.length === 0; more--) {
    await page.locator("#clear").click();
    on = await again();
  }
  assert.ok(on.marked.length > 0 && on.marked.every((text) => on.text.includes(text)), `${on.marked}`);
  const [, accepted, all] = /(\d+) of (\d+) draft tokens accepted/.exec(on.below).map(Number);
  assert.ok(accepted > 0 && accepted <= all, on.below);

  await page.locator("#clear").click();
  await toggle("settings", "Speculative decoding");
  const off = await again();
  assert.deepEqual([off.text, off.marked], [on.text, []]);
  assert.doesNotMatch(off.below, /draft/);
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
    assert.equal(await page.locator(MESSAGES).count(), 4);
  });

  test("New chat begins anew", async () => {
    await page.locator("#clear").click();
    assert.equal(await page.locator(MESSAGES).count(), 0);
    assert.equal(await page.locator("#speed").textContent(), "");
    assert.ok(await page.locator("#suggestions").isVisible());
    assert.notEqual(await ask(page, PLURALS.messages[2].content), PLURALS.answer);
    await page.locator("#clear").click();
  });

  test("a suggestion is a question", async () => {
    const text = FRANCE.messages[0].content;
    await page.locator("#suggestions button", { hasText: text }).click();
    assert.equal(await answered(page), FRANCE.answer);
    assert.equal(await page.locator(`${MESSAGES}.user .text`).textContent(), text);
    assert.equal(await page.locator("#suggestions").isVisible(), false);
    await page.locator("#clear").click();
  });

  test("Stop ends an answer and keeps what there is of it", async () => {
    await begin(page, STORY.messages[0].content);
    await page.locator(STOP).click();
    const part = await answered(page);
    assert.ok(STORY.answer.startsWith(part) && part.length < STORY.answer.length, part);
    assert.equal(await page.locator(PROBLEM).isVisible(), false);
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
  });

  test("Escape ends an answer too", async () => {
    await page.locator("#clear").click();
    await begin(page, STORY.messages[0].content);
    await page.keyboard.press("Escape");
    const part = await answered(page);
    assert.ok(STORY.answer.startsWith(part) && part.length < STORY.answer.length, part);
  });

  test("what is sent in the middle of an answer waits for its turn; until then it can be taken back", async () => {
    const waiting = page.locator("#conversation [part=next]");
    await page.locator("#clear").click();
    await begin(page, STORY.messages[0].content);
    // Who has written something can send it without a key for that.
    await say(page, "Is it red?");
    await waiting.filter({ hasText: "Waiting: “Is it red?”" }).waitFor();
    assert.equal(await page.locator(INPUT).inputValue(), "");
    await page.locator(INPUT).fill("Or grey?");
    await page.keyboard.press("Enter");
    await waiting.filter({ hasText: "Waiting: “Or grey?”" }).waitFor();
    await page.locator(INPUT).fill("A draft");
    await waiting.filter({ hasText: "Is it red?" }).getByRole("button", { name: "Cancel" }).click();
    assert.equal(await page.locator(INPUT).inputValue(), "Is it red?\n\nA draft");
    await waiting.getByRole("button", { name: "Cancel" }).click();
    assert.equal(await waiting.count(), 0);
    assert.equal(await page.locator(INPUT).inputValue(), "Or grey?\n\nIs it red?\n\nA draft");
    assert.equal(await page.locator(MESSAGES).count(), 2);

    const [first, , second] = PLURALS.messages;
    await say(page, first.content);
    await waiting.waitFor();
    await say(page, second.content);
    await waiting.nth(1).waitFor();
    await releaseAnswers(page);
    await page.locator(`${MESSAGES}.assistant`).nth(2).waitFor();
    assert.equal(await waiting.count(), 0);
    await answered(page);
    const texts = await page.locator(`${MESSAGES} .text`).allTextContents();
    assert.equal(texts.length, 6);
    assert.deepEqual(
      texts.filter((_, i) => i !== 3 && i !== 5),
      [STORY.messages[0].content, STORY.answer, first.content, second.content],
    );
    for (const i of [3, 5]) assert.ok(texts[i]);
  });

  test("what waits is there after a reload", async () => {
    await page.locator("#clear").click();
    await begin(page, STORY.messages[0].content);
    for (const text of ["Is it red?", "Or grey?"]) {
      await say(page, text);
      await page.locator("#conversation [part=next]", { hasText: text }).waitFor();
    }
    await page.reload();
    await loaded(page);
    assert.equal(await page.locator(INPUT).inputValue(), "Is it red?\n\nOr grey?");
    await page.locator(INPUT).fill("");
  });

  test("Stop gives what waits back: nothing else is asked", async () => {
    await page.locator("#clear").click();
    await begin(page, STORY.messages[0].content);
    await say(page, "Is it red?");
    await page.locator("#conversation [part=next]").waitFor();
    await say(page, "Or grey?");
    await page.locator("#conversation [part=next]").nth(1).waitFor();
    await page.locator(STOP).click();
    await answered(page);
    assert.equal(await page.locator(INPUT).inputValue(), "Is it red?\n\nOr grey?");
    assert.equal(await page.locator(MESSAGES).count(), 2);
    assert.equal(await page.locator("#conversation [part=next]").count(), 0);
    await page.locator(INPUT).fill("");
  });

  test("the end of a long answer stands above the composer", async () => {
    const size = page.viewportSize();
    /** Whether the answer ends above the composer, within a few frames of what has changed. */
    const ends = () =>
      page.evaluate(async () => {
        const box = (selector) => shadow(selector).at(-1).getBoundingClientRect();
        for (let frames = 1; ; frames++) {
          await new Promise(frame);
          const [answer, composer] = [box("article").bottom, box(".composer").top];
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
    await begin(page, STORY.messages[0].content);
    await page.locator("#clear").click();
    await releaseAnswers(page);
    await page.locator(SEND).waitFor();
    assert.equal(await page.locator(MESSAGES).count(), 0);
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
    assert.equal(await page.locator(MESSAGES).count(), 2);
    await page.locator("#clear").click();
  });

  test("the keyboard is enough", async () => {
    /** The part of the chat that has the focus, or what has it beside. */
    const focused = () =>
      page.evaluate(() => {
        const { activeElement: element } = document;
        return element.shadowRoot?.activeElement.getAttribute("part") ?? element.id;
      });
    assert.equal(await focused(), "input");
    await page.keyboard.type("What is the capital");
    await page.keyboard.press("Shift+Enter");
    assert.match(await page.locator(INPUT).inputValue(), /capital\n$/);
    await page.keyboard.press("Backspace");
    await page.keyboard.type(" of France?");
    await page.keyboard.press("Enter");
    assert.equal(await answered(page), FRANCE.answer);

    assert.equal(await focused(), "input");
    await holdAnswers(page);
    await page.keyboard.type(STORY.messages[0].content);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => seen.answers.at(-1)?.startsWith("Once upon a"));
    for (let i = 0; (await focused()) !== "button stop"; i++) {
      assert.ok(i < 3, "Stop is not among the next three places");
      await page.keyboard.press("Tab");
    }
    await page.keyboard.press("Enter");
    await page.locator(SEND).waitFor();
    assert.equal(await focused(), "input");

    for (let i = 0; (await focused()) !== "clear"; i++) {
      assert.ok(i < 60, "New chat is not among the next sixty places");
      await page.keyboard.press("Shift+Tab");
    }
    await page.keyboard.press("Enter");
    assert.equal(await page.locator(MESSAGES).count(), 0);
    assert.equal(await focused(), "input");
    await page.locator("#suggestions button").first().focus();
    await page.keyboard.press("Enter");
    const first = page.locator("#suggestions button").first();
    assert.equal(await page.locator(`${MESSAGES}.user .text`).textContent(), await first.textContent());
    assert.equal(await focused(), "input");
    assert.notEqual(await answered(page), "");
  });

  test("what outgrows the context is refused in words; of a long conversation the oldest turns go", async () => {
    await page.locator("#clear").click();
    await page.locator(INPUT).fill("Tell me a story. ".repeat(500));
    const notice = page.locator("#conversation [part=notice]");
    await notice
      .filter({ hasText: /^Too long: [\d,]+ tokens, and the model’s context has 1,024\. Shorten it\.$/ })
      .waitFor();
    assert.ok(await page.locator(SEND).isDisabled());
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
    await page.locator("#clear").click();
    const forgotten = page.locator("#conversation .forgotten");
    for (let i = 0; i < 2; i++) await ask(page, `${"Say yes. ".repeat(150)}`);
    await ask(page, FRANCE.messages[0].content);
    await forgotten.waitFor();
    assert.match(await forgotten.textContent(), /no longer sees what is above: it did not fit/);
    assert.match(await page.locator("#speed").textContent(), /^context \d+% · oldest messages left out · /);
    await page.locator("#clear").click();
    assert.equal(await forgotten.count(), 0);
  });

  testBeyondFirefox("crash")("a lost device costs the visitor nothing but time", async () => {
    await page.locator("#clear").click();
    await say(page, STORY.messages[0].content);
    await page.locator(`${MESSAGES}.assistant`, { hasText: "Once upon a" }).waitFor();
    const devtools = await browser.newBrowserCDPSession();
    await devtools.send("Browser.crashGpuProcess");
    assert.equal(await answered(page), STORY.answer);
    assert.equal(await page.locator(PROBLEM).isVisible(), false);
  });
});

test("a model that is not there is explained", async () => {
  const { page } = await open(browser, `${url}?model=nowhere/`);
  await page.locator(PROBLEM).waitFor();
  assert.match(
    await page.locator(PROBLEM).textContent(),
    /“nowhere\/” was not found, or is not public\. Check the name\./,
  );
  assert.match(await page.locator(PROBLEM).getAttribute("title"), /nowhere\/config\.json/);
  assert.equal(await page.getByRole("button", { name: "Dismiss" }).isVisible(), false);
  assert.equal(await page.getByRole("button", { name: "Use the processor" }).isVisible(), false);
  assert.ok(await page.getByRole("button", { name: "Choose another model" }).isVisible());
  await page.close();
});

test("without WebGPU the built-in model runs on the processor, others are offered it", async () => {
  const without = await launch({ webgpu: false });
  try {
    const { page } = await ready(without, `${server.url}?temperature=0`);
    assert.match(await page.locator("#adapter").textContent(), /no WebGPU.*on the processor/);
    await page.setViewportSize({ width: 390, height: 844 });
    const [notice, composer] = await Promise.all(["#adapter", INPUT].map((one) => page.locator(one).boundingBox()));
    assert.ok(notice.y + notice.height < composer.y, "on a phone it is in sight");
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
    // What is chosen then runs on it, too.
    await page.locator("#clear").click();
    await page.locator("#choose").click();
    await page.locator("#address").fill("models/greedy/");
    await page.keyboard.press("Enter");
    await page.locator(`#model-name:text("greedy"), ${PROBLEM}:visible`).first().waitFor();
    assert.equal(await page.locator("#model-name").textContent(), "greedy");
    assert.equal(await page.locator(PROBLEM).isVisible(), false);
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
    const stays = await page.evaluate(async () => {
      const { Loader } = await import("/loader.js");
      const loader = new Loader("model/", {});
      loader.current = /** @type {any} */ ({ info: { device: "cpu" }, close: () => {} });
      loader.useProcessor();
      return loader.current !== null;
    });
    assert.ok(stays, "a model that is on the processor stays");
    await page.close();
    const other = await open(without, greedy);
    await other.page.locator(PROBLEM).waitFor();
    assert.match(await other.page.locator(PROBLEM).textContent(), /This browser offers no WebGPU/);
    await other.page.getByRole("button", { name: "Use the processor" }).click();
    await loaded(other.page);
    assert.match(await other.page.locator("#adapter").textContent(), /without WebGPU/);
    assert.equal(await ask(other.page, FRANCE.messages[0].content), FRANCE.answer);
  } finally {
    await without.close();
  }
});

test("loading can be cancelled before anything is asked, and begun again", async () => {
  const { page } = await open(browser, `${server.url}?model=models/held/&device=cpu`);
  const status = page.locator("#conversation .status");
  await status.getByRole("button", { name: "Cancel" }).click();
  await status.waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Load the model" }).click();
  await status.waitFor();
  await page.close();
});

test("a question can be asked while the model is loaded, and loading can be cancelled", async () => {
  const { page } = await open(browser, `${server.url}?model=models/held/&device=cpu`);
  await say(page, FRANCE.messages[0].content);
  await page.locator(`${MESSAGES}.user`).waitFor();
  await page.locator(STOP).click();
  await page.locator(SEND).waitFor();
  const start = page.getByRole("button", { name: "Regenerate" });
  await start.click();
  await page.locator("#conversation .status").waitFor();
  release();
  await page.locator(`${MESSAGES}.assistant`, { hasText: FRANCE.answer }).waitFor();
  await page.close();
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
      await page.locator(`${MESSAGES}.assistant`, { hasText: "Once upon a" }).waitFor();
      await devtools.send("Browser.crashGpuProcess");
      if (lost === 1) assert.equal(await answered(page), STORY.answer);
    }
    const offer = page.getByRole("button", { name: "Use the processor" });
    // An answer that ended before its GPU is no failure: the next one is.
    const ended = page.locator(`${MESSAGES}.assistant`, { hasText: STORY.answer });
    await offer.or(ended).waitFor();
    if (await ended.isVisible()) await say(page, STORY.messages[0].content);
    await offer.click();
    await loaded(page);
    assert.match(await page.locator("#adapter").textContent(), /without WebGPU/);
    await page.locator("#clear").click();
    assert.equal(await ask(page, FRANCE.messages[0].content), FRANCE.answer);
  } finally {
    await failing.close();
  }
});
