// Pages that a worker has greeted, and that go before they say anything.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open, until } from "./tabs.mjs";

/** Has a worker tell what becomes of its ports, and ends its longest waits on command. */
const watch = `
  const tests = new BroadcastChannel("tests");
  const collected = new FinalizationRegistry((name) => tests.postMessage({ collected: name }));
  addEventListener("message", ({ data, ports }) => data.name && collected.register(ports[0], data.name));
  const { close } = BroadcastChannel.prototype;
  BroadcastChannel.prototype.close = function () {
    tests.postMessage({ closed: this.name });
    close.call(this);
  };
  const later = globalThis.setTimeout;
  const due = new Map();
  globalThis.setTimeout = (call, time, ...more) => {
    const timer = later(call, time, ...more);
    if (time >= 60_000) due.set(timer, call);
    return timer;
  };
  const { clearTimeout: clear } = globalThis;
  globalThis.clearTimeout = (timer) => {
    due.delete(timer);
    clear(timer);
  };
  tests.onmessage = ({ data }) => {
    if (data === "due") {
      for (const [timer, call] of due) {
        clearTimeout(timer);
        call();
      }
    }
    if (data === "collect") later(gc, 0);
  };
`;
const script = `
  import "./watch.js";
  import "./tabloom/worker.js";
`;

/** Has the other end of a port, and says when it is greeted. */
const holder = `
  onmessage = ({ ports: [port] }) => {
    port.onmessage = ({ data }) => postMessage(data.type);
  };
`;

let session;
let tab;

before(async () => {
  session = await open({ "": { "watch.js": watch, "watched.js": script, "holder.js": holder } });
  const visitor = await session.visitor();
  tab = await visitor.tab();
  await tab.run("a worker", () => {
    globalThis.heard = [];
    globalThis.watching = new BroadcastChannel("tests");
    watching.onmessage = ({ data }) => heard.push(data);
    globalThis.host = new Worker(worker("watched.js"), { type: "module" });
    host.postMessage({ type: "lead", lobby: "a lobby", epoch: 1 });
    return new Promise((led) => {
      host.onmessage = led;
    }).then(() => {});
  });
});

after(() => session?.close());

test("a channel through which nobody speaks is closed, one that was spoken through stays", async () => {
  const names = await tab.run("two channels", async () => {
    const lobby = new BroadcastChannel("a lobby");
    const join = async (name) => {
      const channel = new BroadcastChannel(name);
      const greeting = new Promise((resolve) => {
        channel.onmessage = ({ data }) => resolve(data);
      });
      lobby.postMessage({ type: "join", channel: name, epoch: 1 });
      const { type, host } = await greeting;
      if (type !== "here") throw new Error("no greeting");
      return { channel, host };
    };
    await join("silent");
    const { channel: spoken, host } = await join("spoken");
    spoken.postMessage({ type: "join", host, asked: 1 });
    const alive = new Promise((resolve) => {
      spoken.onmessage = ({ data }) => data.type === "alive" && resolve(data);
    });
    spoken.postMessage({ type: "ping", id: 1, asked: 2 });
    await alive;
    watching.postMessage("due");
    return ["silent"];
  });
  await until("the channel's end", () => tab.page.evaluate(() => heard.some(({ closed }) => closed)));
  const closed = await tab.run("closed channels", () => heard.flatMap(({ closed }) => closed ?? []));
  assert.deepEqual(closed, names);
});

test("the port of a page that went before it spoke is collected", async () => {
  await tab.run("a page's port", async () => {
    const { port1, port2 } = new MessageChannel();
    const page = new Worker(worker("holder.js"));
    page.postMessage("hold", [port1]);
    host.postMessage({ type: "connect", name: "gone" }, [port2]);
    await new Promise((greeted) => {
      page.onmessage = greeted;
    });
    page.terminate();
    watching.postMessage("due");
  });
  await until("the port to be collected", () =>
    tab.page.evaluate(() => {
      watching.postMessage("collect");
      return heard.some(({ collected }) => collected === "gone");
    }),
  );
});
