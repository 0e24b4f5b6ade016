// The engine panel of the demo page: that it shows what the metrics say, only while it is looked at,
// and what two tabs of one visitor see of each other.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ADAPTER, launch, testBeyondFirefox, url, waitUntil } from "./browser.mjs";
import { MESSAGES, PROBLEM, ask, loaded, open, ready } from "./demo.mjs";

const STORY = "Tell me a story about a fox.";

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

/** What the panel says, its facts, its tabs, and its charts: what each says but for its time, the end of its axis, its bars. */
function contents() {
  const texts = (within, selector) => [...within.querySelectorAll(selector)].map((element) => element.textContent);
  const panel = document.getElementById("panel");
  const charts = [...panel.querySelectorAll(".chart")].map((chart) => {
    const [, name, figures] = /^(.*?): (.*)$/.exec(chart.querySelector("svg").getAttribute("aria-label"));
    return [name, [figures.replace(/ \d+ s\b/, ""), texts(chart, ".axis.y span")[0]]];
  });
  const bars = [...panel.querySelectorAll(".bars")].map((figure) => [
    texts(figure, "figcaption")[0],
    [...figure.querySelectorAll("li")].map((bar) => {
      const [width, whole] = [
        bar.querySelector("rect").width.baseVal.value,
        bar.querySelector("svg").viewBox.baseVal.width,
      ];
      return [...texts(bar, "span"), Number((width / whole).toPrecision(2))];
    }),
  ]);
  return {
    says: texts(panel, "p")[0],
    facts: Object.fromEntries(
      [...panel.querySelectorAll(".facts div")].map((fact) => [texts(fact, "dt")[0], texts(fact, "dd")]),
    ),
    tabs: [...panel.querySelectorAll("tbody tr")].map((row) => texts(row, "th, td:not([hidden])")),
    charts: Object.fromEntries(charts),
    bars: Object.fromEntries(bars),
  };
}

describe("with an engine of made-up metrics", () => {
  let page;

  before(async () => {
    page = await browser.newPage();
    const blank = `${url}blank`;
    const body = `<!doctype html><title>The panel</title><link rel="stylesheet" href="style.css">
      <link rel="stylesheet" href="views.css"><div id="panel"></div>`;
    await page.route(blank, (route) => route.fulfill({ contentType: "text/html", body }));
    await page.clock.install({ time: 0 });
    await page.goto(blank);
    // From here on time passes only where the tests let it.
    await page.clock.pauseAt(60_000);
    await page.evaluate(async () => {
      const { Panel } = await import("/panel.js");
      globalThis.asked = 0;
      globalThis.engine = {
        host: "shared",
        info: {
          adapter: "an adapter",
          model: "http://localhost/own/",
          weightBytes: 500_000,
          draft: { weightBytes: 100_000 },
        },
        async metrics() {
          asked++;
          if (globalThis.failure) throw failure;
          return structuredClone(metrics);
        },
      };
      globalThis.panel = new Panel(document.getElementById("panel"));
    });
  });

  after(() => page?.close());

  /** Metrics in which the first and the second tab have generated so many tokens. */
  async function give(first, second, { name = "a host", steps = 10 } = {}) {
    await page.evaluate(
      ([first, second, name, steps]) => {
        const [own, other] = ["http://localhost/own/", "http://localhost/models/other/"];
        const tab = (id, model, more) => ({ id, visible: true, you: false, model, ...more });
        // Half of each prompt is in the prefix cache; three of four draft tokens are accepted.
        const part = (running, waiting, kv_blocks, tokens) => ({
          running,
          waiting,
          kv_blocks,
          generation_tokens: tokens,
          prompt_tokens: 2 * tokens,
          cached_tokens: tokens,
          prefix_cache_queries: 2 * tokens,
          spec_decode_num_accepted_tokens: 3 * tokens,
          spec_decode_num_draft_tokens: 4 * tokens,
        });
        globalThis.metrics = {
          steps: steps + first,
          iteration_tokens_total: { count: steps + first, sum: 8 * first },
          num_requests_running: 3,
          num_requests_waiting: 1,
          generation_tokens: first + second,
          kv_cache_usage_perc: 0.125,
          prefix_cache_hits: 300,
          prefix_cache_queries: 400,
          // One first token for each that is generated, after 40 ms.
          time_to_first_token_seconds: { count: first + second, sum: 0.04 * (first + second) },
          spec_decode_num_drafts: 20,
          spec_decode_num_draft_tokens: 50 + 4 * first,
          spec_decode_num_accepted_tokens: 35 + 3 * first,
          wasm_heap_bytes: 3_000_000,
          // The third tab has not asked anything yet. What loads a model is not counted.
          tabs: { 0: part(1, 0, 7, first), 3: part(2, 1, 5, second) },
          host: {
            name,
            tabs: [
              tab(0, own, { visible: false }),
              tab(3, own, { you: true }),
              tab(4, own),
              tab(5, other),
              tab(6, null),
            ],
            models: [
              { url: own, bytes: 1_500_000, tabs: 3, requests: 4 },
              { url: other, bytes: 2_000_000_000, tabs: 1, requests: 0 },
            ],
            budget_bytes: 4_000_000_000,
            used_bytes: 2_001_500_000,
          },
        };
      },
      [first, second, name, steps],
    );
  }

  /** Reports to the panel whether its place is shown. */
  const open = (shown) => page.evaluate((shown) => void (panel.open = shown), shown);

  /** Lets half a second pass, in which the panel reads the metrics once. */
  const wait = () => page.clock.runFor(500);

  test("before anybody looks little is read, after some minutes nothing, and again once something happens", async () => {
    const passed = async () => {
      const before = await page.evaluate(() => asked);
      await page.clock.runFor(10_000);
      return (await page.evaluate(() => asked)) - before;
    };
    await give(0, 0);
    await page.evaluate(() => panel.watch(engine));
    const early = await passed();
    assert.ok(early >= 4 && early <= 6, `${early} readings in 10 s`);
    assert.equal(await page.locator("#panel .chart").count(), 0);
    await page.clock.runFor(180_000);
    assert.equal(await passed(), 0);
    await page.evaluate(() => panel.wake());
    await page.evaluate(() => panel.wake());
    const awake = await passed();
    assert.ok(awake >= 4 && awake <= 6, `${awake} readings in 10 s`);
    await page.evaluate(() => {
      panel.watch(null);
      panel.watch(engine);
      globalThis.asked = 0;
    });
  });

  test("what it shows is what the metrics say", async () => {
    // Modules come in real time.
    await page.evaluate(() => import("/engine-view.js"));
    await open(true);
    const early = await page.evaluate(contents);
    assert.deepEqual(early.charts.Requests, ["4 now. Running: 3. Waiting: 1", "4"]);
    assert.equal(early.charts["Prefix cache hit rate"][0], "none now", "nothing of a time that is none");
    await wait();
    for (let half = 1; half <= 8; half++) {
      await give(10 * half, 30 * half);
      await wait();
    }
    const { says, facts, tabs, charts, bars } = await page.evaluate(contents);
    assert.equal(says, "");
    assert.deepEqual(facts, {
      Generation: ["80.0 tokens/s", "Tokens so far: 320"],
      Requests: ["3 running", "1 waiting"],
      "Tokens per step": ["8.0", "in the last seconds"],
      "Prefix cache": ["75%", "300 of 400 prompt tokens"],
      "Draft acceptance": ["74%", "275 of 370 draft tokens, 14.75 tokens a round"],
      "Time to first token": ["40 ms", "mean, answers: 320"],
      Model: ["own", ""],
      Adapter: ["an adapter", ""],
      "Runs in": ["a shared worker, for all tabs of this site", ""],
      Steps: ["90", ""],
    });
    assert.deepEqual(tabs, [
      ["Tab 1 (hidden)", "1", "0", "20.0", "25%", "7", "50%", "75%"],
      ["This tab", "2", "1", "60.0", "75%", "5", "50%", "75%"],
      ["Tab 3", "0", "0", "0.0", "0%", "0", "–", "–"],
      ["Tab 4", "On another engine, for other"],
    ]);
    const parts = (first, second) => `Tab 1: ${first}. This tab: ${second}. Tab 3: 0. Tab 4: 0`;
    assert.deepEqual(charts, {
      "Tokens/s by tab": [`80 now, at most 80 in. ${parts(20, 60)}`, "80"],
      "Tokens per step by tab": [`8 now, at most 8 in. ${parts(2, 6)}`, "8"],
      "KV blocks by tab": [`12 now, at most 12 in. ${parts(7, 5)}`, "12"],
      Requests: ["4 now, at most 4 in. Running: 3. Waiting: 1", "4"],
      "Prefix cache hit rate": ["none in the last", "100%"],
      "Draft acceptance rate": ["75% now, at most 75% in", "100%"],
    });
    assert.deepEqual(bars, {
      // A bar is as long as its share of the whole axis.
      "KV cache": [["Blocks in use", "13%", 0.13]],
      "Memory for models: 2 GB of at most 4 GB": [
        ["own: weights", "400 kB", 0.0002],
        ["own: draft head", "100 kB", 0.00005],
        ["own: KV cache", "1 MB", 0.0005],
        ["other: weights and KV cache", "2 GB", 1],
        ["WebAssembly heap", "3 MB", 0.0015],
      ],
    });
    const asked = await page.evaluate(() => globalThis.asked);
    assert.ok(asked >= 8 && asked <= 12, `${asked} readings in 4.5 s`);
  });

  test("areas and the table have the same colours, and each tab its own", async () => {
    const colours = await page.evaluate(() => {
      const of = (selector, property, part) =>
        [...document.querySelectorAll(selector)].map((e) => getComputedStyle(e, part)[property]);
      return {
        areas: of("#panel .chart:first-child path:not(.grid)", "fill"),
        legend: of("#panel .chart:first-child .mark", "backgroundColor", "::before"),
        others: of("#panel .chart:nth-child(n + 4) path:not(.grid)", "fill"),
        bars: of("#panel .bars rect:first-child", "fill"),
        marks: of("#panel tr[class*=tab-] th", "backgroundColor", "::before"),
      };
    });
    assert.equal(new Set(colours.marks).size, 4);
    assert.deepEqual(colours.areas, colours.marks);
    assert.deepEqual(colours.legend, colours.marks);
    const ofTabs = [...colours.others, ...colours.bars].filter((colour) => colours.marks.includes(colour));
    assert.deepEqual(ofTabs, [], "what is no tab's has no tab's colour");
  });

  test("with many tabs no name in a legend is broken, and the plots of a row stand at equal heights", async () => {
    for (const width of [1280, 700, 390]) {
      await page.setViewportSize({ width, height: 800 });
      const { rows, broken, beside } = await page.evaluate(() => {
        const box = (element) => element.getBoundingClientRect();
        const all = (selector) => [...document.querySelectorAll(`#panel ${selector}`)];
        const rows = Map.groupBy(all(".chart"), (chart) => Math.round(box(chart).bottom));
        return {
          rows: [...rows.values()].map(
            (row) => new Set(row.map((chart) => Math.round(box(chart.querySelector("svg")).top))).size,
          ),
          broken: all(".mark").filter((mark) => mark.getClientRects().length !== 1 || box(mark).height > 30).length,
          beside: all("figcaption").filter((caption) =>
            [...caption.children].some(
              (part) => part.textContent && Math.abs(box(part).left - box(caption).left) > 0.5,
            ),
          ).length,
        };
      });
      assert.deepEqual(
        rows,
        rows.map(() => 1),
        `${width} px`,
      );
      assert.ok(rows.length < 6 || width < 700, `${rows.length} rows`);
      assert.deepEqual([broken, beside], [0, 0], `${width} px`);
    }
    await page.setViewportSize({ width: 1280, height: 720 });
  });

  test("another host counts anew, and so does a model loaded again; no rate is negative", async () => {
    const rate = async () => (await page.evaluate(contents)).facts.Generation[0];
    await give(0, 1);
    await wait();
    assert.equal(await rate(), "0.0 tokens/s");
    await give(0, 0, { name: "another host" });
    await wait();
    assert.equal(await rate(), "0.0 tokens/s");
    await give(0, 6, { name: "another host" });
    await wait();
    assert.equal(await rate(), "12.0 tokens/s");
    await give(0, 0, { name: "another host", steps: 1 });
    await wait();
    assert.equal(await rate(), "0.0 tokens/s");
  });

  test("what happened while nobody looked is there, after a long time as its mean, and is not taken for now", async () => {
    const rates = async () => {
      await open(true);
      await wait();
      await wait();
      const { charts, facts } = await page.evaluate(contents);
      assert.equal(facts.Generation[0], "0.0 tokens/s");
      return charts["Tokens/s by tab"][0];
    };
    await open(false);
    await page.clock.runFor(10_000);
    await give(41, 0, { name: "another host", steps: 1 });
    await page.clock.runFor(10_000);
    assert.match(await rates(), /^0 now, at most 20\.5 in\./);
    await open(false);
    await page.clock.runFor(300_000);
    await give(641, 0, { name: "another host", steps: 1 });
    assert.match(await rates(), /^0 now, at most (4\.9\d|5) in/);
  });

  test("hardly anything is read while the page is hidden or the panel closed, and after some minutes nothing", async () => {
    const passed = async () => {
      const before = await page.evaluate(() => asked);
      await page.clock.runFor(5_000);
      return (await page.evaluate(() => asked)) - before;
    };
    const show = (visible) =>
      page.evaluate((visible) => {
        Object.defineProperty(document, "hidden", { value: !visible, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, visible);
    assert.ok((await passed()) >= 8);
    for (const leave of [() => show(false), () => open(false)]) {
      await leave();
      await wait();
      assert.ok((await passed()) <= 3);
      await page.clock.runFor(180_000);
      assert.equal(await passed(), 0);
      await show(true);
      await open(true);
      assert.ok((await passed()) >= 8);
    }
  });

  test("an engine that fails is asked no more; another takes its place", async () => {
    const text = () => page.locator("#panel").innerText();
    await page.evaluate(() => (globalThis.failure = Object.assign(new Error("it fell"), { code: "closed" })));
    await wait();
    assert.match(await text(), /The engine has stopped\. Try again, or reload the page\.$/);
    assert.equal(await page.locator("#panel p").first().getAttribute("title"), "it fell");
    const asked = await page.evaluate(() => globalThis.asked);
    await page.clock.runFor(5_000);
    assert.equal(await page.evaluate(() => globalThis.asked), asked);

    await page.evaluate(() => panel.watch(null));
    assert.match(await text(), /No model is loaded\.$/);
    await page.evaluate(() => {
      globalThis.failure = null;
      panel.watch({ ...engine, host: "private" });
    });
    await wait();
    assert.match(await text(), /a worker for this tab alone/);
  });
});

describe("with tabs of one visitor", () => {
  const address = `${url}?temperature=0`;
  let context;
  let first;
  let second;

  before(async () => {
    context = await browser.newContext();
    first = await ready(context, address);
  });

  after(() => context?.close());

  /** Waits until a tab's panel shows contents that pass. */
  async function shows({ page }, passes) {
    const end = Date.now() + 60_000;
    for (;;) {
      const shown = await page.evaluate(contents);
      if (passes(shown)) return shown;
      assert.ok(Date.now() < end, `the panel stays at ${JSON.stringify(shown)}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /**
   * Has tabs tell stories, one after the other, as long as something is waited for. Their chats go on
   * while visitors look at the engine.
   */
  async function whileTelling(tabs, wait) {
    let waiting = true;
    const tell = async ({ page }) => {
      while (waiting) {
        await page.evaluate((story) => {
          document.getElementById("clear").click();
          const [input] = shadow("textarea");
          input.value = story;
          input.dispatchEvent(new Event("input"));
          input.form.requestSubmit();
        }, STORY);
        await page.waitForFunction(() => !shadow(".round[part~=send]")[0].hidden);
      }
    };
    const telling = Promise.all(tabs.map(tell));
    const shown = await wait().finally(() => (waiting = false));
    await telling;
    return shown;
  }

  const names = ({ tabs }) => tabs.map(([name]) => name).join();

  test("what was asked before it was opened is in its charts", async () => {
    const { page } = await ready(await browser.newContext(), `${address}&device=cpu`);
    await ask(page, STORY);
    await page.locator("#tab-engine").click();
    await shows({ page }, ({ charts }) => /at most [1-9]/.test(charts?.["Tokens/s by tab"]?.[0]));
    await page.context().close();
  });

  test("the keyboard opens it; a lone visitor is told how to share", async () => {
    const { page } = first;
    const focused = () => page.evaluate(() => document.activeElement.id);
    for (let i = 0; (await focused()) !== "tab-chat"; i++) {
      assert.ok(i < 30, "the views are not among the next thirty places");
      await page.keyboard.press("Shift+Tab");
    }
    for (const name of ["playground", "engine"]) {
      await page.keyboard.press("ArrowRight");
      assert.equal(await focused(), `tab-${name}`);
    }
    await shows(first, (shown) => names(shown) === "This tab");
    await page.keyboard.press("Tab");
    // In Firefox the keyboard reaches what scrolls, too.
    if ((await focused()) === "engine") await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Open a second tab");
  });

  test("at rest nothing looks full, and a part of the memory has one figure", async () => {
    const { bars, charts } = await shows(first, ({ bars }) => bars["KV cache"]);
    const [[, , share]] = bars["KV cache"];
    assert.ok(share < 0.05, `${share} of the KV cache`);
    const [[caption, memory]] = Object.entries(bars).slice(1);
    assert.match(caption, /^Memory for models: [\d.]+ MB of at most [\d.]+ GB$/);
    assert.deepEqual(
      memory.map(([name]) => name),
      ["weights", "draft head", "KV cache"].map((part) => `Built-in model: ${part}`).concat("WebAssembly heap"),
    );
    assert.deepEqual(
      Object.values(charts).map(([, top]) => top),
      ["10", "4", "10", "4", "100%", "100%"],
    );
  });

  test("its link opens a second tab, and each shows both", async () => {
    const [opened] = await Promise.all([context.waitForEvent("page"), first.page.locator("#panel a").click()]);
    await opened.waitForURL(address);
    await opened.close();
    // Unlike that one, this does not hide the first in any browser.
    second = await ready(context, address);
    await second.page.locator("#tab-engine").click();
    await shows(first, (shown) => names(shown) === "This tab,Tab 2");
    const { facts } = await shows(second, (shown) => names(shown) === "Tab 1,This tab");
    assert.equal(facts["Runs in"][0], "a shared worker, for all tabs of this site");
    assert.equal(facts.Model[0], "Built-in model");
    assert.match(facts.Adapter[0], ADAPTER);
  });

  test("what is asked while another view is shown is in the charts afterwards", async () => {
    const drawn = () => first.page.evaluate(() => [...document.querySelectorAll("#panel .chart")].indexOf(panel));
    await first.page.evaluate(() => (globalThis.panel = document.querySelector("#panel .chart")));
    assert.equal(await drawn(), 0);
    await first.page.locator("#tab-chat").click();
    await ask(first.page, STORY);
    await first.page.locator("#tab-engine").click();
    assert.equal(await drawn(), 0, "the charts stay");
    await shows(first, ({ charts }) => /at most [1-9]/.test(charts["Tokens/s by tab"][0]));
  });

  test("one tab sees the other's answers being made", async () => {
    const made = ({ tabs: [[, running, , rate]] }) => running === "1" && Number(rate) > 0;
    const { charts, tabs } = await whileTelling([first], () => shows(second, made));
    const [[name, , , , share, held], own] = tabs;
    assert.match(charts.Requests[0], /^1 now, at most 1 .* Running: 1\. Waiting: 0$/);
    assert.ok(Number(held) > 0);
    assert.equal(share, "100%");
    assert.match(charts["KV blocks by tab"][0], new RegExp(` ${name}: ${held}\\. This tab: 0$`));
    assert.deepEqual(own.slice(1, 6), ["0", "0", "0.0", "0%", "0"]);
  });

  test("requests of both share the steps", async () => {
    const shares = ({ tabs }) => tabs.map(([, , , , share]) => Number.parseFloat(share));
    const both = (shown) => shown.facts.Requests[0] === "2 running" && shares(shown).every((share) => share > 10);
    const shown = await whileTelling([first, second], () => shows(second, both));
    assert.deepEqual(
      shown.tabs.map(([, running]) => running),
      ["1", "1"],
    );
    assert.ok(Math.abs(shares(shown)[0] + shares(shown)[1] - 100) <= 1, `${shares(shown)}`);
  });

  test("at rest, what it shows is what another tab's engine measures", async (t) => {
    const third = await context.newPage();
    t.after(() => third.close());
    const blank = `${url}blank`;
    await third.route(blank, (route) => route.fulfill({ contentType: "text/html", body: "" }));
    await third.goto(blank);
    await third.evaluate(async () => {
      const { Engine } = await import("/tabloom/index.js");
      // The page's own options: with others it would be another engine's model.
      const prefixCache = { storedBytes: 256 * 2 ** 20 };
      const workerUrl = "/tabloom/worker.js";
      globalThis.engine = await Engine.load("/model/", { host: "shared", prefixCache, workerUrl });
    });
    const rests = ({ facts, tabs }) =>
      tabs.length === 3 && facts.Requests.join() === "0 running,0 waiting" && facts.Generation[0] === "0.0 tokens/s";
    const { facts, tabs, bars } = await shows(second, rests);
    const metrics = await third.evaluate(() => engine.metrics());
    const { prefix_cache_hits: hits, prefix_cache_queries: queries, host, generation_tokens: made } = metrics;
    assert.ok(hits > 0 && queries > hits, `${hits} of ${queries} prompt tokens found`);
    const number = (value) => value.toLocaleString("en");
    assert.equal(facts.Generation[1], `Tokens so far: ${number(made)}`);
    assert.equal(facts["Prefix cache"][1], `${number(hits)} of ${number(queries)} prompt tokens`);
    const { spec_decode_num_draft_tokens: drafted, spec_decode_num_accepted_tokens: right } = metrics;
    assert.ok(facts["Draft acceptance"][1].startsWith(`${number(right)} of ${number(drafted)} draft tokens`));
    assert.equal(names({ tabs }), "Tab 1,This tab,Tab 3 (hidden)".replace(host.tabs[2].visible ? " (hidden)" : "", ""));
    const [[caption]] = Object.entries(bars).slice(1);
    const used = Number((host.used_bytes / 1e6).toPrecision(3));
    assert.ok(caption.startsWith(`Memory for models: ${used} MB of at most `), caption);
  });

  test("a tab that reloads stays itself, one that is closed goes, and nobody has seen an error", async () => {
    await shows(second, (shown) => names(shown) === "Tab 1,This tab");
    // It is no closed tab beside itself. Where it is listed depends on when the host has noticed that it is back.
    const both = ({ tabs }) => tabs.length === 2 && names({ tabs }).split(",").sort().join() === "Tab 1,This tab";
    for (const { page } of [second, first]) {
      await page.reload();
      await loaded(page);
      await shows(second, both);
    }
    await first.page.close();
    await shows(second, (shown) => names(shown) === "This tab");
    await second.page.reload();
    await shows(second, (shown) => names(shown) === "This tab");
    assert.deepEqual([...first.problems, ...second.problems], []);
  });
});

test("an engine of one's own is shown as that", async () => {
  const context = await browser.newContext();
  const { page } = await ready(context, `${url}?host=private`);
  await page.locator("#tab-engine").click();
  await page.locator("#panel dd", { hasText: "a worker for this tab alone" }).waitFor();
  assert.equal(await page.locator("#panel a").isVisible(), false);
  await context.close();
});

test("a long conversation that goes on in the next visit is read from storage, and the panel says so", async () => {
  const context = await browser.newContext();
  const { page } = await ready(context, `${url}?device=cpu&host=private&temperature=0`);
  const long = "Once upon a time there was a fox who wanted to learn to fly like a bird. ".repeat(20);
  await ask(page, `${long}What did the fox want?`);
  const stored = (/** @type {boolean} */ is) =>
    waitUntil(
      page,
      async (is) => {
        const { Engine } = await import(`${new URL("tabloom/index.js", document.baseURI)}`);
        return (await Engine.store.list()).some(({ prefixBytes }) => prefixBytes > 0) === is;
      },
      is,
    );
  await stored(true);
  await page.reload();
  await loaded(page);
  await page.locator("#conversation-list button").first().click();
  await page.locator(MESSAGES).nth(1).waitFor();
  await ask(page, "And then?");
  await page.locator("#tab-engine").click();
  const storage = page.locator("#panel .facts", { hasText: /[1-9]\d* from this device’s storage/ });
  await storage.waitFor();
  await page.locator("#tab-chat").click();
  await page.locator("#conversation-list .icon").first().click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await stored(false);
  await context.close();
});

test("a page without a model says so", async () => {
  const { page } = await open(browser, `${url}?model=nowhere/`);
  await page.locator(PROBLEM).waitFor();
  await page.locator("#tab-engine").click();
  await page.locator("#panel", { hasText: "No model is loaded." }).waitFor();
  await page.close();
});

describe("for everybody", () => {
  const VIEWS = ["playground", "engine", "bench"];
  let page;

  before(async () => {
    const context = await browser.newContext({ viewport: { width: 320, height: 256 } });
    ({ page } = await ready(context, `${url}?temperature=0`));
  });

  after(() => page?.context().close());

  /** Opens each view, and waits for what it imports. */
  async function forEachView(check) {
    for (const view of VIEWS) {
      await page.evaluate((view) => (location.hash = view), view);
      await page
        .locator(`#${view} :is(#example option, .chart, #bench-peers li)`)
        .first()
        .waitFor({ state: "attached" });
      await check(view);
    }
  }

  for (const dir of ["ltr", "rtl"]) {
    test(`nothing is wider than 320 px, which is 1280 px at 400 %: ${dir}`, async () => {
      await page.evaluate((dir) => (document.documentElement.dir = dir), dir);
      await forEachView(async (view) => {
        const wide = await page.locator(`#${view}`).evaluate((section) => {
          const { left, right } = section.getBoundingClientRect();
          const beyond = ({ left: from, right: to }) => from < left - 0.5 || to > right + 0.5;
          return [...section.querySelectorAll("*")]
            .filter((element) => !element.closest("thead, svg *") && beyond(element.getBoundingClientRect()))
            .map(({ outerHTML }) => outerHTML.slice(0, 80));
        });
        assert.deepEqual(wide, [], view);
      });
    });
  }

  test("the words of the panel are explained", async () => {
    await page.locator("#tab-engine").click();
    await page.getByText("What do these words mean?").click();
    await page.getByText("Memory for what the model has read and written.").waitFor();
  });

  test("headings go down one step at a time", async () => {
    await forEachView(async (view) => {
      const levels = await page.evaluate(() =>
        [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
          .filter((heading) => heading.checkVisibility())
          .map(({ tagName }) => Number(tagName[1])),
      );
      assert.ok(
        levels.every((level, i) => level <= (levels[i - 1] ?? 0) + 1),
        `${view}: ${levels}`,
      );
    });
  });

  testBeyondFirefox("scheme")("with forced colours charts have those, and bars their ground", async () => {
    await page.emulateMedia({ forcedColors: "active" });
    await page.locator("#tab-engine").click();
    const { marks, system, edge } = await page.evaluate(() => {
      const probe = document.body.appendChild(document.createElement("i"));
      const system = ["Highlight", "CanvasText"].map((name) => {
        probe.style.color = name;
        return getComputedStyle(probe).color;
      });
      probe.remove();
      const of = (selector, part) => getComputedStyle(document.querySelector(`#panel ${selector}`), part);
      return {
        marks: [".mark.all", ".mark.waiting"].map((mark) => of(mark, "::before").backgroundColor),
        system,
        edge: of(".bars svg").borderTopStyle,
      };
    });
    assert.deepEqual(marks, system);
    assert.equal(edge, "solid");
  });
});

test("the name of each figure is among the words that are explained, in every language", async () => {
  for (const code of ["en", "de", "es", "fr", "ja", "zh"]) {
    const { default: table } = await import(`../../www/texts/${code}.js`);
    const { terms, facts, columns, usage, weights, draft, cache, heap } = table.engine;
    const parts = [weights, draft, cache].map((name) => name.replace(/^\{model\}\s?[:：]\s?/, ""));
    const words = terms.flatMap(([term]) => term.split(/\s?[:：,，、]\s?/)).map((word) => word.toLowerCase());
    const unknown = [...facts, ...columns.slice(1), usage, ...parts, heap].filter(
      (name) => !words.includes(name.toLowerCase()),
    );
    assert.deepEqual(unknown, [], code);
  }
});
