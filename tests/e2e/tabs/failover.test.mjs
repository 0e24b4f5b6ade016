// The host dies in the middle of answers: its tabs notice, get another, and every answer goes on
// where it was, with no piece missing or twice.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ENDLESS, FRANCE, open, SHARING, STORY, text, until } from "./tabs.mjs";

/** Milliseconds within which a tab notices that the host is gone. */
const NOTICED = 1000;

/** Seconds for which a hung worker does not return to its event loop. */
const HUNG = 25;

/** What runs while the host dies: streams by name. */
const STREAMS = {
  greedy: { ...STORY.params, logprobs: true, top_logprobs: 2 },
  seeded: { ...STORY.params, temperature: 1, seed: 11, ignore_eos: true, max_tokens: 120 },
  "two choices": {
    ...STORY.params,
    n: 2,
    temperature: 1,
    seed: 12,
    ignore_eos: true,
    max_tokens: 90,
    logprobs: true,
    presence_penalty: 0.5,
    stop: ["never to be found"],
  },
};
const WHOLE = { ...STORY.params, n: 2, temperature: 1, seed: 13, ignore_eos: true, max_tokens: 90 };
/** Long enough to be under way for a while. */
const INPUTS = Array.from({ length: 16 }, (_, i) => `${i} ${STORY.answer}`);

let session;
/** Every answer as it is without a death. */
let expected;

before(async () => {
  session = await open();
  const visitor = await session.visitor();
  const [tab] = await visitor.tabs(1, { host: "private" });
  expected = { whole: await tab.ask(WHOLE), embeddings: await embeddings(tab) };
  for (const [name, params] of Object.entries(STREAMS)) expected[name] = await tab.ask(params);
  assert.equal(text(expected.greedy), STORY.answer);
  await visitor.close();
});

after(() => session?.close());

function embeddings(tab) {
  return tab.run("embeddings", (input) => engine.embeddings.create({ input }), INPUTS);
}

/** A moment on the clock that pages and workers have in common. */
const now = () => performance.timeOrigin + performance.now();

/**
 * Has `others` ask for every kind of answer, then `kill` the host in the middle; returns when the
 * killing began and the workers there are once all answers have come.
 */
async function survive(others, kill) {
  const [first] = others;
  const old = await first.hosts();
  const streaming = Object.entries(STREAMS).map(([name, params], i) => [
    others[i % others.length], name, params,
  ]);
  await Promise.all(streaming.map(([tab, name, params]) => tab.begin(name, params)));
  let answered = 0;
  const count = (answer) => (answered++, answer);
  const whole = first.ask(WHOLE).then(count);
  const vectors = embeddings(others.at(-1)).then(count);
  await Promise.all(streaming.map(([tab, name]) => tab.pieces(name, 8)));
  assert.equal(answered, 0, "answers before the host died");
  const killed = now();
  await kill();

  for (const [tab, name] of streaming) {
    assert.deepEqual(await tab.answer(name), expected[name], `${name} in ${tab.name}`);
    const { times } = await tab.stream(name);
    assert.ok(times.at(-1) > killed, `${name} had ended before the host died`);
  }
  assert.deepEqual(await whole, expected.whole);
  assert.deepEqual(await vectors, expected.embeddings);
  const hosts = (await first.hosts()).filter((host) => !old.some(({ id }) => id === host?.id));
  return { killed, hosts };
}

/** A worker was born soon after the death of the last. */
function noticed({ killed, hosts }) {
  assert.equal(hosts.length, 1, "new hosts");
  const took = hosts[0].born - killed;
  assert.ok(took > 0 && took < NOTICED, `the next host began after ${took} ms`);
}

/** The metrics are those of a host that serves `count` tabs, and nothing is left in it. */
async function settled(tab, count) {
  const { host, num_requests_running, num_requests_waiting, kv_cache_usage_perc } = await tab.metrics();
  assert.equal(host.tabs.length, count);
  assert.deepEqual([num_requests_running, num_requests_waiting, kv_cache_usage_perc], [0, 0, 0]);
}

describe("shared:", () => {
  let visitor;
  let creator;
  let others;

  before(async () => {
    visitor = await session.visitor();
    [creator, ...others] = await visitor.tabs(3, { host: "shared" });
  });

  after(() => visitor?.close());

  test("the tab that started the host crashes", async () => {
    noticed(await survive(others, () => creator.crash()));
    for (const tab of others) assert.equal(await tab.rung(), "shared");
    await settled(others[0], 2);
  });

  test("the worker ends", async () => {
    noticed(await survive(others, () => others[0].command("close")));
    await settled(others[0], 2);
  });
});

describe("leader:", () => {
  let visitor;
  let tabs;

  before(async () => {
    visitor = await session.visitor();
    tabs = await visitor.tabs(5, { host: "leader" });
  });

  after(() => visitor?.close());

  const leader = () => tabs.find((tab) => tab.page.workers().length > 0);
  const followers = () => tabs.filter((tab) => tab !== leader());

  const WAYS = {
    "is closed": (tab) => tab.close(),
    crashes: (tab) => tab.crash(),
  };

  for (const [way, leave] of Object.entries(WAYS)) {
    test(`the leader ${way}`, async () => {
      const left = leader();
      const others = followers();
      const outcome = await survive(others, () => leave(left));
      tabs = others;
      noticed(outcome);
      for (const tab of others) assert.equal(await tab.rung(), "leader");
      await settled(others[0], others.length);
    });
  }

  test("the leader's worker ends", async () => {
    const [worker] = leader().page.workers();
    // The leader is one of those who go on.
    noticed(await survive(tabs, () => worker.evaluate(() => close()).catch(() => {})));
    await settled(tabs[0], tabs.length);
  });

  test("the leader's worker hangs", async () => {
    const [worker] = leader().page.workers();
    const [old] = await tabs[0].hosts();
    const spin = (seconds) => {
      const end = performance.now() + seconds * 1000;
      while (performance.now() < end);
    };
    const hangs = async () => void worker.evaluate(spin, HUNG).catch(() => {});
    const { killed, hosts } = await survive(followers(), hangs);
    assert.equal(hosts.length, 1, "new hosts");
    const took = (hosts[0].born - killed) / 1000;
    assert.ok(took < HUNG, `the next host began after ${took} s, when the old one went on`);
    // The old one gives up what it holds, at the latest when it comes to itself.
    const gone = async () => {
      const left = await tabs[0].hosts();
      return left.every((host) => host && (host.id !== old.id || host.bytes === 0));
    };
    await until("the old worker to free the GPU", gone, HUNG + 10);
    // Who led goes on as a follower.
    for (const tab of tabs) assert.equal(text(await tab.ask(FRANCE.params)), FRANCE.answer);
    await settled(tabs[0], tabs.length);
  });
});

for (const rung of [...SHARING, "private"]) {
  describe(`${rung}: the engine's code traps`, () => {
    let visitor;
    let tabs;

    before(async () => {
      visitor = await session.visitor();
      tabs = await visitor.tabs(rung === "private" ? 1 : 2, { host: rung });
    });

    after(() => visitor?.close());

    for (const where of ["trap in a step", "trap"]) {
      test(where, async () => {
        noticed(await survive(tabs, () => tabs[0].command(where)));
        assert.equal((await tabs[0].hosts()).length, 1);
        await settled(tabs[0], tabs.length);
      });
    }
  });
}

test("an answer that is given up while there is no host stays given up", async () => {
  const visitor = await session.visitor();
  const [creator, tab] = await visitor.tabs(2, { host: "shared" });
  await tab.run("begin", (params) => {
    globalThis.controllers = [new AbortController(), new AbortController()];
    const [whole, stream] = controllers;
    globalThis.whole = failure(engine.chat.completions.create(params, whole));
    return begin("given up", params, stream);
  }, ENDLESS);
  await tab.begin("kept", STORY.params);
  await tab.pieces("given up", 8);
  await creator.crash();
  // The next host takes seconds to load; nobody answers meanwhile.
  const errors = await tab.run("abort", async () => {
    for (const controller of controllers) controller.abort();
    await streams["given up"].reading;
    return [await whole, streams["given up"].error];
  });
  for (const { name } of errors) assert.equal(name, "AbortError");
  assert.equal(text(await tab.answer("kept")), STORY.answer);
  await settled(tab, 1);
  await visitor.close();
});

test("an engine whose hosts die again and again says so", async () => {
  const visitor = await session.visitor();
  const [tab] = await visitor.tabs(1, { host: "private" });
  await tab.begin("answer", ENDLESS);
  const ended = tab.stream("answer").then(() => true);
  // Each host dies as soon as it is born.
  let over = false;
  for (let deaths = 0; deaths < 20 && !over; deaths++) {
    await tab.command("close");
    const [old] = await tab.hosts();
    const next = until("another host", async () => (await tab.hosts()).some((host) => host && host.id !== old?.id));
    over = await Promise.race([ended, next.then(() => false, () => false)]);
  }
  assert.ok(over, "the engine still tries");
  const { error } = await tab.stream("answer");
  assert.equal(error.code, "engine_crashed");
  await visitor.close();
});
