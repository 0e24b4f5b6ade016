// The host dies in the middle of answers: its tabs notice, get another, and every answer goes on
// where it was, with no piece missing or twice.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { hurried } from "../browser.mjs";
import { notice, settled, survive, undisturbed } from "./survival.mjs";
import { ENDLESS, FRANCE, open, STORY, text, until } from "./tabs.mjs";

/** Seconds for which a hung worker does not return to its event loop; pages there wait a third as long as others. */
const HUNG = 10;

let session;
let expected;

before(async () => {
  session = await open();
  expected = await undisturbed(session);
});

after(() => session?.close());

/** The model's files that were asked for since the last time, by whomever. */
const downloads = () => session.server.requests.splice(0).filter((path) => path.startsWith("model/"));

describe("shared:", () => {
  let visitor;
  let creator;
  let others;

  before(async () => {
    visitor = await session.visitor();
    [creator, ...others] = await visitor.tabs(3, { host: "shared" });
    assert.ok(downloads().length > 0);
  });

  after(() => visitor?.close());

  test("the tab that started the host crashes", async () => {
    await notice(others, () => creator.crash(), expected);
    for (const tab of others) assert.equal(await tab.rung(), "shared");
    await settled(others[0], 2);
  });

  test("the worker ends", async () => {
    await notice(others, () => others[0].command("close"), expected);
    await settled(others[0], 2);
  });

  test("each next host has the model from the local store", () => assert.deepEqual(downloads(), []));
});

describe("leader:", () => {
  let visitor;
  let tabs;

  before(async () => {
    visitor = await session.visitor();
    await hurried(visitor.context, 3);
    tabs = await visitor.tabs(5, { host: "leader" });
    assert.ok(downloads().length > 0);
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
      tabs = others;
      await notice(others, () => leave(left), expected);
      for (const tab of others) assert.equal(await tab.rung(), "leader");
      await settled(others[0], others.length);
    });
  }

  test("the leader's worker ends", async () => {
    const [worker] = leader().page.workers();
    // The leader is one of those who go on.
    await notice(tabs, () => worker.evaluate(() => close()).catch(() => {}), expected);
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
    const { killed, hosts } = await survive(followers(), hangs, expected);
    assert.equal(hosts.length, 1, "new hosts");
    const took = (hosts[0].born - killed) / 1000;
    assert.ok(took < HUNG, `the next host began after ${took} s, when the old one went on`);
    // The old one ends, at the latest when it comes to itself.
    const gone = async () => {
      const left = await tabs[0].hosts();
      return left.every((host) => host && host.id !== old.id);
    };
    await until("the old worker to end", gone, HUNG + 10);
    // Who led goes on as a follower.
    for (const tab of tabs) assert.equal(text(await tab.ask(FRANCE.params)), FRANCE.answer);
    await settled(tabs[0], tabs.length);
  });

  test("each next host has the model from the local store", () => assert.deepEqual(downloads(), []));
});

test("an answer that is given up while there is no host stays given up", async () => {
  const visitor = await session.visitor();
  const [creator, tab] = await visitor.tabs(2, { host: "shared" });
  await tab.run(
    "begin",
    (params) => {
      globalThis.controllers = [new AbortController(), new AbortController()];
      const [whole, stream] = controllers;
      globalThis.whole = failure(engine.chat.completions.create(params, whole));
      return begin("given up", params, stream);
    },
    ENDLESS,
  );
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
