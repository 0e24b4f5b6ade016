// The engine panel of the demo page: that it shows what the metrics say, only while it is looked at,
// and what two tabs of one visitor see of each other.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ADAPTER, launch, url } from "./browser.mjs";
import { PROBLEM, open, ready } from "./demo.mjs";

const STORY = "Tell me a story about a fox.";

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

/** The panel's facts, tables and pictures, as texts. */
function contents() {
  const texts = (within, selector) => [...within.querySelectorAll(selector)].map((element) => element.textContent);
  const panel = document.getElementById("panel");
  const tables = [...panel.querySelectorAll("table")].map((table) => ({
    caption: table.caption.textContent,
    rows: [...table.tBodies[0].rows].map((row) => texts(row, "th, td")),
  }));
  const [speed, first, batch, accepted, blocks] = [...panel.querySelectorAll("figure")].map((figure) => ({
    caption: figure.querySelector("figcaption").textContent,
    label: figure.querySelector("svg").getAttribute("aria-label"),
    bars: [...figure.querySelectorAll("rect")].map((bar) => Number(bar.getAttribute("width"))),
  }));
  const trends = [speed, first, accepted].map(({ caption }) => caption);
  const [tabs, models] = tables;
  const [says] = texts(panel, "p");
  return { says, facts: texts(panel, "dd"), tabs, models, trends, batch, blocks };
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
        info: { adapter: "an adapter" },
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
        const part = (running, waiting, kv_blocks, generation_tokens) => ({
          running,
          waiting,
          kv_blocks,
          generation_tokens,
        });
        globalThis.metrics = {
          steps,
          num_requests_running: 3,
          num_requests_waiting: 1,
          generation_tokens: first + second,
          kv_cache_usage_perc: 0.125,
          prefix_cache_hits: 300,
          prefix_cache_queries: 400,
          // One first token for each that is generated, after 40 ms; three of four draft tokens are accepted.
          time_to_first_token_seconds: { count: first + second, sum: 0.04 * (first + second) },
          spec_decode_num_drafts: 20,
          spec_decode_num_draft_tokens: 50 + 4 * first,
          spec_decode_num_accepted_tokens: 35 + 3 * first,
          spec_decode_seconds_saved: 1.25,
          // The fifth tab has not asked anything yet.
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

  /** Tells the panel whether its place is shown. */
  const open = (shown) => page.evaluate((shown) => void (panel.open = shown), shown);

  /** Lets half a second pass, in which the panel reads the metrics once. */
  const wait = () => page.clock.runFor(500);

  test("nothing is read before the panel is open", async () => {
    await give(0, 0);
    await page.evaluate(() => panel.watch(engine));
    await wait();
    assert.equal(await page.evaluate(() => asked), 0);
  });

  test("what it shows is what the metrics say", async () => {
    await open(true);
    await wait();
    for (let half = 1; half <= 8; half++) {
      await give(10 * half, 30 * half);
      await wait();
    }
    assert.deepEqual(await page.evaluate(contents), {
      says: "",
      facts: [
        "a shared worker, for all tabs of this site",
        "an adapter",
        "3 running, 1 waiting, 80.0 tokens/s",
        "300 of 400 prompt tokens found (75%)",
        "275 of 370 accepted, rounds: 20, 14.75 tokens a round, 1.3 s saved",
      ],
      trends: [
        "Tokens/s: 80.0 now, at most 80.0 in the last 30 s",
        "Time to first token: 40 ms now, at most 40 ms in the last 30 s",
        "Accepted draft tokens: 75% now, at most 75% in the last 30 s",
      ],
      tabs: {
        caption: "Tabs that share the engine",
        rows: [
          ["Tab 1 (hidden)", "1", "0", "20.0", "7"],
          ["Tab 4 (this one)", "2", "1", "60.0", "5"],
          ["Tab 5", "0", "0", "0.0", "0"],
          ["Tab 6 (other)", "–", "–", "–", "–"],
          ["Tab 7 (loading)", "–", "–", "–", "–"],
        ],
      },
      models: {
        caption: "Models: 2 GB of at most 4 GB",
        rows: [
          ["own", "3", "1.5 MB"],
          ["other", "1", "2 GB"],
        ],
      },
      batch: {
        caption: "Batch: 3 now, at most 3 in the last 30 s",
        label: "Batch: 3 now, at most 3 in the last 30 s",
        bars: [],
      },
      blocks: {
        caption: "KV blocks by tab: 13% of the cache in use",
        label: "Tab 1 (hidden): 7, Tab 4 (this one): 5",
        bars: [7, 5],
      },
    });
    const asked = await page.evaluate(() => globalThis.asked);
    assert.ok(asked >= 8 && asked <= 12, `${asked} readings in 4.5 s`);
  });

  test("the bar and its legend have the same colours, and each tab its own", async () => {
    const colours = await page.evaluate(() => {
      const of = (selector, property, part) =>
        [...document.querySelectorAll(selector)].map((e) => getComputedStyle(e, part)[property]);
      return {
        bars: of("#panel rect", "fill"),
        marks: of("#panel tr[class*=tab-] th", "backgroundColor", "::before"),
      };
    });
    assert.equal(new Set(colours.marks).size, 5);
    assert.deepEqual(colours.bars, colours.marks.slice(0, 2));
  });

  test("another host counts anew, and so does a model loaded again; no rate is negative", async () => {
    const rate = async () => (await page.evaluate(contents)).facts[2].split(", ").at(-1);
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

  test("nothing is read while the page is hidden or the panel closed", async () => {
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
    await show(false);
    assert.equal(await passed(), 0);
    await show(true);
    assert.ok((await passed()) >= 8);
    await open(false);
    await wait();
    assert.equal(await passed(), 0);
    await open(true);
    assert.ok((await passed()) >= 8);
  });

  test("an engine that fails is asked no more; another takes its place", async () => {
    const text = () => page.locator("#panel").innerText();
    await page.evaluate(() => (globalThis.failure = new Error("the engine has failed")));
    await wait();
    assert.match(await text(), /the engine has failed$/);
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
          /** @type {HTMLTextAreaElement} */ (document.getElementById("prompt")).value = story;
          /** @type {HTMLFormElement} */ (document.getElementById("composer")).requestSubmit();
        }, STORY);
        await page.waitForFunction(() => !document.getElementById("send").hidden);
      }
    };
    const telling = Promise.all(tabs.map(tell));
    const shown = await wait().finally(() => (waiting = false));
    await telling;
    return shown;
  }

  const names = ({ tabs }) => tabs.rows.map(([name]) => name);

  test("the keyboard opens it; a lone visitor is told how to share", async () => {
    const { page } = first;
    const focused = () => page.evaluate(() => document.activeElement.id);
    for (let i = 0; (await focused()) !== "tab-chat"; i++) {
      assert.ok(i < 10, "the views are not among the next ten places");
      await page.keyboard.press("Shift+Tab");
    }
    for (const name of ["playground", "engine"]) {
      await page.keyboard.press("ArrowRight");
      assert.equal(await focused(), `tab-${name}`);
    }
    await shows(first, (shown) => names(shown).join() === "Tab 1 (this one)");
    await page.keyboard.press("Tab");
    // In Firefox the keyboard reaches what scrolls, too.
    if ((await focused()) === "engine") await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Open this page in another tab");
  });

  test("each tab shows both", async () => {
    second = await ready(context, address);
    await second.page.locator("#tab-engine").click();
    await shows(first, (shown) => names(shown).join() === "Tab 1 (this one),Tab 2");
    const { facts, models } = await shows(second, (shown) => names(shown).join() === "Tab 1,Tab 2 (this one)");
    assert.equal(facts[0], "a shared worker, for all tabs of this site");
    assert.match(facts[1], ADAPTER);
    assert.deepEqual(
      models.rows.map(([name, tabs]) => [name, tabs]),
      [["model", "2"]],
    );
    assert.equal(await first.page.locator("#panel a").isVisible(), false);
  });

  test("one tab sees the other's answers being made", async () => {
    const made = ({
      tabs: {
        rows: [[, running, , rate]],
      },
    }) => running === "1" && Number(rate) > 0;
    const { batch, tabs, blocks } = await whileTelling([first], () => shows(second, made));
    assert.match(batch.caption, /^Batch: 1 now, at most 1 /);
    const [[name, , , , held], own] = tabs.rows;
    assert.ok(Number(held) > 0);
    assert.equal(blocks.label, `${name}: ${held}`);
    assert.deepEqual(own.slice(1), ["0", "0", "0.0", "0"]);
  });

  test("requests of both make one batch", async () => {
    const both = ({ batch }) => batch.caption.startsWith("Batch: 2 now");
    const { tabs, blocks } = await whileTelling([first, second], () => shows(second, both));
    assert.deepEqual(
      tabs.rows.map(([, running]) => running),
      ["1", "1"],
    );
    assert.equal(blocks.bars.length, 2);
  });

  test("at rest, what it shows is what another tab's engine measures", async (t) => {
    const third = await context.newPage();
    t.after(() => third.close());
    const blank = `${url}blank`;
    await third.route(blank, (route) => route.fulfill({ contentType: "text/html", body: "" }));
    await third.goto(blank);
    await third.evaluate(async () => {
      const { Engine } = await import("/tabloom/index.js");
      globalThis.engine = await Engine.load("/model/", { host: "shared" });
    });
    const resting = "0 running, 0 waiting, 0.0 tokens/s";
    const rests = ({ facts, tabs }) => tabs.rows.length === 3 && facts[2] === resting;
    const { facts, tabs, models } = await shows(second, rests);
    const metrics = await third.evaluate(() => engine.metrics());
    const { prefix_cache_hits: hits, prefix_cache_queries: queries, host } = metrics;
    assert.ok(hits > 0 && queries > hits, `${hits} of ${queries} prompt tokens found`);
    assert.match(facts[3], new RegExp(`^${hits} of ${queries} prompt tokens found `));
    const { spec_decode_num_drafts: rounds, spec_decode_num_draft_tokens: drafted } = metrics;
    const { spec_decode_num_accepted_tokens: right } = metrics;
    const drafts = rounds > 0 ? `^${right} of ${drafted} accepted, rounds: ${rounds}, ` : "^none yet$";
    assert.match(facts[4], new RegExp(drafts));
    assert.deepEqual(
      names({ tabs }),
      host.tabs.map(({ id }) => `Tab ${id + 1}${id === 1 ? " (this one)" : ""}`),
    );
    assert.equal(models.rows.length, 1);
    const [, unit] = models.rows[0][2].split(" ");
    assert.equal(unit, "MB");
    assert.equal(Number.parseFloat(models.rows[0][2]), Number((host.models[0].bytes / 1e6).toPrecision(3)));
  });

  test("a tab that is closed goes from the panel, and nobody has seen an error", async () => {
    await shows(second, (shown) => names(shown).join() === "Tab 1,Tab 2 (this one)");
    await first.page.close();
    await shows(second, (shown) => names(shown).join() === "Tab 2 (this one)");
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

test("a page without a model says so", async () => {
  const { page } = await open(browser, `${url}?model=nowhere/`);
  await page.locator(PROBLEM).waitFor();
  await page.locator("#tab-engine").click();
  await page.locator("#panel", { hasText: "No model is loaded." }).waitFor();
  await page.close();
});
