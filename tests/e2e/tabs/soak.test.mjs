// One engine for a long time: thousands of short requests, two hundred loads and closings, fifty hosts that are lost.
// Afterwards nothing is held that was not held before.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { goldens } from "../package.mjs";
import { open, text, until } from "./tabs.mjs";

/** In each third of the soak, by each of three tabs: ten thousand requests in all. */
const [ROUNDS, BATCH] = [35, 32];
const [LOADS, HAND_OVERS] = [200, 50];
/** An engine that loses more hosts within a minute gives up. */
const LOSSES_OF_ONE = 4;

const [{ messages, answer }] = goldens;
const SHORT = { messages, temperature: 0, max_tokens: 1 };

let session;

before(async () => (session = await open()));

after(() => session?.close());

/** The site's locks, held and awaited. */
const locks = (tab) =>
  tab.run("locks", async () => {
    const { held, pending } = await navigator.locks.query();
    return [...held, ...pending].filter(({ name }) => name.startsWith("tabloom")).length;
  });

test("thousands of requests, and engines that are loaded and closed", async () => {
  const visitor = await session.visitor();
  const tabs = await visitor.tabs(3, { host: "shared" });
  const [keeper] = tabs;
  const ask = (tab) =>
    tab.run(
      "short requests",
      async ([params, batch]) => {
        const asked = Array.from({ length: batch }, () => engine.chat.completions.create(params));
        return (await Promise.all(asked)).map(({ choices: [choice] }) => choice.message.content);
      },
      [SHORT, BATCH],
    );
  const third = async () => {
    for (let round = 0; round < ROUNDS; round++) {
      for (const answers of await Promise.all(tabs.map(ask))) {
        for (const given of answers) assert.ok(given && answer.startsWith(given), given);
      }
    }
    const { wasm_heap_bytes } = await keeper.idle();
    return { bytes: wasm_heap_bytes, locks: await locks(keeper) };
  };
  const first = await third();
  await third();
  await keeper.run(
    "loads and closings",
    async (count) => {
      for (let i = 0; i < count; i++) {
        const loaded = await Engine.load("model/", { workerUrl: worker("probed.js"), device: "cpu", host: "shared" });
        loaded.close();
      }
    },
    LOADS,
  );
  const last = await third();
  assert.ok(last.bytes <= first.bytes * 1.02, `the worker's heap grew from ${first.bytes} to ${last.bytes} bytes`);
  await until("the locks of closed engines to be free", async () => (await locks(keeper)) === first.locks);
  const { host } = await keeper.idle();
  assert.equal(host.tabs.length, tabs.length);
  assert.equal((await keeper.hosts()).length, 1);
  await visitor.close();
});

test("hosts that are lost one after the other", async () => {
  const visitor = await session.visitor();
  const witness = await visitor.tab();
  for (let lost = 0; lost < HAND_OVERS; lost += LOSSES_OF_ONE) {
    const [tab] = await visitor.tabs(1, { host: "leader" });
    for (let i = 0; i < LOSSES_OF_ONE; i++) {
      await tab.begin(`stream ${i}`, { messages, temperature: 0, max_tokens: 8 });
      await tab.command("close");
      const given = text(await tab.answer(`stream ${i}`));
      assert.ok(given && answer.startsWith(given), given);
    }
    assert.equal(tab.page.workers().length, 1);
    await tab.close();
  }
  await until("all locks to be free", async () => (await locks(witness)) === 0);
  assert.deepEqual(await witness.hosts(), []);
  await visitor.close();
});
