// <tabloom-chat> on a page: one line of HTML that chats, by mouse, keyboard and screen reader.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { launch, noteWarnings, testBeyondFirefox, waitUntil } from "./browser.mjs";
import { FIREFOX } from "./firefox.mjs";
import { holdAnswers, holdable } from "./hold.mjs";
import { goldens } from "./package.mjs";
import { modelFile, policy, serve } from "./server.mjs";

const [FRANCE] = goldens;
const QUESTION = FRANCE.messages[0].content;
const PLURALS = goldens.find((golden) => golden.messages.length === 3);
const STORY = goldens.find((golden) => /story/.test(golden.messages[0].content));
const PATIENCE = 120_000;

const html = (body) => `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>A page with a chat</title>
<link rel="icon" href="icon.svg">
<script type="module" src="tabloom/element.js"></script>
${body}`;

const config = await modelFile("config.json");
const weights = await modelFile("model.safetensors");

let server;
let browser;
let context;
/** Whether the flaky model is there. */
let broken;
/** What the slow model's weights wait for. */
let held;

before(async () => {
  server = await serve(
    {
      "": {
        "one.html": html(`<tabloom-chat model="model/" device="cpu" temperature="0"></tabloom-chat>`),
        "gpu.html": html(`<tabloom-chat model="model/" temperature="0"></tabloom-chat>`),
        "two.html": html(`<tabloom-chat id="a" model="model/" device="cpu" temperature="0"></tabloom-chat>
          <tabloom-chat id="b" model="./model" device="cpu" temperature="0"></tabloom-chat>`),
        "auto.html": html(`<tabloom-chat autoload model="model/" device="cpu" temperature="0"></tabloom-chat>`),
        "slow.html": html(`<tabloom-chat model="models/slow/" device="cpu" temperature="0"></tabloom-chat>`),
        "flaky.html": html(`<tabloom-chat model="models/flaky/" device="cpu" temperature="0"></tabloom-chat>`),
        "session.html": html(
          `<tabloom-chat model="model/" device="cpu" temperature="0" storage="session"></tabloom-chat>`,
        ),
        "local.html": html(
          `<tabloom-chat id="kept" model="model/" device="cpu" temperature="0" storage="local"></tabloom-chat>`,
        ),
        "slots.html": html(`<tabloom-chat model="model/" device="cpu"><h2 slot="header">Our chat</h2>
          <p slot="empty">Ask us.</p><small slot="footer">Be kind.</small></tabloom-chat>`),
        "fake.html": html(`<p id="elsewhere"></p><tabloom-chat></tabloom-chat>`),
      },
      "models/flaky/": {
        "config.json": (response) => {
          response.writeHead(broken ? 404 : 200, { "content-length": broken ? 0 : config.length });
          response.end(broken ? "" : config);
        },
      },
      "models/slow/": {
        "model.safetensors": async (response) => {
          const part = /** @type {string} */ (response.req.headers.range ?? "");
          const [, start = 0, end = weights.length - 1] = (/(\d+)-(\d+)/.exec(part) ?? []).map(Number);
          const body = weights.subarray(start, end + 1);
          response.writeHead(part ? 206 : 200, {
            "content-length": body.length,
            ...(part && { "content-range": `bytes ${start}-${end}/${weights.length}` }),
          });
          response.write(body.subarray(0, body.length / 2));
          await held.promise;
          response.end(body.subarray(body.length / 2));
        },
      },
    },
    { "content-security-policy": policy },
  );
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.close();
});

beforeEach(async () => {
  broken = true;
  held = {};
  held.promise = new Promise((release) => (held.release = release));
  context = await browser.newContext();
});

afterEach(async () => {
  held.release();
  await context.close();
});

/** Runs in the page before its own scripts. */
function watch() {
  globalThis.events = [];
  globalThis.violations = [];
  document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) =>
    violations.push(`${violatedDirective} ${blockedURI} ${sample}`),
  );
  for (const name of ["load", "ready", "message", "error"]) {
    addEventListener(`tabloom-${name}`, (/** @type {any} */ { detail, target }) => {
      const { message, finishReason, error } = detail;
      events.push({ name, by: target.localName, message, finishReason, code: error?.code });
    });
  }
}

/** Opens a page; `problems` and `requests` fill up as it runs. */
async function open(file, where = context) {
  const page = await where.newPage();
  page.setDefaultTimeout(PATIENCE);
  const [problems, requests] = [[], []];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => problems.push(`${error.stack}`));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  await page.addInitScript(watch);
  await holdable(page);
  await page.goto(`${server.url}${file}`);
  await page.waitForFunction(() => customElements.get("tabloom-chat"));
  const chat = page.locator("tabloom-chat");
  const input = page.getByRole("textbox", { name: "Your message" });
  return { page, chat, input, problems, requests };
}

/** Waits until a chat does something. */
const until = (page, state, id = "tabloom-chat") =>
  page.waitForFunction(([state, id]) => document.querySelector(id).state === state, [state, id]);

const messages = (page) => page.evaluate(() => document.querySelector("tabloom-chat").messages);

/** Waits for the end of the answer and gives it. */
async function answered(page) {
  await until(page, "ready");
  const { role, content } = (await messages(page)).at(-1);
  assert.equal(role, "assistant");
  return content;
}

/**
 * A page whose chat has an engine of the test's: `answers` holds what was asked, and what it is told
 * by `say`, `end` and `fail`.
 */
async function fake(where = context) {
  const opened = await open("fake.html", where);
  await opened.page.evaluate(() => {
    globalThis.chat = document.querySelector("tabloom-chat");
    globalThis.answers = [];
    const create = async (params, { signal }) => {
      let wake = () => {};
      const queue = [];
      const tell = (event) => {
        queue.push(event);
        wake();
      };
      const answer = {
        params: structuredClone(params),
        signal,
        say: (content) => tell({ content }),
        think: (reasoning_content) => tell({ reasoning_content }),
        end: (reason = "stop", usage) => tell({ reason, usage }),
        fail: (message, code) => tell({ error: Object.assign(new Error(message), { code }) }),
      };
      signal.addEventListener("abort", () => tell({ error: signal.reason }));
      answers.push(answer);
      return (async function* () {
        for (;;) {
          while (queue.length === 0) await /** @type {Promise<void>} */ (new Promise((resolve) => (wake = resolve)));
          const { reason = null, usage, error, ...delta } = queue.shift();
          if (error) throw error;
          yield { choices: [{ delta, finish_reason: reason }], usage };
          if (reason) return;
        }
      })();
    };
    const countTokens = async () => Promise.reject(new Error("it has no tokens"));
    chat.engine = { chat: { completions: { create } }, countTokens, info: { context: 100 } };
    globalThis.shadow = (selector) => chat.shadowRoot.querySelector(selector);
    globalThis.painted = () =>
      new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));
  });
  return opened;
}

/** A page that keeps its conversation until it is cleared, and whose answers end when they are told to. */
async function tab() {
  const { page, chat, input } = await open("local.html");
  await page.evaluate(() => {
    globalThis.chat = document.querySelector("tabloom-chat");
    globalThis.answers = [];
    const create = async ({ messages }) => {
      const answer = `to ${messages.at(-1).content}`;
      return (async function* () {
        yield { choices: [{ delta: { content: answer } }] };
        await new Promise((end) => answers.push(end));
        yield { choices: [{ delta: {}, finish_reason: "stop" }] };
      })();
    };
    chat.engine = { chat: { completions: { create } }, countTokens: async () => 1, info: { context: 100 } };
  });
  return {
    page,
    chat,
    ask: async (question) => {
      await input.fill(question);
      await input.press("Enter");
      await page.waitForFunction(() => answers.length > 0);
    },
    end: () => page.evaluate(() => answers.pop()()),
    shows: (texts) =>
      page.waitForFunction(
        (texts) => texts === [...chat.shadowRoot.querySelectorAll(".text")].map((text) => text.textContent).join(),
        texts.join(),
      ),
  };
}

/** Drags the content of an element down by touch, as a finger would. */
async function drag(page, element, pixels) {
  const { x, y, width, height } = await element.boundingBox();
  const devtools = await page.context().newCDPSession(page);
  const [left, top] = [x + width / 2, y + height / 4];
  const send = (type, touchPoints) => devtools.send("Input.dispatchTouchEvent", { type, touchPoints });
  await send("touchStart", [{ x: left, y: top }]);
  for (let moved = 20; moved <= pixels; moved += 20) await send("touchMove", [{ x: left, y: top + moved }]);
  await send("touchEnd", []);
}

/** Answers the fake engine's request of this number as soon as it is asked. */
async function answerOf(page, count, text, reason = "stop") {
  await page.waitForFunction((count) => answers.length === count, count);
  await page.evaluate(
    ([text, reason]) => {
      answers.at(-1).say(text);
      answers.at(-1).end(reason);
    },
    [text, reason],
  );
  await until(page, "ready");
}

test("one line of HTML chats, under a strict policy with Trusted Types", async () => {
  assert.match(policy, /require-trusted-types-for 'script'/);
  assert.doesNotMatch(policy, /unsafe-inline|'unsafe-eval'/);
  const { page, input, problems, requests } = await open("gpu.html");
  assert.equal(await page.evaluate(() => document.querySelector("tabloom-chat").state), "idle");
  assert.deepEqual(
    requests.filter((address) => /worker\.js|\/model\//.test(address)),
    [],
  );
  await input.fill(QUESTION);
  await page.getByRole("button", { name: "Send" }).click();
  assert.equal(await answered(page), FRANCE.answer);
  assert.equal(await page.getByRole("article", { name: "Assistant" }).locator(".text").textContent(), FRANCE.answer);
  assert.equal(await page.locator("tabloom-chat:state(ready)").count(), 1);

  const events = await page.evaluate(() => globalThis.events);
  assert.ok(events.every(({ by }) => by === "tabloom-chat"));
  const names = events.map(({ name }) => name).filter((name, i, all) => name !== all[i - 1]);
  assert.deepEqual(names, ["message", "load", "ready", "message"]);
  assert.deepEqual(events.at(-1).message, { role: "assistant", content: FRANCE.answer });
  assert.equal(events.at(-1).finishReason, "stop");
  assert.deepEqual(await page.evaluate(() => violations), []);
  assert.deepEqual(problems, []);
  assert.deepEqual(
    requests.filter((address) => !address.startsWith(server.url)),
    [],
  );
});

test("a second question is answered in the light of the first", async () => {
  const { page, input } = await open("one.html");
  const [first, between, second] = PLURALS.messages;
  await input.fill(first.content);
  await input.press("Enter");
  assert.equal(await answered(page), between.content);
  await input.fill(second.content);
  await input.press("Enter");
  await page.waitForFunction(() => document.querySelector("tabloom-chat").messages.length === 4);
  assert.equal(await answered(page), PLURALS.answer);
});

test("the start button loads the model, autoload needs none", async () => {
  const { page, chat } = await open("one.html");
  await chat.getByRole("button", { name: "Load the model" }).click();
  await until(page, "ready");
  assert.equal(await chat.getByRole("button", { name: "Load the model" }).count(), 0);
  const auto = await open("auto.html");
  await until(auto.page, "ready");
  assert.equal(await auto.chat.getByRole("button", { name: "Load the model" }).count(), 0);
  // `autoload` loads once, whatever order attributes come in.
  assert.deepEqual((await auto.page.evaluate(() => events)).filter(({ name }) => name === "ready").length, 1);
});

test("the keyboard is enough", async () => {
  const { page, input } = await open("one.html");
  const focused = () =>
    page.evaluate(() => document.activeElement.shadowRoot?.activeElement?.getAttribute("part") ?? "");
  for (const part of ["log", "button start", "input"]) {
    await page.keyboard.press("Tab");
    assert.equal(await focused(), part);
  }
  await page.keyboard.type("What is the capital");
  await page.keyboard.press("Shift+Enter");
  assert.match(await input.inputValue(), /capital\n$/);
  await page.keyboard.press("Backspace");
  await page.keyboard.type(" of France?");
  await page.keyboard.press("Enter");
  assert.equal(await answered(page), FRANCE.answer);
  assert.equal(await focused(), "input");

  await holdAnswers(page);
  await page.keyboard.type(STORY.messages[0].content);
  await page.keyboard.press("Enter");
  await page.getByRole("article").last().filter({ hasText: "Once upon" }).waitFor();
  await page.keyboard.press("Escape");
  const part = await answered(page);
  assert.ok(part.length < STORY.answer.length, part);
  assert.equal(await focused(), "input");
  assert.equal((await page.evaluate(() => events)).at(-1).finishReason, "stopped");

  // Back over the composer's first button to the last message's: answer again.
  for (const name of ["button clear", "action again"]) {
    await page.keyboard.press("Shift+Tab");
    assert.equal(await focused(), name);
  }
  await page.keyboard.press("Enter");
  await until(page, "busy");
  assert.equal(await focused(), "input");
  await page.keyboard.press("Escape");
  await until(page, "ready");

  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Undo" }).waitFor();
  assert.deepEqual(await messages(page), []);
  assert.equal(await focused(), "input");
});

test("an input method keeps its Enter", async () => {
  const { page, input } = await fake();
  await input.fill("にほん");
  const press = (init) =>
    input.evaluate((input, init) => {
      const options = { key: "Enter", bubbles: true, composed: true, cancelable: true, ...init };
      input.dispatchEvent(new KeyboardEvent("keydown", options));
    }, init);
  await press({ isComposing: true });
  await press({ keyCode: 229 });
  assert.equal(await page.evaluate(() => answers.length), 0);
  await press({});
  await page.waitForFunction(() => answers.length === 1);
});

test("its roles and names tell what it is", async () => {
  const { page, chat, input } = await open("slow.html");
  await input.fill(QUESTION);
  await input.press("Enter");
  const progress = chat.getByRole("progressbar", { name: "Loading the model" });
  await progress.waitFor();
  await page.waitForFunction(() => {
    const bar = document.querySelector("tabloom-chat").shadowRoot.querySelector("[role=progressbar]");
    return Number(bar.getAttribute("aria-valuenow")) > 0;
  });
  assert.ok(Number(await progress.getAttribute("aria-valuenow")) < 100);
  assert.equal(await page.locator("tabloom-chat:state(loading)").count(), 1);
  assert.ok(await chat.getByRole("button", { name: "Stop" }).isVisible());
  held.release();
  assert.equal(await answered(page), FRANCE.answer);
  assert.equal(await progress.count(), 0);
  const tree = await chat.ariaSnapshot();
  for (const part of [
    'log "Conversation"',
    'article "You"',
    'button "Edit question"',
    'article "Assistant"',
    'button "Copy answer"',
    'button "Regenerate"',
    'button "New chat"',
    'textbox "Your message"',
    'button "Send" [disabled]',
  ]) {
    assert.ok(tree.includes(part), `${part} in\n${tree}`);
  }
  assert.equal(await chat.getByRole("log").getAttribute("aria-live"), "polite");
});

test("an answer is read out by whole blocks, not by tokens", async () => {
  const { page } = await fake();
  const { spoken, shown, busy, live } = await page.evaluate(async () => {
    const voice = shadow(".foot > [aria-live]");
    const spoken = [];
    let shown = 0;
    const told = new MutationObserver((records) => {
      for (const { addedNodes } of records) for (const node of addedNodes) spoken.push(node.textContent);
    });
    told.observe(voice, { childList: true });
    chat.send("Go");
    while (answers.length === 0) await painted();
    new MutationObserver(() => shown++).observe(shadow(".assistant .text"), {
      subtree: true,
      childList: true,
      characterData: true,
    });
    const text = "One two three four.\n\n- five\n- six\n\nSeven **eight** nine.";
    for (const letter of text) {
      answers[0].say(letter);
      await painted();
    }
    const busy = shadow(".log").getAttribute("aria-busy");
    const live = shadow(".assistant .text").getAttribute("aria-live");
    answers[0].end();
    while (chat.state !== "ready") await painted();
    await painted();
    return { spoken, shown, busy, live };
  });
  assert.deepEqual(spoken, ["The answer is being written", "One two three four.", "five\n\nsix\nSeven eight nine."]);
  assert.ok(shown > 20, `${shown} changes`);
  assert.equal(busy, "true");
  assert.equal(live, "off");
});

test("where an answer takes long to begin that is told, once, until its first word", async () => {
  const { page, chat } = await fake();
  const dots = chat.locator("[part=waiting]");
  await page.evaluate(() => {
    globalThis.spoken = [];
    new MutationObserver((records) => {
      for (const { addedNodes } of records) for (const node of addedNodes) spoken.push(node.textContent);
    }).observe(shadow(".foot > [aria-live]"), { childList: true });
  });
  for (const [i, begin] of ["say", "think"].entries()) {
    await page.evaluate(() => void chat.send("Go"));
    await dots.filter({ hasText: "Thinking…" }).waitFor();
    const told = await page.evaluate(() => spoken.splice(0));
    assert.deepEqual(told.slice(-2), ["The answer is being written", "Thinking…"]);
    await page.evaluate(([i, begin]) => answers[i][begin]("First."), [i, begin]);
    // Thoughts are not shown.
    if (begin === "think") assert.equal(await dots.textContent(), "Thinking…");
    else await dots.waitFor({ state: "detached" });
    await page.evaluate((i) => {
      answers[i].say("Second.");
      answers[i].end();
    }, i);
    await until(page, "ready");
    assert.equal(await dots.count(), 0);
  }
});

test("what was announced is gone after a while, however much comes after it", async () => {
  const { page } = await fake();
  await page.evaluate(async () => {
    chat.send("Go");
    while (answers.length === 0) await painted();
    answers[0].say("First.\n\nSecond.\n");
  });
  const voice = page.locator("tabloom-chat .foot > [aria-live]");
  await voice.getByText("First.").waitFor({ state: "attached" });
  await page.waitForTimeout(2_500);
  await page.evaluate(() => answers[0].say("\nThird.\n"));
  await voice.getByText("Second.").waitFor({ state: "attached" });
  await voice.getByText("First.").waitFor({ state: "detached" });
  assert.equal(await voice.textContent(), "Second.");
  await voice.getByText("Second.").waitFor({ state: "detached" });
});

test("what comes between two frames is shown at once", async () => {
  const { page } = await fake();
  const { changes, text } = await page.evaluate(async () => {
    chat.send("Go");
    while (answers.length === 0) await painted();
    let changes = 0;
    let frame = 0;
    const seen = new Set();
    const count = () =>
      requestAnimationFrame(() => {
        frame++;
        count();
      });
    count();
    new MutationObserver(() => {
      changes++;
      seen.add(frame);
    }).observe(shadow(".assistant .text"), { subtree: true, childList: true, characterData: true });
    for (let i = 0; i < 400; i++) answers[0].say(`${i} `);
    answers[0].end();
    while (chat.state !== "ready") await painted();
    return { changes: changes - seen.size, text: shadow(".assistant .text").textContent };
  });
  assert.ok(changes <= 1, `${changes} more changes than frames`);
  assert.equal(text, Array.from({ length: 400 }, (_, i) => i).join(" "));
});

test("a page shows code and formulas its own way, once they are final", async () => {
  const { page, problems } = await fake();
  await page.evaluate(async () => {
    // What asks them is loaded when first needed, which takes as long as the network does.
    await import(`${new URL("tabloom/element/prose/enrich.js", location.href)}`);
    globalThis.asked = [];
    const { renderers } = /** @type {typeof TabloomChat} */ (customElements.get("tabloom-chat"));
    const node = (text) => Object.assign(document.createElement("b"), { textContent: text });
    renderers.code = (text, language) => {
      asked.push(`${language}: ${text}`);
      if (language === "bad") throw new Error("no such language");
      return language === "slow" ? new Promise(() => {}) : node(text);
    };
    renderers.math = async (tex, display) => {
      asked.push(`${tex} ${display}`);
      if (tex === "bad") throw new Error("no formula");
      return node(`formula ${tex}`);
    };
    chat.send("Show me");
  });
  await page.waitForFunction(() => answers.length === 1);
  const say = (text) =>
    page.evaluate(async (text) => {
      answers[0].say(text);
      await painted();
      await painted();
      return asked.splice(0);
    }, text);
  assert.deepEqual(await say("```js\nlet a"), []);
  assert.deepEqual(await say(" = 1;\n```\n\nSo $x"), [], "a line that follows may be a part of it");
  assert.deepEqual(await say("$ is it.\n"), ["js: let a = 1;"]);
  assert.deepEqual(await say("\n```bad\nb\n```\n```slow\nc\n```\n"), ["x false", "bad: b"]);
  assert.deepEqual(await say("\\[ y"), []);
  assert.deepEqual(await say(" \\]\n\n$bad$"), ["slow: c"]);
  await page.evaluate(() => answers[0].end());
  await until(page, "ready");
  await page.evaluate(() => painted());
  assert.deepEqual(await page.evaluate(() => asked), ["y true", "bad false"]);
  const texts = await page.evaluate(() =>
    [...shadow(".assistant .text").querySelectorAll("pre, p")].map((node) => [
      node.textContent,
      node.querySelectorAll("b").length,
    ]),
  );
  assert.deepEqual(texts, [
    ["let a = 1;", 1],
    ["So formula x is it.", 1],
    ["b", 0],
    ["c", 0],
    ["formula y", 1],
    ["$bad$", 0],
  ]);
  assert.deepEqual(problems, []);
});

test("what a page's own renderers throw is told to developers, once for each", async () => {
  const { page, problems } = await fake();
  await page.evaluate(noteWarnings);
  const told = await page.evaluate(async () => {
    await import(`${new URL("tabloom/element/prose/enrich.js", location.href)}`);
    const { renderers } = /** @type {typeof TabloomChat} */ (customElements.get("tabloom-chat"));
    renderers.code = () => {
      throw new Error("no code");
    };
    renderers.math = async () => {
      throw new Error("no formula");
    };
    chat.messages = [{ role: "assistant", content: "```\na\n```\n```\nb\n```\n\n$x$ and $y$" }];
    await painted();
    return globalThis.warned;
  });
  assert.deepEqual(told, ["no code", "no formula"]);
  assert.deepEqual(problems, []);
});

test("it scrolls along, but not under who has scrolled up", async () => {
  const { page, chat } = await fake();
  const end = () =>
    page.evaluate(async () => {
      await painted();
      const { scrollHeight, scrollTop, clientHeight } = shadow(".log");
      return scrollHeight - scrollTop - clientHeight;
    });
  const say = () => page.evaluate(() => answers[0].say("A line of text.\n\n".repeat(40)));
  await page.evaluate(() => void chat.send("Go"));
  await page.waitForFunction(() => answers.length === 1);
  await say();
  assert.ok((await end()) < 2);
  await page.evaluate(() => shadow(".log").scrollTo(0, 0));
  const latest = chat.getByRole("button", { name: "Go to the end" });
  await latest.waitFor();
  await say();
  await end();
  assert.equal(await page.evaluate(() => shadow(".log").scrollTop), 0);
  await latest.click();
  assert.ok((await end()) < 2);
  assert.equal(await page.evaluate(() => chat.shadowRoot.activeElement?.id), "input");
  await say();
  assert.ok((await end()) < 2);
  assert.equal(await latest.count(), 0);
});

test("wheel, keys and touch let go of an answer that grows", async () => {
  const { page, chat } = await fake();
  const log = chat.getByRole("log");
  const distance = () => log.evaluate((log) => Math.round(log.scrollHeight - log.scrollTop - log.clientHeight));
  await page.evaluate(() => {
    chat.send("Go");
    globalThis.growing = setInterval(() => answers[0]?.say("A line of text.\n\n"), 30);
  });
  await page.waitForFunction(() => shadow(".log").scrollHeight > 3 * shadow(".log").clientHeight);
  const ways = {
    async trackpad() {
      await log.hover();
      for (let i = 0; i < 8; i++) await page.mouse.wheel(0, -8);
    },
    ...Object.fromEntries(
      ["ArrowUp", "PageUp", "Home"].map((key) => [
        key,
        async () => {
          await log.focus();
          await page.keyboard.press(key);
        },
      ]),
    ),
    ...(FIREFOX ? {} : { touch: () => drag(page, log, 240) }),
  };
  for (const [way, scroll] of Object.entries(ways)) {
    assert.ok((await distance()) < 64, `${way} begins at the end`);
    await scroll();
    const latest = chat.getByRole("button", { name: "Go to the end" });
    await latest.waitFor();
    const top = await log.evaluate((log) => log.scrollTop);
    await page.waitForTimeout(300);
    assert.ok((await log.evaluate((log) => log.scrollTop)) <= top + 1, `${way}: scrolled back down`);
    // Nor does another size bring the end back: what was read stays in sight.
    for (const height of ["18rem", ""]) {
      await page.evaluate((height) => (chat.style.blockSize = height), height);
      await page.evaluate(() => painted());
      assert.ok((await distance()) > 1, `${way}: at the end after a change of size`);
    }
    await latest.click();
    await page.waitForTimeout(100);
  }
  await page.evaluate(() => clearInterval(globalThis.growing));
});

test("requests carry what attributes say, and a number that is none is refused", async () => {
  const { page, chat } = await fake();
  const params = await page.evaluate(async () => {
    chat.setAttribute("system", "Be brief.");
    chat.setAttribute("max-tokens", "12");
    chat.temperature = 0.5;
    chat.messages = [
      { role: "user", content: "a" },
      { role: "assistant", content: "b" },
    ];
    const sent = chat.send("  c  ");
    while (answers.length === 0) await painted();
    answers[0].say("d");
    answers[0].end("length");
    const answer = await sent;
    return { ...answers[0].params, answer, note: shadow("article:last-child [part=note]").textContent };
  });
  assert.deepEqual(params, {
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "a" },
      { role: "assistant", content: "b" },
      { role: "user", content: "c" },
    ],
    temperature: 0.5,
    max_completion_tokens: 12,
    stream: true,
    stream_options: { include_usage: true },
    answer: { role: "assistant", content: "d" },
    note: "Cut off at the token limit.",
  });
  const full = await page.evaluate(async () => {
    const sent = chat.send("more");
    while (answers.length === 1) await painted();
    answers[1].say("d");
    answers[1].end("length", { total_tokens: 100 });
    await sent;
    return shadow("article:last-child [part=note]").textContent;
  });
  assert.equal(full, "Cut off: the context is full.");
  await page.evaluate(async () => {
    chat.setAttribute("temperature", "warm");
    await chat.send("e");
  });
  const refusal = chat.getByRole("alert");
  assert.match(await refusal.textContent(), /The chat is set up in a way that does not work\./);
  assert.match(await refusal.getAttribute("title"), /temperature: found "warm", expected a number/);
  const refused = await page.evaluate(async () => {
    chat.temperature = 0;
    const failures = [];
    for (const bad of [7, [{ role: "system", content: "x" }], [{ role: "user" }]]) {
      try {
        chat.messages = bad;
      } catch (error) {
        failures.push(error.message);
      }
    }
    chat.send("x");
    failures.push(await chat.send("y").catch((error) => error.code));
    return failures;
  });
  assert.deepEqual(refused, [
    "messages: found 7, expected a list",
    'messages[0].role: found "system", expected "user" or "assistant"',
    "messages[0].content: found undefined, expected a text",
    "invalid_request",
  ]);
});

test("questions can be edited, answered again and left; answers can be copied", async () => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const { page, chat, input } = await fake();
  const asked = () => page.evaluate(() => answers.at(-1).params.messages.map(({ content }) => content));
  const answer = (count, text) => answerOf(page, count, text);
  await input.fill("one");
  await input.press("Enter");
  await answer(1, "**first**\n\n```js\nx()\n```");
  await input.fill("two");
  await input.press("Enter");
  await answer(2, "second");
  const edit = chat.getByRole("button", { name: "Edit question" }).last();

  await chat.getByRole("button", { name: "Regenerate" }).last().click();
  await answer(3, "third");
  assert.deepEqual(await asked(), ["one", "**first**\n\n```js\nx()\n```", "two"]);

  await input.fill("a draft");
  await edit.click();
  assert.equal(await input.inputValue(), "two");
  await page.keyboard.press("Escape");
  assert.equal(await input.inputValue(), "a draft");
  assert.equal((await messages(page)).length, 4);
  await edit.click();
  await input.fill("three");
  await page.keyboard.press("Enter");
  await answer(4, "fourth");
  assert.deepEqual(await asked(), ["one", "**first**\n\n```js\nx()\n```", "three"]);
  assert.deepEqual((await messages(page)).map(({ content }) => content).slice(2), ["three", "fourth"]);
  assert.equal(await input.inputValue(), "a draft");

  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  await chat.getByRole("button", { name: "Copy code" }).click();
  await chat.getByText("Copied").first().waitFor({ state: "attached" });
  assert.equal(await copied(), "x()");
  await chat.getByRole("button", { name: "Copy answer" }).first().click();
  await waitUntil(page, async () => (await navigator.clipboard.readText()).startsWith("**first"));
});

test("who looks at another version of an early answer stays at it", async () => {
  const { page, chat } = await fake();
  await page.evaluate(() => {
    const turns = (name) =>
      Array.from({ length: 20 }, (_, i) => ({
        role: i % 2 ? "assistant" : "user",
        content: `${name} ${i} `.repeat(99),
      }));
    const [question, answer, ...rest] = turns("now");
    chat.messages = [question, { ...answer, versions: [turns("then").slice(1), null] }, ...rest];
  });
  const article = chat.getByRole("article").nth(1);
  const button = (name) => article.getByRole("button", { name });
  const top = async () => (await article.boundingBox()).y;
  await article.scrollIntoViewIfNeeded();
  await button("Previous version").hover();
  const before = await top();
  for (const [name, text] of [
    ["Previous version", "then 1"],
    ["Next version", "now 1"],
  ]) {
    // By the mouse alone: a locator that waits for an animation scrolls by itself.
    const { x, y, width, height } = await button(name).boundingBox();
    await page.mouse.click(x + width / 2, y + height / 2);
    await page.evaluate(() => painted());
    assert.match(await article.locator(".text").textContent(), new RegExp(`^${text} `));
    // A text that is a line longer is scrolled by that line.
    assert.ok(Math.abs((await top()) - before) < 32, `at ${await top()}, before ${before}`);
  }
  await page.mouse.wheel(0, 100_000);
  await chat.getByRole("button", { name: "Go to the end" }).waitFor({ state: "hidden" });
});

test("what has to wait until an answer is there says so; a question is edited meanwhile, and asked then", async () => {
  const { page, chat, input } = await fake();
  await page.evaluate(() => {
    const versions = [[{ role: /** @type {const} */ ("assistant"), content: "Before." }], null];
    chat.messages = [
      { role: "user", content: "one" },
      { role: "assistant", content: "First.", versions },
    ];
  });
  await input.fill("two");
  await input.press("Enter");
  await page.waitForFunction(() => answers.length === 1);
  const first = chat.getByRole("article").nth(1);
  for (const name of ["Regenerate", "Previous version"]) {
    const button = first.getByRole("button", { name });
    assert.equal(await button.getAttribute("aria-disabled"), "true", name);
    assert.equal(await button.getAttribute("title"), "The answer is being written", name);
    await button.dispatchEvent("click");
    assert.equal(await first.locator(".text").textContent(), "First.");
  }
  assert.ok(await first.getByRole("button", { name: "Copy answer" }).isEnabled());
  const edit = chat.getByRole("button", { name: "Edit question" }).first();
  await edit.click();
  await page.keyboard.press("Escape");
  assert.equal(await input.inputValue(), "");
  await edit.click();
  assert.equal(await input.inputValue(), "one");
  await input.fill("another");
  await input.press("Enter");
  await chat.locator("[part=next]", { hasText: "another" }).waitFor();
  await page.evaluate(() => {
    answers[0].say("Second.");
    answers[0].end();
  });
  await answerOf(page, 2, "Third.");
  assert.deepEqual(await page.evaluate(() => answers[1].params.messages), [{ role: "user", content: "another" }]);
  const again = first.getByRole("button", { name: "Regenerate" });
  assert.deepEqual([await again.isEnabled(), await again.getAttribute("title")], [true, "Regenerate"]);
});

test("what was edited or answered again stays as a version, with all that followed", async () => {
  const { page, chat, input } = await fake();
  const latest = chat.getByRole("button", { name: "Go to the end" });
  const texts = async () => (await messages(page)).map(({ content }) => content);
  const press = (name, i) => chat.getByRole("article").nth(i).getByRole("button", { name }).click();
  await input.fill("one");
  await input.press("Enter");
  await answerOf(page, 1, "first");
  await input.fill("two");
  await input.press("Enter");
  await answerOf(page, 2, "second");

  await press("Regenerate", 1);
  await answerOf(page, 3, "another first");
  assert.deepEqual(await texts(), ["one", "another first"]);
  const versions = chat.locator(".versions:visible");
  assert.equal(await versions.textContent(), "2/2");
  await press("Previous version", 1);
  assert.deepEqual(await texts(), ["one", "first", "two", "second"]);
  assert.equal(await versions.textContent(), "1/2");
  // At the first version the button to the next has the focus.
  await page.keyboard.press("Enter");
  assert.deepEqual(await texts(), ["one", "another first"]);
  await press("Previous version", 1);
  // All is on the screen: there is no end to go to.
  await page.evaluate(() => painted());
  assert.equal(await latest.count(), 0);
  const older = chat.getByRole("button", { name: "Previous version" });
  assert.equal(await older.evaluate((button) => getComputedStyle(button).opacity), "0.4");

  await press("Edit question", 2);
  await input.fill("three");
  await input.press("Enter");
  await answerOf(page, 4, "third");
  assert.deepEqual(await texts(), ["one", "first", "three", "third"]);
  await press("Previous version", 2);
  assert.deepEqual(await texts(), ["one", "first", "two", "second"]);

  // An answer that never begins gives way to the one that was there.
  await press("Regenerate", 3);
  await page.waitForFunction(() => answers.length === 5);
  await chat.getByRole("button", { name: "Stop" }).click();
  await until(page, "ready");
  assert.deepEqual(await texts(), ["one", "first", "two", "second"]);

  const whole = await messages(page);
  await page.evaluate((whole) => (chat.messages = whole), whole);
  assert.deepEqual(await messages(page), whole);
  const refused = (versions) =>
    page.evaluate((versions) => {
      try {
        chat.messages = [{ role: "user", content: "x", versions }];
      } catch (error) {
        return error.message;
      }
    }, versions);
  assert.match(await refused([]), /messages\[0\]\.versions: found \[\], expected a list with null/);
  for (const none of [[], 0, "", false, {}]) {
    const expected = `messages[0].versions[1]: found ${JSON.stringify(none)}, expected messages`;
    assert.equal(await refused([null, none]), expected);
  }
  assert.match(await refused([null, "x"]), /^messages\[0\]\.versions\[1\]: found "x", expected a list/);
  assert.match(await refused([[{ role: "root" }], null]), /^messages\[0\]\.versions\[0\]\[0\]\.role: found "root"/);
  assert.deepEqual(await messages(page), whole);
});

test("an answer that was stopped goes on", async () => {
  const { page, chat, input } = await fake();
  await input.fill("one");
  await input.press("Enter");
  await page.waitForFunction(() => answers.length === 1);
  await page.evaluate(() => answers[0].say("One, two"));
  await chat.getByText("One, two").waitFor();
  await page.keyboard.press("Escape");
  await until(page, "ready");
  assert.ok(await chat.getByText("Stopped.").isVisible());
  assert.equal((await messages(page)).at(-1).end, "stopped");
  await chat.getByRole("button", { name: "Continue" }).click();
  await answerOf(page, 2, ", three.");
  assert.deepEqual(await page.evaluate(() => answers[1].params.messages.at(-1)), {
    role: "assistant",
    content: "One, two",
  });
  assert.deepEqual((await messages(page)).at(-1), { role: "assistant", content: "One, two, three." });
  assert.deepEqual(await chat.locator(".assistant p:not(.note)").allTextContents(), ["One, two, three."]);
  assert.equal(await chat.getByText("Stopped.").isVisible(), false);
  assert.equal(await chat.getByRole("button", { name: "Continue" }).isVisible(), false);
});

test("a growing answer is kept, and is there after a reload", async () => {
  const { page } = await fake();
  const kept = await page.evaluate(async () => {
    const other = document.createElement("tabloom-chat");
    other.id = "growing";
    other.storage = "session";
    document.body.append(other);
    other.engine = chat.engine;
    other.send("one");
    while (answers.length === 0) await painted();
    answers[0].say("begun");
    while (!sessionStorage.getItem("tabloom-chat:growing")?.includes("begun")) await painted();
    return JSON.parse(sessionStorage.getItem("tabloom-chat:growing"));
  });
  assert.deepEqual(kept, [
    { role: "user", content: "one" },
    { role: "assistant", content: "begun", end: "stopped" },
  ]);
});

test("what was said before is shown without being read out", async () => {
  const { page } = await fake();
  const spoken = await page.evaluate(async () => {
    const spoken = [];
    new MutationObserver((records) => {
      for (const { addedNodes } of records) for (const node of addedNodes) spoken.push(node.textContent);
    }).observe(shadow(".foot > [aria-live]"), { childList: true });
    chat.messages = Array.from({ length: 200 }, (_, i) => ({
      role: i % 2 ? "assistant" : "user",
      content: `Message ${i}.\n\n${"text ".repeat(100)}`,
    }));
    await painted();
    return { spoken, live: shadow(".log").ariaLive };
  });
  assert.deepEqual(spoken, { spoken: [], live: "off" });
});

/** Another fake engine, with tokens, one for each character and five for each message, and a context of so many. */
const counting = (page, context) =>
  page.evaluate((context) => {
    const countTokens = async (input) =>
      typeof input === "string" ? input.length : input.reduce((sum, { content }) => sum + content.length + 5, 0);
    chat.engine = { ...chat.engine, countTokens, info: { context } };
  }, context);

/** A text file as a test chooses it. */
const file = (name, text) => ({ name, mimeType: "", buffer: Buffer.from(text) });

/** What is attached, as it is shown above the input. */
const chips = (chat) => chat.locator("[part=attachment]").allTextContents();

test("text files are attached to a question, which shows them folded and gives them back when it is edited", async () => {
  const { page, chat, input, problems } = await fake();
  const choosing = page.waitForEvent("filechooser");
  await chat.getByRole("button", { name: "Attach text files" }).click();
  const fenced = "Write\n```js\nx()\n```\n";
  await (await choosing).setFiles([file("notes.md", fenced), file("a`b.txt", "second"), file("c.txt", "third")]);
  const notes = chat.getByRole("listitem").filter({ hasText: "notes.md" });
  await notes.waitFor();
  assert.match(await notes.textContent(), /Characters: 20/);
  await counting(page, 1_000);
  await notes.filter({ hasText: "Tokens: 20" }).waitFor();
  assert.equal(await page.evaluate(() => chat.shadowRoot.activeElement.id), "input");

  // By mouse and by key; the focus goes on to what is left.
  await chat.getByRole("button", { name: "Remove c.txt" }).click();
  assert.equal(await page.evaluate(() => chat.shadowRoot.activeElement.ariaLabel), "Remove a`b.txt");
  await page.keyboard.press("Delete");
  assert.equal(await page.evaluate(() => chat.shadowRoot.activeElement.ariaLabel), "Remove notes.md");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => chat.shadowRoot.activeElement.id), "input");
  assert.equal(await chat.getByRole("list", { name: "Attached" }).isVisible(), false);
  assert.equal(await chat.getByRole("button", { name: "Send" }).isEnabled(), false);

  await chat.locator("input[type=file]").setInputFiles([file("notes.md", fenced), file("a`b.txt", "second\r\n")]);
  await notes.waitFor();
  assert.ok(await chat.getByRole("button", { name: "Send" }).isEnabled());
  await input.fill("What is it?");
  await input.press("Enter");
  await answerOf(page, 1, "A list.");
  const content = "`notes.md`:\n````\n" + fenced + "\n````\n\n`a'b.txt`:\n```\nsecond\n\n```\n\nWhat is it?";
  assert.deepEqual((await messages(page))[0], { role: "user", content });
  assert.equal(await page.evaluate(() => answers[0].params.messages[0].content), content);
  assert.deepEqual(await chips(chat), []);

  const question = chat.getByRole("article", { name: "You" });
  const shown = async () => {
    await question.getByText("notes.md").waitFor();
    assert.equal(await question.locator("details").count(), 2);
    assert.equal(await question.locator("pre").first().isVisible(), false);
    await question.getByText("notes.md").click();
    assert.equal(await question.locator("pre").first().textContent(), fenced);
    assert.ok(await question.getByText("What is it?").isVisible());
  };
  await shown();
  // In the unit of what is not sent yet.
  assert.equal(await question.locator("summary").first().textContent(), "notes.md Tokens: 20");
  // The same after a reload, which sets the messages before there is an engine.
  await page.evaluate(
    (kept) => {
      const { engine } = chat;
      chat.engine = null;
      chat.messages = kept;
      globalThis.engine = engine;
    },
    await messages(page),
  );
  await shown();
  assert.equal(await question.locator("summary").first().textContent(), "notes.md Characters: 20");
  await page.evaluate(() => (chat.engine = engine));
  await question.locator("summary", { hasText: "notes.md Tokens: 20" }).waitFor();

  await input.fill("a draft");
  await question.getByRole("button", { name: "Edit question" }).click();
  assert.equal(await input.inputValue(), "What is it?");
  await page.waitForFunction(() => shadow("[part=attachment]"));
  assert.deepEqual((await chips(chat)).length, 2);
  await page.keyboard.press("Escape");
  assert.equal(await input.inputValue(), "a draft");
  assert.deepEqual(await chips(chat), []);
  await question.getByRole("button", { name: "Edit question" }).click();
  await chat.getByRole("button", { name: "Remove a'b.txt" }).click();
  await input.press("Enter");
  await answerOf(page, 2, "Another.");
  assert.equal((await messages(page))[0].content, "`notes.md`:\n````\n" + fenced + "\n````\n\nWhat is it?");
  assert.equal(await input.inputValue(), "a draft");
  assert.deepEqual(problems, []);
});

test("a question that only looks like an attachment is shown as it is", async () => {
  const { page, chat } = await fake();
  for (const content of ["```js\nx()\n```", "`a`:\n```\nnot closed", "`a`: b", "x\n\n`a`:\n```\nb\n```"]) {
    await page.evaluate((content) => (chat.messages = [{ role: "user", content }]), content);
    await page.evaluate(() => painted());
    await chat.locator(".user .text", { hasText: content.slice(-4) }).waitFor();
    assert.equal(await chat.locator(".user .text").textContent(), content);
  }
});

/** Pastes a text, so many times over, or files, into the input; says whether that was taken. */
const paste = (input, text, { times = 1, files = [] } = {}) =>
  input.evaluate(
    (input, [text, times, files]) => {
      const clipboardData = new DataTransfer();
      if (text) clipboardData.setData("text/plain", text.repeat(times));
      for (const name of files) clipboardData.items.add(new File(["in a file"], name));
      const event = new Event("paste", { bubbles: true, cancelable: true, composed: true });
      // Firefox takes none for a `ClipboardEvent` of a script.
      Object.defineProperty(event, "clipboardData", { value: clipboardData });
      return !input.dispatchEvent(event);
    },
    [text, times, files],
  );

test("a long paste is attached, and turned back into text; a short one stays text", async () => {
  const { page, chat, input } = await fake();
  assert.equal(await paste(input, "one\ntwo"), false);
  const lines = Array.from({ length: 21 }, (_, i) => `line ${i}`).join("\n");
  assert.ok(await paste(input, lines));
  await chat.getByRole("listitem").filter({ hasText: "Pasted text" }).waitFor();
  assert.ok(await paste(input, "x", { times: 2_001 }));
  assert.ok(await paste(input, "", { files: ["copied.txt"] }));
  await chat.getByRole("listitem").filter({ hasText: "copied.txt" }).waitFor();
  assert.equal((await chips(chat)).length, 3);
  assert.equal(await chat.getByRole("button", { name: "Turn back into text" }).count(), 2);

  await input.fill("before");
  await chat.getByRole("button", { name: "Turn back into text" }).first().click();
  assert.equal(await input.inputValue(), `before\n${lines}`);
  assert.equal((await chips(chat)).length, 2);
  assert.equal(await page.evaluate(() => chat.shadowRoot.activeElement.id), "input");
  // In the middle of what is written it stands by itself, too, with no more than it needs.
  await input.fill("before\nafter");
  await input.evaluate((/** @type {HTMLTextAreaElement} */ input) => input.setSelectionRange(7, 7));
  await chat.getByRole("button", { name: "Turn back into text" }).click();
  assert.equal(await input.inputValue(), `before\n${"x".repeat(2_001)}\nafter`);
});

test("a text file is read as it was written: in UTF-8, in UTF-16 with its mark, or by a program without Unicode", async () => {
  const { chat, input } = await fake();
  const bytes = (/** @type {number[]} */ ...bytes) => Buffer.from(bytes);
  const files = {
    "utf-8.txt": Buffer.from("Käse €5"),
    "utf-16le.txt": Buffer.concat([bytes(0xff, 0xfe), Buffer.from("Käse €5", "utf16le")]),
    "utf-16be.txt": Buffer.concat([bytes(0xfe, 0xff), Buffer.from("Käse €5", "utf16le").swap16()]),
    "western.txt": bytes(0x4b, 0xe4, 0x73, 0x65, 0x20, 0x80, 0x35),
  };
  const chosen = Object.entries(files).map(([name, buffer]) => ({ name, mimeType: "text/plain", buffer }));
  await chat.locator("input[type=file]").setInputFiles(chosen);
  await chat.locator("[part=attachment]").nth(3).waitFor();
  await input.press("Enter");
  for (const name of Object.keys(files)) {
    const text = chat.locator("details", { hasText: name }).locator("pre");
    assert.equal(await text.textContent(), "Käse €5", name);
  }
});

test("what cannot be attached is told with a reason, at once", async () => {
  const { page, chat, input, problems } = await fake();
  const notice = chat.locator("[part=notice]");
  const choose = (...files) => chat.locator("input[type=file]").setInputFiles(files);
  await choose(
    { name: "x.png", mimeType: "image/png", buffer: Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff, 0xfe]) },
    file("nul.bin", "a\0b"),
    file("good.txt", "text"),
  );
  await notice
    .filter({
      hasText:
        "x.png is a picture, which the chat cannot read. Attach text in its place. nul.bin has no text that can be read.",
    })
    .waitFor();
  assert.equal((await notice.innerText()).split("\n").length, 2, "a line for each of them");
  assert.match((await chips(chat)).join(), /^good\.txt/);
  await chat.locator("[aria-live]", { hasText: "x.png is a picture" }).first().waitFor({ state: "attached" });

  await input.fill("a draft");
  await choose(file("paper.pdf", "%PDF-1.7\n1 0 obj"), file("empty.txt", ""));
  await notice
    .filter({
      hasText:
        "paper.pdf is a PDF, which the chat cannot read. Copy its text, and paste it here. empty.txt is empty. Choose another file.",
    })
    .waitFor();
  assert.equal((await chips(chat)).length, 1);
  assert.equal(await input.inputValue(), "a draft");

  await choose({ name: "big.log", mimeType: "", buffer: Buffer.alloc(1_000_001, "x") });
  const tooLong = /big\.log is too long: attachments may have 1.MB in all\./;
  await notice.filter({ hasText: tooLong }).waitFor();
  assert.ok(await paste(input, "x\n", { times: 25_000_000 }));
  await notice.filter({ hasText: /Pasted text is too long: .* 1.MB in all\./ }).waitFor();
  assert.equal((await chips(chat)).length, 1);
  assert.equal(await input.inputValue(), "a draft");

  // What is longer than the context is told with both numbers, and anew once there is another engine.
  await counting(page, 2_048);
  await paste(input, "y", { times: 3_000 });
  await notice.filter({ hasText: "Too long: 3,011 tokens, and the model’s context has 2,048. Shorten it." }).waitFor();
  const send = chat.getByRole("button", { name: "Send" });
  assert.ok(await send.isDisabled());
  await chat.getByRole("button", { name: "Remove Pasted text" }).click();
  await notice.waitFor({ state: "hidden" });
  assert.ok(await send.isEnabled());
  // So is text that nothing is attached to.
  await input.fill("z".repeat(2_060));
  await notice.filter({ hasText: "Too long: 2,091 tokens" }).waitFor();
  await input.press("Enter");
  assert.equal((await input.inputValue()).length, 2_060);
  await input.fill("short");
  await notice.waitFor({ state: "hidden" });
  // What was told goes with the next action.
  await choose(file("again.txt", ""));
  await notice.filter({ hasText: "again.txt is empty." }).waitFor();
  await input.press("Enter");
  await notice.waitFor({ state: "hidden" });
  assert.deepEqual(problems, []);
});

for (const size of ["100%", "200%"]) {
  test(`on a phone the newest of what is attached is in sight, and all can be told and removed, text at ${size}`, async () => {
    const { page, chat, input } = await fake();
    await page.setViewportSize({ width: 390, height: 844 });
    await page.evaluate((size) => (document.documentElement.style.fontSize = size), size);
    await counting(page, 100_000);
    const names = [
      "a.md",
      "one with a rather long name, of many words.txt",
      "another-with-a-name-that-has-no-spaces.txt",
    ];
    await chat.locator("input[type=file]").setInputFiles(names.map((name) => file(name, "y".repeat(1_500))));
    await chat.locator("[part=attachment]").nth(2).waitFor();
    await paste(input, "x\n", { times: 50 });
    await chat.locator("small", { hasText: /\d/ }).nth(3).waitFor();
    const [below, beyond, cut] = await page.evaluate(() => {
      const list = shadow("[part=attachments]");
      const { right, bottom } = list.getBoundingClientRect();
      const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
      return [
        list.lastElementChild.getBoundingClientRect().bottom - bottom,
        Math.max(...[...list.querySelectorAll("button")].map((e) => e.getBoundingClientRect().right - right)),
        [...list.querySelectorAll("b")].filter((b) => b.clientWidth < Math.min(b.scrollWidth, 7 * rem)).length,
      ];
    });
    assert.ok(below <= 0, `the newest ends ${below} px too low`);
    assert.ok(beyond <= 0, `a button ends ${beyond} px too far`);
    assert.equal(cut, 0, "names of a few letters");
  });
}

test("a question is as long as what the model is told: with its template, the system message and the fences", async () => {
  const { page, chat, input } = await fake();
  await counting(page, 140);
  const notice = chat.locator("[part=notice]");
  const send = chat.getByRole("button", { name: "Send" });
  await page.evaluate(() => (chat.system = "Brief."));
  // 100 tokens, 17 of its name and fences, 16 of the system message and the template.
  await chat.locator("input[type=file]").setInputFiles([file("a.txt", "y".repeat(100))]);
  await chat.getByRole("listitem").filter({ hasText: "Tokens: 100" }).waitFor();
  await input.fill("Why?");
  await page.evaluate(() => painted());
  assert.ok(await send.isEnabled());
  // A blank line and five letters leave no room for an answer.
  await input.fill("Why??");
  await notice.filter({ hasText: "Too long: 140 tokens, and the model’s context has 140. Shorten it." }).waitFor();
  await input.press("Enter");
  assert.deepEqual(await messages(page), []);
  assert.equal(await input.inputValue(), "Why??");
  assert.equal((await chips(chat)).length, 1);
  await input.fill("Why?");
  await notice.waitFor({ state: "hidden" });
  await input.press("Enter");
  await answerOf(page, 1, "So.");

  // What is attached alone may be too much, too.
  await chat.locator("input[type=file]").setInputFiles([file("a.txt", "y".repeat(107))]);
  await notice.filter({ hasText: "Too long: 140 tokens" }).waitFor();
  assert.ok(await send.isDisabled());
  await chat.locator("input[type=file]").setInputFiles([file("b.txt", "y".repeat(200))]);
  await notice.filter({ hasText: "Too long: 307 tokens" }).waitFor();
  // Then the text is counted, too.
  await input.fill("Why?");
  await notice.filter({ hasText: "Too long: 311 tokens" }).waitFor();
  await chat.getByRole("button", { name: "Remove b.txt" }).click();
  // Where nothing could be asked it is not the question that is too long, which a request says.
  await page.evaluate(() => (chat.system = "s".repeat(140)));
  await input.fill("Why");
  await notice.waitFor({ state: "hidden" });
});

test("a new chat begins empty", async () => {
  const { page, chat, input } = await fake();
  await input.fill("one");
  await input.press("Enter");
  await answerOf(page, 1, "First.");
  await input.fill("a draft");
  await chat.locator("input[type=file]").setInputFiles([file("a.txt", "text")]);
  await chat.getByRole("listitem").filter({ hasText: "a.txt" }).waitFor();
  await chat.getByRole("button", { name: "New chat" }).click();
  await chat.getByRole("button", { name: "Undo" }).waitFor();
  assert.equal(await input.inputValue(), "");
  assert.deepEqual(await chips(chat), []);
  assert.ok(await chat.getByRole("button", { name: "Send" }).isDisabled());
});

test("a new chat can be taken back, with what was not asked yet, until something is asked in it", async () => {
  const { page, chat, input } = await fake();
  const anew = chat.getByRole("button", { name: "New chat" });
  const undo = chat.getByRole("button", { name: "Undo" });
  await input.fill("one");
  await input.press("Enter");
  await answerOf(page, 1, "Yes.");
  const before = await messages(page);
  await input.fill("a draft");
  await anew.click();
  await undo.waitFor();
  assert.deepEqual(await messages(page), []);
  assert.equal(await input.inputValue(), "");
  await undo.click();
  assert.deepEqual(await messages(page), before);
  assert.equal(await input.inputValue(), "a draft");
  assert.equal(await undo.count(), 0);

  await anew.click();
  await undo.waitFor();
  await input.fill("two");
  await input.press("Enter");
  await answerOf(page, 2, "No.");
  assert.equal(await undo.count(), 0);
  assert.deepEqual(
    (await messages(page)).map(({ content }) => content),
    ["two", "No."],
  );
});

test("what is sent while an answer is being written waits for its turn; it is given back where that fails", async () => {
  const { page, chat, input } = await fake();
  const waiting = chat.locator("[part=next]");
  const asked = (count) => page.waitForFunction((count) => answers.length === count, count);
  const said = () => page.evaluate(() => answers.at(-1).params.messages.map(({ content }) => content));
  const send = async (text) => {
    await input.fill(text);
    await input.press("Enter");
    await waiting.filter({ hasText: `Waiting: “${text}”` }).waitFor();
    assert.equal(await input.inputValue(), "");
  };
  const answer = (text) =>
    page.evaluate((text) => {
      answers.at(-1).say(text);
      answers.at(-1).end();
    }, text);
  await input.fill("one");
  await input.press("Enter");
  await asked(1);
  await input.press("Enter");
  assert.equal(await waiting.count(), 0, "there is nothing to send");
  await send("two");
  await send("three");
  await chat.locator(".foot > [aria-live]", { hasText: "Waiting: “three”" }).waitFor({ state: "attached" });
  await answer("First.");
  await asked(2);
  assert.deepEqual(await said(), ["one", "First.", "two"]);
  assert.deepEqual(await waiting.locator("span").allTextContents(), ["Waiting: “three”"]);
  // What comes meanwhile comes after it.
  await send("four");
  await answer("Second.");
  await asked(3);
  assert.deepEqual(await said(), ["one", "First.", "two", "Second.", "three"]);
  assert.deepEqual(await waiting.locator("span").allTextContents(), ["Waiting: “four”"]);
  const told = await page.evaluate(() => events.filter(({ name }) => name === "message").map((e) => e.message.content));
  assert.deepEqual(told, ["one", "First.", "two", "Second.", "three"]);

  // Each can be taken back; those after it keep their turn.
  await send("five");
  await input.fill("six");
  await waiting.filter({ hasText: "four" }).getByRole("button", { name: "Cancel" }).click();
  assert.equal(await input.inputValue(), "four\n\nsix");
  assert.equal(await page.evaluate(() => chat.shadowRoot.activeElement?.id), "input");
  assert.deepEqual(await waiting.locator("span").allTextContents(), ["Waiting: “five”"]);
  await input.fill("six");
  await input.press("Enter");
  await waiting.filter({ hasText: "six" }).waitFor();
  await page.evaluate(() => answers[2].fail("It broke."));
  await chat.getByRole("alert").waitFor();
  assert.equal(await input.inputValue(), "five\n\nsix");
  assert.equal(await waiting.count(), 0);
  assert.equal(await page.evaluate(() => answers.length), 3);

  // Another conversation takes nothing over.
  await input.press("Enter");
  await asked(4);
  await send("seven");
  await page.evaluate(() => chat.clear());
  assert.equal(await waiting.count(), 0);
  assert.deepEqual(await messages(page), []);
  assert.equal(await input.inputValue(), "");
});

test("what is sent stays in the input where the part that lets it wait cannot be loaded", async () => {
  const { page, chat, input } = await fake();
  await page.route("**/element/waiting.js", (route) => route.abort());
  await input.fill("one");
  await input.press("Enter");
  await page.waitForFunction(() => answers.length === 1);
  await input.fill("two");
  await input.press("Enter");
  await chat.locator("[part=notice]").waitFor();
  assert.equal(await input.inputValue(), "two");
});

test("where what it takes cannot be loaded, a conversation is not deleted, and what was not done is told", async () => {
  for (const [module, name] of [
    ["undo", "New chat"],
    ["view/copy", "Copy answer"],
  ]) {
    const { page, chat, input } = await fake();
    await page.route(`**/element/${module}.js`, (route) => route.abort());
    await page.evaluate(noteWarnings);
    await input.fill("one");
    await input.press("Enter");
    await answerOf(page, 1, "First.");
    await chat.getByRole("button", { name }).click();
    await chat.locator("[part=notice]", { hasText: "Something went wrong" }).waitFor();
    assert.deepEqual(
      (await messages(page)).map(({ content }) => content),
      ["one", "First."],
    );
    assert.match((await page.evaluate(() => globalThis.warned)).join("\n"), new RegExp(`${module}\\.js`));
  }
});

/** Drags files over an element, or drops them. */
const dragging = (element, type, names) =>
  element.evaluate(
    (element, [type, names]) => {
      const dataTransfer = new DataTransfer();
      for (const name of names) dataTransfer.items.add(new File(["dropped"], name));
      const options = { dataTransfer, bubbles: true, composed: true, cancelable: true };
      return !element.dispatchEvent(new DragEvent(type, options));
    },
    [type, names],
  );

test("files are dropped on the chat, which shows where", async () => {
  const { page, chat } = await fake();
  const log = chat.getByRole("log");
  const dropping = () => page.evaluate(() => getComputedStyle(shadow(".chat"), "::after").content !== "none");
  assert.ok(await dragging(log, "dragover", ["a.txt"]));
  await page.waitForFunction(() => shadow(".dropping"));
  assert.ok(await dropping());
  assert.equal(await page.evaluate(() => shadow(".dropping").dataset.drop), "Drop text files here");
  await dragging(log, "dragleave", ["a.txt"]);
  assert.equal(await page.evaluate(() => shadow(".dropping")), null);
  await dragging(log, "dragover", ["a.txt"]);
  assert.ok(await dragging(log, "drop", ["a.txt", "b.txt"]));
  await chat.getByRole("listitem").filter({ hasText: "b.txt" }).waitFor();
  assert.equal((await chips(chat)).length, 2);
  assert.equal(await dropping(), false);
  // Text that is dragged is the browser's matter.
  assert.equal(await dragging(log, "dragover", []), false);
});

/** Runs in the page before its own scripts: a voice of the device, one of a server, and what they are told. */
function voices() {
  globalThis.spoken = [];
  const list = [
    { name: "far", lang: "en-US", localService: false },
    { name: "near", lang: "en-GB", localService: true },
    { name: "nah", lang: "de-DE", localService: true },
    { name: "рядом", lang: "ru-RU", localService: true },
  ];
  globalThis.SpeechSynthesisUtterance = /** @type {any} */ (
    class extends EventTarget {
      constructor(text) {
        super();
        this.text = text;
      }
    }
  );
  const speechSynthesis = {
    getVoices: () => list,
    speak: (utterance) => spoken.push(utterance),
    cancel() {
      for (const utterance of spoken.splice(0)) utterance.dispatchEvent(new Event("error"));
    },
  };
  Object.defineProperty(globalThis, "speechSynthesis", { value: speechSynthesis, configurable: true });
}

test("answers are read aloud by voices of the device, until they are told to stop", async () => {
  await context.addInitScript(voices);
  const { page, chat, input } = await fake();
  await input.fill("one");
  await input.press("Enter");
  await answerOf(page, 1, "# First\n\n**Second** words.");
  const read = chat.getByRole("button", { name: "Read aloud" });
  const begun = (text) => page.waitForFunction((text) => spoken[0]?.text === text, text);
  await read.click();
  await begun("First");
  assert.deepEqual(await page.evaluate(() => spoken.map(({ text, voice, lang }) => [text, voice.name, lang])), [
    ["First", "near", "en-US"],
    ["Second words.", "near", "en-US"],
  ]);
  assert.equal(await read.getAttribute("aria-pressed"), "true");
  await page.evaluate(() => spoken.at(-1).dispatchEvent(new Event("end")));
  assert.equal(await read.getAttribute("aria-pressed"), "false");

  const silent = async () => {
    assert.equal(await page.evaluate(() => spoken.length), 0);
    assert.equal(await chat.locator("[data-do=read][aria-pressed=true]").count(), 0);
  };
  await read.click();
  await begun("First");
  await read.click();
  await silent();
  await read.press("Enter");
  await begun("First");
  await page.keyboard.press("Escape");
  await silent();
  await read.click();
  await begun("First");
  await page.evaluate(() => (chat.messages = [{ role: "assistant", content: "Привет, мир!" }]));
  await silent();
  await read.click();
  await begun("Привет, мир!");
  assert.deepEqual(await page.evaluate(() => [spoken[0].voice.name, spoken[0].lang]), ["рядом", "ru"]);
  await page.evaluate(() => chat.remove());
  await page.waitForFunction(() => spoken.length === 0);
});

test("without a voice of the device nothing is read, without recognition on it nothing dictated", async () => {
  await context.addInitScript(() => {
    const speechSynthesis = { getVoices: () => [{ lang: "en", localService: false }] };
    Object.defineProperty(globalThis, "speechSynthesis", { value: speechSynthesis });
    const available = async ({ processLocally }) => (processLocally ? "unavailable" : "available");
    globalThis.SpeechRecognition = /** @type {any} */ ({ available });
  });
  const { page, chat } = await fake();
  await page.evaluate(() => (chat.messages = [{ role: "assistant", content: "x" }]));
  assert.equal(await chat.getByRole("button", { name: "Copy answer" }).isVisible(), true);
  assert.equal(await chat.getByRole("button", { name: "Read aloud" }).isVisible(), false);
  await page.waitForTimeout(300);
  assert.equal(await chat.getByRole("button", { name: "Dictate" }).count(), 0);
});

test("what is dictated goes into the input, and never to a server", async () => {
  await context.addInitScript(() => {
    globalThis.heard = [];
    globalThis.SpeechRecognition = /** @type {any} */ (
      class {
        static available = async ({ langs, processLocally }) =>
          processLocally && langs[0].startsWith("en") ? "downloadable" : "unavailable";
        static install = async ({ processLocally }) => processLocally;
        start() {
          heard.push(this);
        }
        abort() {
          this.aborted = true;
        }
        hears(...texts) {
          /** @type {any} */ (this).onresult({ results: texts.map((transcript) => [{ transcript }]) });
        }
      }
    );
  });
  const { page, chat, input, problems } = await fake();
  const dictate = chat.getByRole("button", { name: "Dictate" });
  const started = (count) => page.waitForFunction((count) => heard.length === count, count);
  await input.fill("Say this, please.");
  await input.evaluate((input) => input.setSelectionRange(3, 9));
  await dictate.click();
  await started(1);
  assert.equal(await dictate.getAttribute("aria-pressed"), "true");
  assert.ok(await page.evaluate(() => heard[0].processLocally && heard[0].interimResults));
  await page.evaluate(() => heard[0].hears("good"));
  await page.evaluate(() => heard[0].hears("good morning", " to all"));
  assert.equal(await input.inputValue(), "Say good morning to all please.");
  await dictate.click();
  assert.ok(await page.evaluate(() => heard[0].aborted));
  assert.equal(await dictate.getAttribute("aria-pressed"), "false");

  // Sending, typing and Escape end it, too.
  await dictate.click();
  await started(2);
  await input.press("Escape");
  assert.ok(await page.evaluate(() => heard[1].aborted));
  await dictate.click();
  await started(3);
  await input.press("x");
  assert.ok(await page.evaluate(() => heard[2].aborted));
  await dictate.click();
  await started(4);
  await input.press("Enter");
  await answerOf(page, 1, "Yes.");
  await page.evaluate(() => heard[3].hears("late"));
  assert.equal(await input.inputValue(), "");

  await dictate.click();
  await started(5);
  await page.evaluate(() => heard[4].onerror({ error: "not-allowed" }));
  await chat.locator("[part=notice]", { hasText: "did not let you dictate" }).waitFor();
  assert.equal(await dictate.getAttribute("aria-pressed"), "false");
  await input.press("x");
  await chat.locator("[part=notice]").waitFor({ state: "hidden" });
  assert.deepEqual(problems, []);
});

test("a failed answer is told, its question stays, and is answered on request", async () => {
  const { page, chat, input } = await fake();
  await input.fill("one");
  await input.press("Enter");
  await page.waitForFunction(() => answers.length === 1);
  await page.evaluate(noteWarnings);
  await page.evaluate(() => answers[0].fail("the model <b>is</b> tired", "tired"));
  await until(page, "error");
  assert.deepEqual(await page.evaluate(() => warned), ["the model <b>is</b> tired"]);
  const alert = chat.getByRole("alert");
  assert.match(await alert.textContent(), /Something unexpected happened\. Try again, or reload the page\./);
  assert.equal(await alert.getAttribute("title"), "the model <b>is</b> tired");
  assert.deepEqual(await messages(page), [{ role: "user", content: "one" }]);
  assert.equal((await page.evaluate(() => events)).at(-1).code, "tired");
  await chat.getByRole("button", { name: "Try again" }).click();
  await page.waitForFunction(() => answers.length === 2);
  assert.equal(await chat.getByRole("alert").count(), 0);
  await page.evaluate(() => {
    answers[1].say("yes");
    answers[1].end();
  });
  assert.equal(await answered(page), "yes");
  assert.deepEqual(await page.evaluate(() => answers[1].params.messages), [{ role: "user", content: "one" }]);
});

test("where the words for an error cannot be loaded, its own are told, and the processor is not offered", async () => {
  const { page, chat, input } = await fake();
  await page.route("**/element/view/problems.js", (route) => route.abort());
  await input.fill("one");
  await input.press("Enter");
  await page.waitForFunction(() => answers.length === 1);
  await page.evaluate(() => answers[0].fail("the model is tired", "tired"));
  const alert = chat.getByRole("alert");
  await alert.filter({ hasText: "the model is tired" }).waitFor();
  assert.deepEqual(await alert.getByRole("button").allTextContents(), ["Try again"]);
});

test("a model that is not there is explained, and loaded once it is", async () => {
  const { page, chat, input } = await open("flaky.html");
  await input.fill(QUESTION);
  await input.press("Enter");
  await until(page, "error");
  const alert = chat.getByRole("alert");
  assert.match(await alert.textContent(), /The model could not be downloaded\. Check your connection, and try again\./);
  assert.match(await alert.getAttribute("title"), /flaky\/config\.json/);
  assert.equal(await page.locator("tabloom-chat:state(error)").count(), 1);
  assert.deepEqual(await messages(page), [{ role: "user", content: QUESTION }]);
  assert.ok(await chat.getByText(QUESTION).isVisible());
  broken = false;
  await chat.getByRole("button", { name: "Try again" }).click();
  assert.equal(await answered(page), FRANCE.answer);
  assert.equal(await chat.getByRole("alert").count(), 0);
});

test("without WebGPU it says so and offers the processor", async () => {
  const without = await launch({ webgpu: false });
  try {
    const { page, chat, input } = await open("gpu.html", await without.newContext());
    await input.fill(QUESTION);
    await input.press("Enter");
    await until(page, "error");
    assert.match(await chat.getByRole("alert").textContent(), /This browser offers no WebGPU/);
    await chat.getByRole("button", { name: "Use the processor" }).click();
    assert.equal(await answered(page), FRANCE.answer);
  } finally {
    await without.close();
  }
});

test("a chat without a model says so", async () => {
  const { page, chat, input } = await open("fake.html");
  await input.fill("Hello");
  await input.press("Enter");
  await until(page, "error");
  assert.match(await chat.getByRole("alert").textContent(), /The chat is set up in a way that does not work\./);
  assert.match(await chat.getByRole("alert").getAttribute("title"), /model: found null, expected/);
});

test("two chats share an engine, which is closed with the last of them", async () => {
  const { page } = await open("two.html");
  const shared = await page.evaluate(async (question) => {
    const [a, b] = ["a", "b"].map((id) => /** @type {TabloomChat} */ (document.getElementById(id)));
    globalThis.loads = events.filter(({ name }) => name === "load");
    const [first, second] = await Promise.all([a.send(question), b.send(question)]);
    globalThis.shared = a.engine;
    const same = a.engine === b.engine;
    a.remove();
    await new Promise((done) => setTimeout(done, 50));
    const third = await b.send(question);
    return { same, answers: [first, second].map(({ content }) => content), third: third !== null, left: a.engine };
  }, QUESTION);
  assert.deepEqual(shared, { same: true, answers: [FRANCE.answer, FRANCE.answer], third: true, left: null });
  const code = await page.evaluate(async () => {
    document.getElementById("b").remove();
    await new Promise((done) => setTimeout(done, 50));
    return globalThis.shared.metrics().catch((error) => error.code);
  });
  assert.equal(code, "closed");
});

test("a removed chat cancels its answer; one that is moved goes on", async () => {
  const { page } = await fake();
  const result = await page.evaluate(async () => {
    const sent = chat.send("one");
    while (answers.length === 0) await painted();
    answers[0].say("begun ");
    await painted();
    document.getElementById("elsewhere").append(chat);
    await painted();
    const moved = answers[0].signal.aborted;
    answers[0].say("and ended");
    answers[0].end();
    const whole = (await sent).content;

    const again = chat.send("two");
    while (answers.length === 1) await painted();
    answers[1].say("begun");
    await painted();
    chat.remove();
    await painted();
    const removed = answers[1].signal.aborted;
    const part = (await again).content;
    document.body.append(chat);
    const texts = [...chat.shadowRoot.querySelectorAll(".text")].map((text) => text.textContent);
    return { moved, whole, removed, part, texts, state: chat.state };
  });
  assert.deepEqual(result, {
    moved: false,
    whole: "begun and ended",
    removed: true,
    part: "begun",
    texts: ["one", "begun and ended", "two", "begun"],
    state: "idle",
  });
});

test("removal ends a real answer and a download", async () => {
  const other = await open("one.html");
  await other.page.evaluate(() => document.querySelector("tabloom-chat").load());
  const { page, input } = await open("one.html");
  await page.evaluate(async () => {
    const { completions } = (await document.querySelector("tabloom-chat").load()).chat;
    const { create } = completions;
    // A story that is not over before it is ended.
    completions.create = /** @type {typeof create} */ (
      (params, options) => create({ ...params, ignore_eos: true, max_completion_tokens: 900 }, options)
    );
  });
  await input.fill(STORY.messages[0].content);
  await input.press("Enter");
  await waitUntil(page, async () =>
    Boolean(document.querySelector("tabloom-chat").shadowRoot.querySelector(".assistant .text")?.textContent),
  );
  await page.evaluate(() => document.querySelector("tabloom-chat").remove());
  await waitUntil(other.page, async () => {
    const { num_requests_running, request_success } = await document.querySelector("tabloom-chat").engine.metrics();
    return num_requests_running === 0 && request_success.abort === 1;
  });

  const slow = await open("slow.html");
  const ended = await slow.page.evaluate(async () => {
    const chat = document.querySelector("tabloom-chat");
    const loading = chat.load().catch((error) => error.name);
    await new Promise((done) => addEventListener("tabloom-load", done, { once: true }));
    chat.remove();
    return [await loading, chat.state];
  });
  assert.deepEqual(ended, ["AbortError", "idle"]);
});

test("what is shown of an answer is kept when its page is left", async () => {
  const { page, input } = await open("session.html");
  // Nothing is kept as time passes.
  await page.evaluate(() => {
    const later = setTimeout;
    globalThis.setTimeout = /** @type {any} */ ((run, time, ...rest) => (time === 300 ? 0 : later(run, time, ...rest)));
  });
  await holdAnswers(page);
  await input.fill(STORY.messages[0].content);
  await input.press("Enter");
  await page.getByRole("article").last().filter({ hasText: "Once upon a" }).waitFor();
  await page.reload();
  const { content } = (await messages(page)).at(-1);
  assert.match(content, /^Once upon a/);
});

test("a conversation is kept where storage says", async () => {
  const ask = async ({ page, input }) => {
    await input.fill(QUESTION);
    await input.press("Enter");
    await answered(page);
  };
  const texts = ({ page }) =>
    page.evaluate(() =>
      [...document.querySelector("tabloom-chat").shadowRoot.querySelectorAll(".text")].map((text) => text.textContent),
    );
  const whole = [QUESTION, FRANCE.answer];

  const session = await open("session.html");
  await ask(session);
  await session.page.reload();
  assert.deepEqual(await texts(session), whole);
  assert.deepEqual(await texts(await open("session.html")), []);

  const local = await open("local.html");
  await ask(local);
  const later = await open("local.html");
  assert.deepEqual(await texts(later), whole);
  await later.page.getByRole("button", { name: "New chat" }).click();
  await later.page.getByRole("button", { name: "Undo" }).waitFor();
  assert.deepEqual(await texts(await open("local.html")), []);
  assert.deepEqual(await later.page.evaluate(() => Object.keys(localStorage)), []);

  for (const bad of ["{", "7", '[{"role":"root"}]']) {
    await later.page.evaluate((bad) => localStorage.setItem("tabloom-chat:kept", bad), bad);
    assert.deepEqual(await texts(await open("local.html")), []);
  }
  const none = await open("one.html");
  await ask(none);
  assert.deepEqual(await none.page.evaluate(() => [localStorage.length, sessionStorage.length]), [1, 0]);
});

test("tabs that keep one conversation show each other's turns, and lose none", async () => {
  const [one, two] = [await tab(), await tab()];
  await one.ask("a");
  await one.end();
  const first = ["a", "to a"];
  await two.shows(first);
  // Each goes on, while the other is answered, too.
  await one.ask("b");
  await two.shows([...first, "b", "to b"]);
  await two.ask("c");
  await one.end();
  await two.end();
  const all = [...first, "b", "to b", "c", "to c"];
  await one.shows(all);
  await two.shows(all);
  await (await tab()).shows(all);
  await two.page.getByRole("button", { name: "New chat" }).click();
  await one.shows([]);
  await one.ask("d");
  await one.end();
  await two.shows(["d", "to d"]);
});

test("a new chat that is taken back loses nothing of what another tab has asked since", async () => {
  const [one, two] = [await tab(), await tab()];
  await one.ask("a");
  await one.end();
  await two.shows(["a", "to a"]);
  await one.chat.getByRole("button", { name: "New chat" }).click();
  await two.shows([]);
  await two.ask("b");
  await two.end();
  await one.shows(["b", "to b"]);
  await one.chat.getByRole("button", { name: "Undo" }).click();
  const all = ["a", "to a", "b", "to b"];
  await one.shows(all);
  await two.shows(all);
  await (await tab()).shows(all);
});

test("what the browser does not keep is told, to visitors and developers once", async () => {
  const { page, chat, ask, end } = await tab();
  await page.evaluate(noteWarnings);
  await page.evaluate(() => {
    Storage.prototype.setItem = () => {
      throw new DOMException("There is no room.", "QuotaExceededError");
    };
  });
  const notice = chat.locator("[part=notice]");
  await ask("a");
  await notice.filter({ hasText: "this conversation will not be here after a reload" }).waitFor();
  await end();
  await until(page, "ready");
  await ask("b");
  await end();
  await until(page, "ready");
  assert.equal(await notice.isVisible(), false);
  assert.deepEqual(await page.evaluate(() => globalThis.warned), ["There is no room."]);
  assert.equal((await messages(page)).length, 4);
});

test("two elements of one model keep a conversation each, wherever they are moved", async () => {
  const keep = async (page) =>
    page.evaluate(async () => {
      const made = ["one", "two"].map((content) => {
        const chat = document.createElement("tabloom-chat");
        chat.storage = "local";
        chat.model = "model/";
        document.body.append(chat);
        const before = chat.messages.map((message) => message.content);
        chat.messages = [{ role: "user", content }];
        return { chat, before };
      });
      document.body.prepend(made[1].chat);
      return made.map(({ before }) => before);
    });
  const { page } = await open("fake.html");
  assert.deepEqual(await keep(page), [[], []]);
  await page.reload();
  assert.deepEqual(await keep(page), [["one"], ["two"]]);
  const again = await page.evaluate(() => {
    const [second, , first] = document.querySelectorAll("tabloom-chat");
    first.remove();
    // As where a framework shows the same page anew.
    const chat = document.createElement("tabloom-chat");
    chat.storage = "local";
    chat.model = "model/";
    document.body.append(chat);
    return [second, chat].map(({ messages }) => messages[0].content);
  });
  assert.deepEqual(again, ["two", "one"]);
});

test("texts are set whole or in part, for elements that are made later", async () => {
  const { page } = await open("fake.html");
  const labels = await page.evaluate(() => {
    const TabloomChat = /** @type {typeof import("tabloom/element").TabloomChat} */ (
      customElements.get("tabloom-chat")
    );
    TabloomChat.texts = /** @type {any} */ ({ send: "Senden", attach: "Anhängen" });
    const { shadowRoot } = document.createElement("tabloom-chat");
    return ["send", "attach", "clear"].map((part) => shadowRoot.querySelector(`[part~=${part}]`).ariaLabel);
  });
  assert.deepEqual(labels, ["Senden", "Anhängen", "New chat"]);
});

test("numbers are written as in the language of the texts", async () => {
  const { page } = await open("slow.html");
  const tables = { de: /\d,\d \/ \d,\d\sMB/, fr: /\d,\d \/ \d,\d\sMo/ };
  for (const [code, amount] of Object.entries(tables)) {
    await page.evaluate(async (code) => {
      const { default: texts } = await import(`/tabloom/element/texts/${code}.js`);
      const old = /** @type {TabloomChat} */ (document.querySelector("tabloom-chat"));
      /** @type {any} */ (old.constructor).texts = texts;
      const chat = document.createElement("tabloom-chat");
      Object.assign(chat, { model: old.model, device: "cpu" });
      old.replaceWith(chat);
      chat.load().catch(() => {});
    }, code);
    await page.locator("tabloom-chat [part=status]", { hasText: amount }).waitFor();
  }
});

test("an empty input has the page's direction, and a text its own", async () => {
  const { page, input } = await open("one.html");
  await page.evaluate(() => (document.documentElement.dir = "rtl"));
  const direction = () => input.evaluate((field) => getComputedStyle(field).direction);
  assert.equal(await direction(), "rtl");
  await input.fill("What?");
  assert.equal(await direction(), "ltr");
});

testBeyondFirefox("scheme")("colours follow the page's scheme, and the page's own", async () => {
  const { page } = await open("one.html");
  const look = () =>
    page.evaluate(() => {
      const root = document.querySelector("tabloom-chat").shadowRoot;
      const { backgroundColor, color } = getComputedStyle(root.querySelector(".chat"));
      return { backgroundColor, color, start: getComputedStyle(root.querySelector(".start")).backgroundColor };
    });
  const scheme = (value) => page.evaluate((value) => (document.documentElement.style.colorScheme = value), value);
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  // A page that is light whatever the visitor prefers has a light chat.
  const plain = await look();
  await scheme("light dark");
  const dark = await look();
  await page.emulateMedia({ colorScheme: "light" });
  assert.deepEqual(await look(), plain);
  assert.notDeepEqual(dark, plain);
  await page.evaluate(() => {
    const { style } = document.querySelector("tabloom-chat");
    style.setProperty("--tabloom-accent", "rgb(1, 2, 3)");
    style.setProperty("--tabloom-background", "rgb(4, 5, 6)");
  });
  const { start, backgroundColor } = await look();
  assert.deepEqual([start, backgroundColor], ["rgb(1, 2, 3)", "rgb(4, 5, 6)"]);
  const parts = await page.evaluate(() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(
      "tabloom-chat::part(message user) { outline: 7px solid } tabloom-chat::part(input) { color: rgb(7, 8, 9) }",
    );
    document.adoptedStyleSheets = [sheet];
    const chat = document.querySelector("tabloom-chat");
    chat.messages = [{ role: "user", content: "x" }];
    const style = (selector) => getComputedStyle(chat.shadowRoot.querySelector(selector));
    return [style("article").outlineWidth, style("textarea").color];
  });
  assert.deepEqual(parts, ["7px", "rgb(7, 8, 9)"]);
});

test("nothing moves where visitors want no motion, and nothing is wider than a phone", async () => {
  const { page } = await open("one.html");
  await page.setViewportSize({ width: 320, height: 640 });
  await page.emulateMedia({ reducedMotion: "reduce" });
  const { animations, overflow } = await page.evaluate(() => {
    const chat = document.querySelector("tabloom-chat");
    const wide = `| ${"wide ".repeat(30)} | b |\n|---|---|\n| 1 | 2 |\n\n\`\`\`\n${"x".repeat(300)}\n\`\`\`\n\n${"y".repeat(300)}`;
    chat.messages = [
      { role: "user", content: "z".repeat(300) },
      { role: "assistant", content: wide },
    ];
    const log = chat.shadowRoot.querySelector(".log");
    return {
      animations: chat.shadowRoot.getAnimations().length,
      overflow: [log.scrollWidth - log.clientWidth, document.documentElement.scrollWidth - innerWidth],
    };
  });
  assert.equal(animations, 0);
  assert.ok(
    overflow.every((pixels) => pixels <= 0),
    `${overflow}`,
  );
});

test("in a low box the input stays in reach of an error, and of a long text", async () => {
  const { page, chat, input } = await fake();
  await page.setViewportSize({ width: 320, height: 256 });
  const hidden = () => page.evaluate(() => shadow(".chat").scrollHeight - shadow(".chat").clientHeight);
  await input.fill("one");
  await input.press("Enter");
  await page.waitForFunction(() => answers.length === 1);
  await page.evaluate(() => answers[0].fail("It broke.", "outgrown"));
  await chat.getByRole("alert").waitFor();
  const below = await page.evaluate(() => {
    const [composer, box] = [shadow(".composer"), chat].map((element) => element.getBoundingClientRect());
    return composer.bottom - box.bottom;
  });
  assert.ok(below < 0, `${below} px`);
  assert.equal(await hidden(), 0);
  await input.fill("a line\n".repeat(20));
  assert.equal(await hidden(), 0);
  await chat.getByRole("button", { name: "Try again" }).click();
  await page.waitForFunction(() => answers.length === 2);
});

testBeyondFirefox("touch")("a tap on the button that stops an answer opens no keyboard", async () => {
  const phone = await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const { page, chat, input } = await fake(phone);
  await input.fill("one");
  await chat.getByRole("button", { name: "Send" }).tap();
  await page.waitForFunction(() => answers.length === 1);
  await page.evaluate(() => answers[0].say("First."));
  await chat.getByText("First.").waitFor();
  await chat.getByRole("button", { name: "Stop" }).tap();
  await until(page, "ready");
  assert.equal(await page.evaluate(() => chat.shadowRoot.activeElement?.getAttribute("part")), "log");
  await phone.close();
});

testBeyondFirefox("touch")("a tap on the button that goes to the end only scrolls", async () => {
  const phone = await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const { page, chat } = await fake(phone);
  await page.evaluate(() => (chat.messages = [{ role: "assistant", content: "A line of text.\n\n".repeat(80) }]));
  const latest = chat.getByRole("button", { name: "Go to the end" });
  for (const focused of [false, true]) {
    await page.evaluate(() => shadow(".log").scrollTo(0, 0));
    await latest.waitFor();
    if (focused) await latest.press("Enter");
    else await latest.tap();
    await latest.waitFor({ state: "hidden" });
    assert.equal(await page.evaluate(() => chat.shadowRoot.activeElement?.id === "input"), focused);
  }
  await phone.close();
});

test("wide tables scroll by themselves, and their rows stay low", async () => {
  const { page } = await open("one.html");
  await page.setViewportSize({ width: 390, height: 844 });
  const { wider, sideways, heights } = await page.evaluate(() => {
    const chat = document.querySelector("tabloom-chat");
    const row = (cells) => `| ${cells.join(" | ")} |\n`;
    const cells = ["A name", "4,879 km", "176 days", "a dozen words that tell what this is known for, and why", "last"];
    const content = row(cells) + row(cells.map(() => "---")) + row(cells) + row(cells.map(() => "x".repeat(80)));
    chat.messages = [{ role: "assistant", content }];
    const { shadowRoot } = chat;
    const [log, scroller] = [".log", ".scroller"].map((selector) => shadowRoot.querySelector(selector));
    return {
      wider: scroller.scrollWidth > scroller.clientWidth,
      sideways: log.scrollWidth - log.clientWidth,
      heights: [...shadowRoot.querySelectorAll("tr")].map(({ offsetHeight }) => offsetHeight),
    };
  });
  assert.ok(wider);
  assert.equal(sideways, 0);
  assert.ok(Math.max(...heights.slice(0, 2)) < 180, `${heights}`);
  const scroller = page.locator("tabloom-chat .scroller");
  await scroller.scrollIntoViewIfNeeded();
  const { x, width, bottom } = await scroller.evaluate((scroller) => {
    const { x, y, width } = scroller.getBoundingClientRect();
    return { x, width, bottom: y + scroller.clientTop + scroller.clientHeight };
  });
  /** A piece of the last row, below what it says, above a scroll bar. */
  const piece = async (x) => {
    const picture = await page.screenshot({ clip: { x, y: bottom - 4, width: 1, height: 1 } });
    return picture.toString("hex");
  };
  const edges = async () => [await piece(x + 6), await piece(x + width - 7)];
  const ground = await piece(x + width / 2);
  const [start, more] = await edges();
  assert.equal(start, ground);
  assert.notEqual(more, ground, "where it goes on there is a shade");
  await scroller.evaluate((scroller) => scroller.scrollTo(scroller.scrollWidth, 0));
  const [before, end] = await edges();
  assert.notEqual(before, ground);
  assert.equal(end, ground);
});

test("slots take the page's own", async () => {
  const { page, chat } = await open("slots.html");
  for (const text of ["Our chat", "Ask us.", "Be kind."]) assert.ok(await chat.getByText(text).isVisible(), text);
  assert.equal(await chat.getByText("Private chat").isVisible(), false);
  await page.evaluate(() => (document.querySelector("tabloom-chat").messages = [{ role: "user", content: "x" }]));
  assert.equal(await chat.getByText("Ask us.").isVisible(), false);
});

test("the worker is the property's, or else the attribute's", async () => {
  const { page } = await fake();
  const found = await page.evaluate(() =>
    [null, "/property.js", null].map((value) => {
      chat.setAttribute("worker-url", "/attribute.js");
      chat.workerUrl = value;
      return chat.workerUrl;
    }),
  );
  assert.deepEqual(found, ["/attribute.js", "/property.js", "/attribute.js"]);
});

test("properties that were set before the element was one are its own", async () => {
  const page = await context.newPage();
  await page.goto(`${server.url}tabloom/package.json`);
  const { texts, model } = await page.evaluate(async (address) => {
    document.body.replaceChildren();
    const chat = document.createElement("tabloom-chat");
    chat.messages = [{ role: "user", content: "early" }];
    document.body.append(chat);
    await import(address);
    chat.model = "model/";
    return {
      texts: [...chat.shadowRoot.querySelectorAll(".text")].map((text) => text.textContent),
      model: chat.getAttribute("model"),
    };
  }, `${server.url}tabloom/element.js`);
  assert.deepEqual([texts, model], [["early"], "model/"]);
});

test("servers can import it, and TypeScript knows it", () => {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const element = join(root, "target/package/element.js");
  const server = spawnSync(process.execPath, [
    "--input-type=module",
    "-e",
    `await import(${JSON.stringify(`file://${element}`)})`,
  ]);
  assert.equal(server.status, 0, `${server.stderr}`);

  const folder = mkdtempSync(join(tmpdir(), "tabloom-types-"));
  try {
    writeFileSync(
      join(folder, "page.ts"),
      `import { TabloomChat } from ${JSON.stringify(element)};
      const chat = document.querySelector("tabloom-chat")!;
      const same: TabloomChat = chat;
      chat.addEventListener("tabloom-load", ({ detail }) => { const part: number = detail.loaded / detail.total; });
      document.addEventListener("tabloom-message", ({ detail }) => { const text: string = detail.message.content; });
      chat.addEventListener("tabloom-ready", ({ detail }) => detail.engine.close());
      chat.model = "models/x/";
      chat.messages = [{ role: "user", content: "x" }];
      const answer: Promise<{ content: string } | null> = same.send("x");
      // @ts-expect-error
      chat.messages = [{ role: "nobody", content: "x" }];
      // @ts-expect-error
      chat.send();
      // @ts-expect-error
      const wrong: "asleep" = chat.state;
      `,
    );
    const flags = [
      "--ignoreConfig",
      "--noEmit",
      "--strict",
      "--target",
      "es2022",
      "--module",
      "nodenext",
      "--types",
      "",
      "--lib",
      "es2023,dom,dom.iterable,dom.asynciterable,esnext.disposable",
    ];
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const checked = spawnSync(process.execPath, [tsc, ...flags, join(folder, "page.ts")], { encoding: "utf8" });
    assert.equal(checked.status, 0, checked.stdout);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
