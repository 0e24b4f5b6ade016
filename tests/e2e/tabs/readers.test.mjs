// Readers that are slow, blocked or gone: others do not wait for them, the host does not fill up,
// and the slow still get everything.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ENDLESS, FRANCE, open, SHARING, STORY, text, until } from "./tabs.mjs";

let session;
/** Ends the wait of the page whose thread is blocked; undefined until it waits. */
let release;
/** An answer that takes long, and of which a host makes but a part ahead. */
const LONG = { ...STORY.params, ignore_eos: true, max_tokens: 300 };
/** What it is for one who reads it. */
let long;

before(async () => {
  session = await open({ "": { released: (response) => (release = () => response.end()) } });
  const visitor = await session.visitor();
  [long] = await visitor.alone([LONG]);
  assert.ok(text(long).startsWith(STORY.answer));
  await visitor.close();
});

after(() => session?.close());

for (const rung of [...SHARING, "private"]) {
  describe(`${rung}:`, () => {
    let visitor;
    let tab;
    let other;

    before(async () => {
      visitor = await session.visitor();
      const count = rung === "private" ? 1 : 2;
      const tabs = await visitor.tabs(count, { host: rung });
      [tab, other] = [tabs[0], tabs.at(-1)];
    });

    after(() => visitor?.close());

    test("a stream that is not read holds up nobody and fills no memory", async () => {
      await tab.begin("unread", LONG, { held: true });
      const made = async () => {
        const { host, tabs } = await tab.metrics();
        return tabs[host.tabs.find(({ you }) => you).id].generation_tokens;
      };
      // It is held once the host has made what it may make ahead.
      let [last, same] = [-1, 0];
      await until("the stream to be held", async () => {
        const before = last;
        last = await made();
        same = last > 0 && last === before ? same + 1 : 0;
        await new Promise((resolve) => setTimeout(resolve, 1000));
        return same === 3;
      });
      const credit = await tab.run("chunks", () => streams.unread.chunks.length);
      assert.equal(credit, 0);
      assert.ok(last < LONG.max_tokens / 2, `${last} tokens were made for nobody`);
      const { wasm_heap_bytes: heap } = await tab.metrics();

      assert.equal(text(await other.ask(STORY.params)), STORY.answer);
      if (other !== tab) assert.equal(await made(), last, "tokens made for a held stream");
      assert.equal((await tab.metrics()).wasm_heap_bytes, heap);

      await tab.run("reading", () => void (streams.unread.reading = streams.unread.read()));
      assert.deepEqual(await tab.answer("unread"), long);
    });

    test("a page whose thread is blocked gets its answer later, others theirs at once", async () => {
      await tab.begin("blocked", LONG);
      await tab.pieces("blocked", 4);
      release = undefined;
      const blocked = tab.run("to be blocked", () => {
        const request = new XMLHttpRequest();
        request.open("GET", "released", false);
        request.send();
      });
      await until("the page to be blocked", async () => release);
      try {
        if (other !== tab) assert.equal(text(await other.ask(FRANCE.params)), FRANCE.answer);
        else await new Promise((resolve) => setTimeout(resolve, 2000));
      } finally {
        release();
      }
      await blocked;
      assert.deepEqual(await tab.answer("blocked"), long);
    });

    test("a reader that leaves its loop frees what it held", async () => {
      await tab.run(
        "leaving",
        async (params) => {
          for await (const _ of await engine.chat.completions.create({ ...params, stream: true })) break;
        },
        ENDLESS,
      );
      await tab.idle();
    });

    test("signals end what has not begun, what waits, and what streams", async () => {
      const outcome = await tab.run(
        "aborts",
        async (params) => {
          const aborts = (await engine.metrics()).request_success.abort;
          const early = engine.chat.completions.create(params, { signal: AbortSignal.abort("early") });
          const whole = new AbortController();
          const waiting = engine.chat.completions.create(params, whole);
          const stream = new AbortController();
          const chunks = await engine.chat.completions.create({ ...params, stream: true }, stream);
          let seen = 0;
          const reading = (async () => {
            for await (const _ of chunks) if (++seen === 4) stream.abort(new Error("enough"));
          })();
          const errors = [await early.catch((reason) => reason), await failure(reading)];
          whole.abort(new Error("changed my mind"));
          errors.push(await failure(waiting));
          const { num_requests_running: running, request_success } = await engine.metrics();
          return { errors, seen, running, aborted: request_success.abort - aborts };
        },
        ENDLESS,
      );
      const [early, reading, waiting] = outcome.errors;
      assert.equal(early, "early");
      assert.equal(reading.message, "enough");
      assert.equal(waiting.message, "changed my mind");
      assert.equal(outcome.seen, 4);
      assert.deepEqual([outcome.running, outcome.aborted], [0, 2]);
      await tab.idle();
    });

    test("a signal that ends loading leaves a page free to load again", async () => {
      const late = await visitor.tab();
      const name = await late.run(
        "abort",
        async (rung) => {
          const signal = AbortSignal.abort();
          const controller = new AbortController();
          const loading = failure(load("model/", { host: rung, signal: controller.signal }));
          controller.abort();
          return [(await failure(load("model/", { host: rung, signal }))).name, (await loading).name];
        },
        rung,
      );
      assert.deepEqual(name, ["AbortError", "AbortError"]);
      await late.load({ host: rung });
      assert.equal(text(await late.ask(FRANCE.params)), FRANCE.answer);
      await late.close();
    });
  });
}
