// One engine for a long time: thousands of short requests, two hundred loads and closings, fifty hosts that are lost.
// Afterwards nothing is held that was not held before.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { goldens } from "../package.mjs";
import { open, SHARING, text, until, within } from "./tabs.mjs";

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

/** What a page and its store hold that has not been collected. */
async function holdings(tab) {
  const devtools = (tab.devtools ??= await tab.context.newCDPSession(tab.page));
  const ask = (method, parameters) => within(method, devtools.send(method, parameters));
  const count = async (name) => {
    const { result: prototype } = await ask("Runtime.evaluate", { expression: `${name}.prototype` });
    const { objects } = await ask("Runtime.queryObjects", { prototypeObjectId: prototype.objectId });
    const functionDeclaration = "function () { return this.length; }";
    const how = { objectId: objects.objectId, functionDeclaration, returnByValue: true };
    const { result } = await ask("Runtime.callFunctionOn", how);
    for (const { objectId } of [prototype, objects]) await ask("Runtime.releaseObject", { objectId });
    return result.value;
  };
  await ask("HeapProfiler.collectGarbage");
  // Chromium keeps each SharedWorker that a page has made, with its port, their three listeners, until the worker ends.
  const kept = await count("SharedWorker");
  const [ports, channels] = [(await count("MessagePort")) - kept, await count("BroadcastChannel")];
  const listeners = (await ask("Memory.getDOMCounters")).jsEventListeners - 3 * kept;
  const { usedSize: heap } = await ask("Runtime.getHeapUsage");
  const stored = await tab.run("stored", async () => (await (await caches.open("tabloom")).keys()).length);
  return { heap, counts: { ports, channels, listeners, stored, locks: await locks(tab) } };
}

/**
 * Waits until a page and its store hold again what they held: locks of what was closed, and what is left of workers
 * that have ended, go a moment later. Returns what they hold then.
 */
async function again(tab, counts) {
  /** @type {any} */
  let now;
  const same = async () => {
    now = await holdings(tab);
    return isDeepStrictEqual(now.counts, counts);
  };
  await until("what was held before", same, 20).catch(() => assert.deepEqual(now.counts, counts));
  return now;
}

/** Gives what measures the JavaScript heap of the only SharedWorker once garbage is collected. */
async function workerHeap() {
  const devtools = await session.browser.newBrowserCDPSession();
  const { targetInfos } = await devtools.send("Target.getTargets");
  const workers = targetInfos.filter(({ type }) => type === "shared_worker");
  assert.equal(workers.length, 1);
  // Not `flatten`: Playwright's session cannot speak for the worker's.
  const { sessionId } = await devtools.send("Target.attachToTarget", { targetId: workers[0].targetId });
  const waiting = new Map();
  devtools.on("Target.receivedMessageFromTarget", ({ message }) => {
    const { id, result } = JSON.parse(message);
    waiting.get(id)?.(result);
  });
  const ask = async (method) => {
    const id = waiting.size;
    const answer = new Promise((resolve) => waiting.set(id, resolve));
    await devtools.send("Target.sendMessageToTarget", { sessionId, message: JSON.stringify({ id, method }) });
    return within(`${method} of the worker`, answer);
  };
  return async () => {
    await ask("HeapProfiler.collectGarbage");
    const { usedSize } = await ask("Runtime.getHeapUsage");
    return usedSize;
  };
}

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
  const measure = await workerHeap();
  const third = async () => {
    for (let round = 0; round < ROUNDS; round++) {
      for (const answers of await Promise.all(tabs.map(ask))) {
        for (const given of answers) assert.ok(given && answer.startsWith(given), given);
      }
    }
    const { wasm_heap_bytes } = await keeper.idle();
    return { bytes: wasm_heap_bytes, script: await measure(), ...(await holdings(keeper)) };
  };
  const first = await third();
  await third();
  await keeper.run(
    "loads and closings",
    async (count) => {
      for (let i = 0; i < count; i++) {
        const loaded = await Engine.load("model/", { workerUrl: worker("observed.js"), device: "cpu", host: "shared" });
        loaded.close();
      }
    },
    LOADS,
  );
  const last = await third();
  assert.ok(last.bytes <= first.bytes * 1.02, `the worker's memory grew from ${first.bytes} to ${last.bytes} bytes`);
  assert.ok(
    last.script <= first.script + (1 << 17),
    `the worker's heap grew from ${first.script} to ${last.script} bytes`,
  );
  assert.ok(last.heap <= first.heap + (1 << 20), `the page's heap grew from ${first.heap} to ${last.heap} bytes`);
  const { counts } = await again(keeper, first.counts);
  console.log(
    `${JSON.stringify(counts)}; bytes: page ${first.heap} to ${last.heap}, ` +
      `worker ${first.script} to ${last.script}, its memory ${first.bytes} to ${last.bytes}`,
  );
  const { host } = await keeper.idle();
  assert.equal(host.tabs.length, tabs.length);
  assert.equal((await keeper.hosts()).length, 1);
  await visitor.close();
});

test("hosts that are lost one after the other", async () => {
  const visitor = await session.visitor();
  const witness = await visitor.tab();
  const tab = await visitor.tab();
  const held = [];
  for (let lost = 0; lost < HAND_OVERS; lost += LOSSES_OF_ONE) {
    // By turns; the last worker is no SharedWorker, which may outlive its tabs.
    await tab.load({ host: SHARING[(1 + lost / LOSSES_OF_ONE) % 2] });
    for (let i = 0; i < LOSSES_OF_ONE; i++) {
      await tab.begin(`stream ${i}`, { messages, temperature: 0, max_tokens: 8 });
      await tab.command("close");
      const given = text(await tab.answer(`stream ${i}`));
      assert.ok(given && answer.startsWith(given), given);
    }
    await until("the next host", async () => (await tab.hosts()).length === 1);
    await tab.run("close", () => engine.close());
    // A SharedWorker would outlive its engine for a while.
    await witness.command("close");
    await until("all locks to be free", async () => (await locks(witness)) === 0);
    held.push(await holdings(tab));
  }
  // Both times its last engine was on the same rung.
  const first = held[0];
  const last = await again(tab, first.counts);
  console.log(`${JSON.stringify(last.counts)}; bytes of the page: ${first.heap} to ${last.heap}`);
  assert.ok(last.heap <= first.heap + (1 << 20), `the page's heap grew from ${first.heap} to ${last.heap} bytes`);
  assert.deepEqual(await witness.hosts(), []);
  await visitor.close();
});
