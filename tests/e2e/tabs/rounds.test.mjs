// Two hundred rounds, half of them on each rung, of tabs that come, chat, change their mind and go:
// nothing is left behind.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { goldens } from "../package.mjs";
import { SHARING, open, text, within, until } from "./tabs.mjs";
import { randomFrom } from "./site/random.mjs";

const SEED = Number(process.env.TABLOOM_SEED ?? Math.floor(Math.random() * 2 ** 31));
const ROUNDS = 100;
/** After so many rounds everything has grown to the size it needs. */
const GROWN = 50;
/** Locks held and awaited on behalf of one tab: its own and the host's; where it leads, the office, too. */
const LOCKS = { shared: 4, leader: 7 };
/** Most tabs at once, beside the one that stays. */
const MOST = 3;

let session;

before(async () => (session = await open({}, { device: "gpu" })));

after(() => session?.close());

for (const rung of SHARING) {
  test(`${rung}: ${ROUNDS} rounds (seed ${SEED})`, async () => {
    const random = randomFrom(SEED);
    const pick = (list) => list[Math.floor(random() * list.length)];
    const visitor = await session.visitor();
    const [keeper] = await visitor.tabs(1, { host: rung });
    await keeper.ask({ messages: goldens[0].messages, temperature: 0 });
    const [first] = await keeper.hosts();
    const devtools = await visitor.context.newCDPSession(keeper.page);
    let tabs = [];

    const gone = (tab) => (tabs = tabs.filter((other) => other !== tab));
    const short = () => ({ ...params(pick(goldens)), max_tokens: 1 + Math.floor(random() * 6) });
    const actions = {
      async open() {
        if (tabs.length < MOST) tabs.push(...(await visitor.tabs(1, { host: rung })));
      },
      async close(tab) {
        await tab.close();
        gone(tab);
      },
      async crash(tab) {
        await tab.crash();
        gone(tab);
        await tab.close();
      },
      async reload(tab) {
        await tab.reload();
        await tab.load({ host: rung });
      },
      "close the engine": async (tab) => {
        await tab.run("close", () => engine.close());
        await tab.load({ host: rung });
      },
      async chat(tab) {
        const golden = pick(goldens);
        const tokens = 1 + Math.floor(random() * 8);
        const answer = text(await tab.ask({ ...params(golden), max_tokens: tokens }));
        assert.ok(answer && golden.answer.startsWith(answer), `${answer} in place of ${golden.answer}`);
      },
      async stream(tab) {
        const golden = pick(goldens);
        await tab.begin("stream", { ...params(golden), max_tokens: 8 });
        const answer = text(await tab.answer("stream"));
        assert.ok(answer && golden.answer.startsWith(answer), `${answer} in place of ${golden.answer}`);
      },
      async leave(tab) {
        // In the middle of an answer that nobody will wait for.
        await tab.begin("left", { ...params(pick(goldens)), ignore_eos: true, max_tokens: 500, n: 2 });
        await actions[pick(["close", "crash", "reload", "close the engine"])](tab);
      },
      async abort(tab) {
        await tab.run(
          "abort",
          async (params) => {
            const controller = new AbortController();
            const asked = [1, 2, 3].map(() => failure(engine.chat.completions.create(params, controller)));
            setTimeout(() => controller.abort(), 20);
            await Promise.all(asked);
          },
          { ...short(), max_tokens: 200, ignore_eos: true },
        );
      },
      embed: (tab) => tab.run("embed", () => engine.embeddings.create({ input: ["a fox", "a cat"] })),
    };
    const names = Object.keys(actions);
    /** Most rounds are cheap. */
    const often = ["chat", "stream", "abort", "embed", "chat", "stream"];

    const measure = async () => {
      const metrics = await keeper.metrics();
      await within("collection", devtools.send("HeapProfiler.collectGarbage"));
      const { usedSize } = await within("the heap", devtools.send("Runtime.getHeapUsage"));
      return { wasm: metrics.wasm_heap_bytes, page: usedSize };
    };

    let grown;
    for (let round = 1; round <= ROUNDS; round++) {
      const name = pick([...names, ...often]);
      const tab = pick(tabs);
      const stays = ["chat", "stream", "abort", "embed"].includes(name);
      if (name === "open" || !tab) await actions.open();
      else await actions[name](stays && random() < 0.3 ? keeper : tab);
      if (round === GROWN) grown = await measure();
    }

    for (const tab of tabs) await tab.close();
    const end = await measure();
    // A tab that has crashed may be noticed late.
    const { host, tabs: known } = await until("the tabs to be gone", async () => {
      const metrics = await keeper.idle();
      return metrics.host.tabs.length === 1 && metrics;
    });
    assert.equal(Object.keys(known).length, 1);
    assert.deepEqual(
      host.models.map(({ tabs, requests }) => [tabs, requests]),
      [[1, 0]],
    );
    assert.deepEqual(await keeper.hosts(), [first], "the workers, and what they hold of the GPU");
    assert.equal(end.wasm, grown.wasm, "bytes of the WebAssembly heap");
    assert.ok(end.page < grown.page + (1 << 20), `the page's heap grew from ${grown.page} to ${end.page}`);
    await until("the tabs' locks to be free", async () => {
      const { held, pending } = await keeper.run("locks", () => navigator.locks.query());
      return [...held, ...pending].filter(({ name }) => name.startsWith("tabloom")).length === LOCKS[rung];
    });
    await visitor.close();
  });
}

function params({ messages }) {
  return { messages, temperature: 0 };
}
