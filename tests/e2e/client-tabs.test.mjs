// Tabs that share a host, and what happens when they, or it, come and go.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  RUNGS,
  ask,
  begin,
  context,
  end,
  fates,
  hurry,
  movable,
  load,
  numbers,
  open,
  read,
  reported,
  see,
  server,
  stop,
  until,
  upTo,
} from "./client.mjs";

describe("tabs", () => {
  for (const host of ["shared", "leader"]) {
    test(`share the ${host} host, which learns that they are gone`, async () => {
      const pages = [await open({ host }), await open({ host }), await open({ host })];
      assert.equal(reported("boot").length, 1);
      const tabs = () => pages.at(-1).evaluate(async () => (await engine.metrics()).tabs);
      assert.equal(await tabs(), 3);
      await pages[1].evaluate(() => engine.close());
      await until("left", 1);
      // The first may be the leader, the last not.
      await pages[1].close();
      assert.equal(await tabs(), 2);
      const devtools = await context.newCDPSession(pages[0]);
      devtools.send("Page.crash").catch(() => {});
      while ((await tabs()) !== 1);
    });

    test(`go on when the ${host} host is lost with the tab that started it`, async () => {
      const pages = [await open({ host }), await open({ host }), await open({ host })];
      // Slow: the next host must have more to say than this one has said.
      fates.chat = Array.from({ length: 2 }, () => ({ count: 1000, pause: 50 }));
      await Promise.all(pages.slice(1).map((page) => begin(page)));
      const devtools = await context.newCDPSession(pages[0]);
      devtools.send("Page.crash").catch(() => {});
      fates.chat = [{ count: 300 }, { count: 300 }];
      const answers = await Promise.all(pages.slice(1).map(end));
      for (const chunks of answers) assert.deepEqual(numbers(chunks), upTo(300));
      assert.equal(reported("boot").length, 2);
    });
  }

  test("a stream survives any number of leaders that leave", async () => {
    const pages = [];
    for (let i = 0; i < 5; i++) pages.push(await open({ host: "leader" }));
    const last = pages.pop();
    fates.chat = Array.from({ length: pages.length }, () => ({ count: 100_000 }));
    await begin(last);
    for (const [i, page] of pages.entries()) {
      await until("chat", i + 1);
      const count = 500 + (await last.evaluate(() => read.length));
      if (i === pages.length - 1) fates.chat = [{ count }];
      await page.evaluate(() => engine.close());
    }
    const chunks = await end(last);
    assert.deepEqual(numbers(chunks), upTo(chunks.length - 2));
    assert.equal(reported("boot").length, 5);
  });

  test("another tab leads when the leader's engine is closed", async () => {
    const pages = [await open({ host: "leader" }), await open({ host: "leader" })];
    fates.chat = [{ count: 1000, pause: 50 }, { count: 100 }];
    await begin(pages[1]);
    await pages[0].evaluate(() => engine.close());
    assert.deepEqual(numbers(await end(pages[1])), upTo(100));
    assert.equal(reported("boot").length, 2);
    await load(pages[0], { host: "leader" });
    assert.equal(reported("boot").length, 2);
  });
});

test("a tab that leaves while it takes the lead leaves nothing behind", async () => {
  await context.addInitScript(() => {
    const { request } = LockManager.prototype;
    LockManager.prototype.request = async function (name, ...rest) {
      if (/ leader after /.test(name)) {
        globalThis.seizing = true;
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
      return request.call(this, name, ...rest);
    };
  });
  await hurry(10);
  const page = await open({ host: "leader" });
  fates.chat = [{ fate: "freeze" }];
  await page.evaluate(() => void failure(engine.chat.completions.create({ messages: [] })));
  await page.waitForFunction(() => globalThis.seizing);
  await page.evaluate(() => engine.close());
  await page.waitForTimeout(1500);
  // The browser gives a worker that does not listen two seconds to end.
  const held = () => page.evaluate(async () => (await navigator.locks.query()).held.length);
  while ((await held()) > 0) await page.waitForTimeout(100);
  assert.equal(reported("boot").length, 1);
});

for (const late of [false, true]) {
  test(`a SharedWorker that the browser moves has not died, ${late ? "even if it greets late" : "as it greets again"}`, async () => {
    await movable();
    const page = await open({ host: "shared" });
    const moves = 8;
    fates.chat = Array.from({ length: moves }, () => ({ fate: "stick" }));
    await page.evaluate(() => void (globalThis.asked = failure(engine.chat.completions.create({ messages: [] }))));
    const asked = page.evaluate(() => asked);
    for (let moved = 0; moved < moves; moved++) {
      await Promise.race([until("chat", moved + 1), asked]);
      await page.evaluate((late) => move(late), late);
    }
    assert.equal(await asked, "no failure");
    assert.equal(reported("boot").length, moves + 1);
  });
}

describe("a host that stands still", () => {
  test("is replaced where it is private", async () => {
    await hurry(10);
    const page = await open({ host: "private" });
    fates.chat = [{ fate: "freeze", at: 5, count: 10 }, { count: 10 }];
    assert.deepEqual(numbers(await read(page)), upTo(10));
    assert.equal(reported("boot").length, 2);
  });

  test("loses the office to a tab that is seen", async () => {
    await hurry(10);
    const pages = [];
    for (let i = 0; i < 3; i++) pages.push(await open({ host: "leader" }));
    for (const page of pages) await see(page, page === pages[1]);
    fates.chat = [{ fate: "freeze", at: 5, count: 10 }, { count: 1000 }];
    await begin(pages[0]);
    await until("chat", 1);
    // As often as they are asked again.
    fates.chat = Array.from({ length: 8 }, () => ({ count: 10 }));
    // The host no longer listens, but this call is asked again of the next.
    await begin(pages[2]);
    for (const page of [pages[0], pages[2]]) assert.deepEqual(numbers(await end(page)), upTo(10));
    assert.equal(reported("boot").length, 2);
    // Who leads now is the tab that is seen: without it there must be another.
    await pages[1].evaluate(() => engine.close());
    assert.equal(await ask(pages[0]), "no failure");
    assert.equal(reported("boot").length, 3);
  });
});

describe("a SharedWorker that was frozen while its page was hidden", () => {
  /** A hidden page whose worker gets no pings any more; `pings` counts them once it is shown. */
  async function frozen() {
    const page = await open({ host: "shared" });
    await see(page, false);
    await page.evaluate(() => {
      const { postMessage } = MessagePort.prototype;
      /** @type {MessagePort} */
      let port;
      globalThis.pings = 0;
      MessagePort.prototype.postMessage = function (message, ...rest) {
        if (message.type !== "ping" || this !== (port ??= this)) return postMessage.call(this, message, ...rest);
        if (document.visibilityState === "visible") globalThis.pings += 1;
      };
    });
    return page;
  }

  test("is asked at once when the page is shown", async () => {
    const page = await frozen();
    const pings = await page.evaluate(() => {
      Object.defineProperty(document, "visibilityState", { value: "visible", configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
      return globalThis.pings;
    });
    assert.equal(pings, 1);
  });

  test("is soon left for another", async () => {
    await hurry(20);
    const page = await frozen();
    await see(page, true);
    await until("boot", 2);
    assert.equal(await ask(page), "no failure");
    assert.equal(await page.evaluate(() => globalThis.pings), 10);
  });
});

test("a hidden page looks again for a SharedWorker that does not greet", async () => {
  await hurry(10);
  const page = await open({ host: "shared" });
  await see(page, false);
  await page.evaluate(() => {
    globalThis.silent = 0;
    globalThis.SharedWorker = new Proxy(SharedWorker, {
      construct: (SharedWorker, how) =>
        globalThis.silent++ === 0 ? { port: new MessageChannel().port1 } : Reflect.construct(SharedWorker, how),
    });
  });
  fates.chat = [{ fate: "trap", at: 2, count: 5 }, { count: 5 }];
  assert.deepEqual(numbers(await read(page)), upTo(5));
  assert.equal(await page.evaluate(() => globalThis.silent), 2);
});

test("a leader that is frozen loses the office to a page that is shown, without a heartbeat", async () => {
  await context.addInitScript(() => {
    globalThis.setInterval = /** @type {any} */ (() => 0);
  });
  const pages = [await open({ host: "leader" }), await open({ host: "leader" })];
  await see(pages[1], false);
  fates.chat = [{ fate: "freeze", at: 5, count: 10 }, { count: 10 }];
  await begin(pages[1]);
  await until("chat", 1);
  const resume = await stop(pages[0]);
  await see(pages[1], true);
  assert.deepEqual(numbers(await end(pages[1])), upTo(10));
  assert.equal(reported("boot").length, 2);
  resume();
});

/** Freezes a leader's page, and its worker. */
async function freeze(leader) {
  fates.chat = [{ fate: "freeze" }];
  await begin(leader);
  await until("chat", 1);
  return stop(leader);
}

test("a hidden page waits for a leader that is frozen until it is shown, and takes its place", async () => {
  await hurry(20);
  const [leader, page] = [await open({ host: "leader" }), await open(null)];
  await see(page, false);
  const resume = await freeze(leader);
  const loaded = load(page, { host: "leader" });
  // Hurried, three times as long as a page that is seen waits.
  const waited = await Promise.race([loaded, page.waitForTimeout(4500).then(() => "waiting")]);
  assert.equal(waited, "waiting");
  await see(page, true);
  await loaded;
  assert.equal(reported("boot").length, 2);
  resume();
});

test("a tab that is frozen as it takes the lead loses the office, too", async () => {
  await hurry(20);
  const [leader, next, page] = [await open({ host: "leader" }), await open(null), await open(null)];
  const resume = await freeze(leader);
  await next.evaluate(() => {
    const { request } = LockManager.prototype;
    LockManager.prototype.request = function (name, ...rest) {
      if (!/ leader since /.test(name)) return request.call(this, name, ...rest);
      globalThis.leads = true;
      // Nothing that it does from now on comes to anything.
      BroadcastChannel.prototype.postMessage = LockManager.prototype.request = () => new Promise(() => {});
      return new Promise(() => {});
    };
  });
  load(next, { host: "leader" }).catch(() => {});
  await next.waitForFunction(() => globalThis.leads);
  await load(page, { host: "leader" });
  assert.equal(await ask(page), "no failure");
  assert.equal(reported("boot").length, 2);
  resume();
});

test("a leader whose worker is busy keeps the office while its page answers", async () => {
  const pages = [await open({ host: "leader" }), await open({ host: "leader" })];
  await see(pages[1], false);
  await pages[0].evaluate(() => {
    const lobby = new BroadcastChannel("asked");
    const { postMessage } = BroadcastChannel.prototype;
    BroadcastChannel.prototype.postMessage = function (message) {
      if (message.type === "leads") postMessage.call(lobby, null);
      return postMessage.call(this, message);
    };
  });
  await pages[1].evaluate(() => {
    globalThis.answers = 0;
    // Three seconds for three questions: the machine is busy, too.
    const { setTimeout } = globalThis;
    Object.assign(globalThis, { setTimeout: (then, delay) => setTimeout(then, delay === 250 ? 1000 : delay) });
    new BroadcastChannel("asked").onmessage = () => (globalThis.answers += 1);
  });
  // As long as it lasts it does not answer pings either.
  await pages[0].workers()[0].evaluate(() => {
    setTimeout(() => {
      const end = performance.now() + 4000;
      while (performance.now() < end);
    });
  });
  await see(pages[1], true);
  await pages[1].waitForFunction(() => globalThis.answers >= 1);
  fates.chat = [{ count: 10 }];
  assert.deepEqual(numbers(await read(pages[1])), upTo(10));
  assert.equal(reported("boot").length, 1);
});

describe("a host that is stuck", () => {
  for (const fate of ["stick", "freeze"]) {
    test(`leaves its SharedWorker's place to another (${fate})`, async () => {
      await hurry(20);
      const page = await open({ host: "shared" });
      fates.chat = [{ fate, at: 5, count: 10 }, { count: 10 }];
      assert.deepEqual(numbers(await read(page)), upTo(10));
      assert.equal(reported("boot").length, 2);
      // Others need not find out.
      const other = await open({ host: "shared" });
      assert.equal(await other.evaluate(async () => (await engine.metrics()).tabs), 2);
      assert.equal(reported("boot").length, 2);
    });
  }

  test("is not found again by its last page when that is reloaded", async () => {
    await hurry(20);
    const page = await open({ host: "shared" });
    fates.chat = [{ fate: "stick", at: 5, count: 10 }, { count: 10 }];
    await page.evaluate(() => void failure(engine.chat.completions.create({ messages: [] })));
    await until("chat", 1);
    // Of the two minutes that it is given the half.
    await new Promise((resolve) => setTimeout(resolve, 3000));
    await page.reload();
    await page.waitForFunction(() => globalThis.Engine);
    await load(page, { host: "shared" });
    assert.deepEqual(numbers(await read(page)), upTo(10));
    assert.equal(reported("boot").length, 2);
    const { held } = await page.evaluate(() => navigator.locks.query());
    assert.ok(!held.some(({ name }) => name.endsWith(" left")), "nobody had to leave it");
  });

  test("is given up, too, by a visitor who changes tabs again and again", async () => {
    await hurry(20);
    const page = await open({ host: "shared" });
    fates.chat = [{ fate: "stick", at: 5, count: 10 }, { count: 10 }];
    await begin(page);
    const answer = end(page);
    let is = false;
    answer.finally(() => (is = true));
    for (let visible = false; !is; visible = !visible) {
      await see(page, visible);
      await page.waitForTimeout(1000);
    }
    assert.deepEqual(numbers(await answer), upTo(10));
  });

  for (const host of ["leader", "private"]) {
    test(`is replaced (${host})`, async () => {
      await hurry(20);
      const page = await open({ host });
      fates.chat = [{ fate: "stick", at: 5, count: 10 }, { count: 10 }];
      assert.deepEqual(numbers(await read(page)), upTo(10));
      assert.equal(reported("boot").length, 2);
    });
  }
});

for (const host of RUNGS) {
  test(`a call that stops every host fails alone (${host})`, async () => {
    // A SharedWorker is given eight times as long.
    await hurry(host === "shared" ? 100 : 20);
    const pages = [await open({ host }), await open({ host })];
    const culprit = ask(pages[0], { fate: { fate: "freeze" } });
    await until("chat", 1);
    const others = [ask(pages[0]), ask(pages[1])];
    const { typed, code } = await culprit;
    assert.deepEqual([typed, code], [true, "engine_crashed"]);
    assert.deepEqual(await Promise.all(others), ["no failure", "no failure"]);
    assert.equal(await ask(pages[0]), "no failure");
    const { held, pending } = await pages[0].evaluate(() => navigator.locks.query());
    assert.ok(![...held, ...pending].some(({ name }) => name === "tabloom suspect"));
  });
}

for (const host of RUNGS) {
  test(`a host that is only slow is not given up (${host})`, async () => {
    await hurry(10);
    const page = await open({ host });
    // As if the step took half a minute.
    fates.chat = [{ busy: 3000, count: 10 }];
    assert.deepEqual(numbers(await read(page)), upTo(10));
    // Steps of seven seconds, within which nothing is answered.
    fates.chat = [{ block: 700, count: 2 }];
    assert.deepEqual(numbers(await read(page)), upTo(2));
    assert.equal(reported("boot").length, 1);
  });
}

test("a leader's worker that comes back late ends itself", async () => {
  const page = await open(null);
  const alive = await page.evaluate(async () => {
    const lobby = new BroadcastChannel("a lobby");
    const hold = (epoch) => navigator.locks.request(`a leader since ${epoch}`, () => new Promise(() => {}));
    const lead = (epoch) => {
      hold(epoch);
      const worker = new Worker("tabloom/worker.js", { type: "module" });
      worker.postMessage({ type: "lead", lobby: lobby.name, since: "a leader since ", epoch });
      return new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data.host)));
    };
    const hosts = [await lead(5), await lead(6)];
    await navigator.locks.request(hosts[0], () => {});
    // Nor does it answer those who know of a later leader.
    hold(7);
    lobby.postMessage({ type: "join", channel: "a tab", epoch: 7 });
    await navigator.locks.request(hosts[1], () => {});
    hosts.push(await lead(8));
    lobby.postMessage({ type: "up", epoch: 7 });
    // One that has no lock is none.
    lobby.postMessage({ type: "up", epoch: 9 });
    const answer = new Promise((resolve) => {
      new BroadcastChannel("another tab").onmessage = ({ data }) => resolve(data);
    });
    lobby.postMessage({ type: "join", channel: "another tab", epoch: 8 });
    return (await answer).host === hosts[2];
  });
  assert.ok(alive);
});

test("a leader's worker that comes late leaves alone a page that has another", async () => {
  const page = await open(null);
  const answers = await page.evaluate(async () => {
    const { number } = await import(new URL("tabloom/json.js", location.href).href);
    const lobby = new BroadcastChannel("a lobby");
    const listener = new BroadcastChannel("a tab");
    const channel = new BroadcastChannel("a tab");
    number(channel, "asked", "said", () => heard.push({ type: "lost" }));
    const heard = [];
    let more = () => {};
    channel.onmessage = ({ data }) => {
      heard.push(data);
      more();
    };
    const hear = async (type) => {
      while (!heard.some((data) => data.type === type)) await new Promise((resolve) => (more = () => resolve(null)));
      return heard.splice(0);
    };
    const lead = async (epoch) => {
      const worker = new Worker("tabloom/worker.js", { type: "module" });
      worker.postMessage({ type: "lead", lobby: lobby.name, since: "a leader since ", epoch });
      await new Promise((resolve) => (worker.onmessage = resolve));
      lobby.postMessage({ type: "join", channel: channel.name, epoch: 0 });
      return new Promise((resolve) => {
        listener.onmessage = ({ data }) => data.type === "here" && data.epoch === epoch && resolve(data.host);
      });
    };
    channel.postMessage({ type: "join", host: await lead(5) });
    channel.postMessage({ type: "hello", id: 1, tab: null });
    await hear("value");
    await lead(4);
    heard.length = 0;
    channel.postMessage({ type: "ping", id: 2 });
    const answers = await hear("value");
    // What another might say comes within this time.
    await new Promise((resolve) => setTimeout(resolve, 200));
    return [...answers, ...heard].map(({ type, id }) => [type, id]);
  });
  assert.deepEqual(answers, [
    ["alive", 2],
    ["value", 2],
  ]);
});

describe("pages", () => {
  test("report whether they are seen", async () => {
    const page = await open();
    await see(page, false);
    await until("visible", 1);
    await see(page, true);
    await until("visible", 2);
    assert.deepEqual(
      reported("visible").map((message) => message.visible),
      [false, true],
    );
    await see(page, false);
    fates.chat = [{ fate: "close" }];
    await ask(page);
    assert.deepEqual(
      reported("hello").map((message) => message.visible),
      [true, false],
    );
  });

  test("report it while they are being introduced", async () => {
    const page = await open(null);
    fates.hello = [{ pause: 500 }];
    const loading = load(page, {});
    await until("hello", 1);
    await see(page, false);
    await loading;
    // Asked after the report, if there is one.
    await page.evaluate(() => engine.metrics());
    assert.deepEqual(
      reported("visible").map((message) => message.visible),
      [false],
    );
  });

  for (const host of RUNGS) {
    test(`leave and come back (${host})`, async () => {
      // Chromium keeps no page that was the last one of its SharedWorker.
      if (host === "shared") await open({ host });
      const page = await open({ host });
      fates.chat = [{ count: 100_000 }];
      await begin(page);
      await page.waitForFunction(() => read.length > 10);
      await page.goto(`${server.url}elsewhere.html`);
      if (host === "shared") await until("left", 1);
      fates.chat = [{ count: 600 }];
      // Whether a page from the cache "loads" is reported to nobody.
      await page.evaluate(() => void setTimeout(() => history.back()));
      await page.waitForFunction(() => !location.pathname.endsWith("elsewhere.html"));
      const [{ notRestoredReasons }] = await page.evaluate(() =>
        performance.getEntriesByType("navigation").map((entry) => entry.toJSON()),
      );
      assert.ok(await page.evaluate(() => "reading" in globalThis), JSON.stringify(notRestoredReasons));
      assert.deepEqual(numbers(await end(page)), upTo(600));
    });
  }
});
