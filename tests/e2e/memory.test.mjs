// What phones do: they have little memory, lose their devices for want of it, and end pages that take too much.
import assert from "node:assert/strict";
import { test } from "node:test";
import { context, fates, load, open, read, reported, until } from "./client.mjs";

const GIB = 2 ** 30;

const NAMES = {
  iphone:
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 Version/26.0 Mobile/15E148 Safari/604.1",
  mac: "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15",
  android:
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Mobile Safari/537.36",
  linux: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36",
};

/** Has pages believe that they are on another device. */
const pretend = (device) =>
  context.addInitScript((device) => {
    for (const [name, value] of Object.entries(device)) {
      Object.defineProperty(Navigator.prototype, name, { configurable: true, get: () => value ?? undefined });
    }
  }, device);

/** @type {[what: string, device: object, budget: number, reason: string][]} */
const DEVICES = [
  ["an iPhone", { userAgent: NAMES.iphone, maxTouchPoints: 5, deviceMemory: null }, GIB, "ios"],
  ["an iPad, which says that it is a Mac", { userAgent: NAMES.mac, maxTouchPoints: 5 }, GIB, "ios"],
  ["a Mac", { userAgent: NAMES.mac, maxTouchPoints: 0, deviceMemory: null }, 4 * GIB, "desktop"],
  ["a phone with 2 GiB", { userAgent: NAMES.android, maxTouchPoints: 5, deviceMemory: 2 }, GIB / 2, "android"],
  ["a phone with 8 GiB", { userAgent: NAMES.android, maxTouchPoints: 5, deviceMemory: 8 }, 2 * GIB, "android"],
  ["a phone that does not say", { userAgent: NAMES.android, deviceMemory: null }, GIB, "android"],
  ["a computer with 2 GiB", { userAgent: NAMES.linux, maxTouchPoints: 0, deviceMemory: 2 }, GIB, "desktop"],
  ["a computer with 32 GiB", { userAgent: NAMES.linux, maxTouchPoints: 0, deviceMemory: 32 }, 4 * GIB, "desktop"],
];

for (const [what, device, budgetBytes, budgetReason] of DEVICES) {
  test(`the budget of ${what}`, async () => {
    await pretend(device);
    const page = await open();
    assert.equal(reported("load")[0].options.budgetBytes, budgetBytes);
    const found = await page.evaluate(async () => {
      const models = [0.4, 0.9, 3].map((gib) => ({ id: `${gib}`, bytes: gib * 2 ** 30 }));
      const { memory, models: probed } = await Engine.probe({ models, kvBytes: 0 });
      const { budgetBytes, budgetReason } = engine.info;
      return { info: { budgetBytes, budgetReason }, memory, refused: probed.map(({ fits }) => fits === "no") };
    });
    assert.deepEqual(found.info, { budgetBytes, budgetReason });
    const { deviceBytes, ...memory } = found.memory;
    assert.deepEqual(memory, { budgetBytes, budgetReason });
    const beyond = [0.4, 0.9, 3].map(
      (gib) => gib * GIB > Math.min(budgetBytes, deviceBytes ?? Number.POSITIVE_INFINITY),
    );
    assert.deepEqual(found.refused, beyond);
  });
}

test("the page's own budget counts on every device", async () => {
  await pretend({ userAgent: NAMES.iphone });
  const page = await open({ budgetBytes: 3 * GIB });
  assert.equal(reported("load")[0].options.budgetBytes, 3 * GIB);
  const { budgetBytes, budgetReason } = await page.evaluate(() => engine.info);
  assert.deepEqual([budgetBytes, budgetReason], [3 * GIB, "option"]);
});

/** A stream over a model whose device is lost in these steps. */
async function lose(...at) {
  fates.chat = [...at.map((at) => ({ fate: "device_lost", at, count: 20 })), { count: 20 }];
  await read(await open());
  return reported("load").map(({ sparing }) => sparing);
}

test("a phone's model does with less memory once its device was lost, a computer's at the second loss", async () => {
  assert.deepEqual(await lose(3, 7), [false, false, true]);
});

test("a phone's model does with less memory once its device was lost", async () => {
  await pretend({ userAgent: NAMES.iphone });
  assert.deepEqual(await lose(3), [false, true]);
});

test("a worker that dies otherwise takes no memory from the model", async () => {
  await pretend({ userAgent: NAMES.iphone });
  fates.chat = [{ fate: "trap", at: 3, count: 9 }, { count: 9 }];
  await read(await open());
  assert.deepEqual(
    reported("load").map(({ sparing }) => sparing),
    [false, false],
  );
});

test("a device that is lost again ends the load with what the host says", async () => {
  await pretend({ userAgent: NAMES.iphone });
  const page = await open(null);
  fates.load = [{ fate: "device_lost" }, { fate: "device_lost_again" }];
  const { typed, code } = await page.evaluate(() => failure(Engine.load("model/")));
  assert.deepEqual([typed, code], [true, "device_lost_again"]);
  const sparing = reported("load").map((load) => load.sparing);
  assert.deepEqual(sparing, [false, true]);
});

/** A page in a load that does not end. */
async function loading() {
  fates.load = [{ fate: "stick" }];
  const page = await open(null);
  await page.evaluate(() => void Engine.load("model/", { host: "private" }));
  await until("load", 1);
  return page;
}

/** Has pages die: nothing is heard of it. */
const deaf = (target) =>
  target.addInitScript(() => addEventListener("pagehide", (event) => event.stopImmediatePropagation(), true));

/** Adds a chat that loads at once. */
async function chat(page) {
  await page.evaluate(async () => {
    await import(new URL("tabloom/element.js", location.href).href);
    document.body.innerHTML = `<tabloom-chat autoload model="model/"></tabloom-chat>`;
  });
}

const again = async (page) => {
  await page.reload();
  await page.waitForFunction(() => globalThis.Engine);
  return page.evaluate(() => Engine.interrupted);
};

test("a page that died in a load does not load again by itself", async () => {
  await deaf(context);
  const page = await loading();
  assert.equal(await again(page), true);
  await chat(page);
  const problem = page.locator("[part=error]");
  await problem.waitFor();
  assert.match(
    await problem.innerText(),
    /The page ended while the model was loading, .* Close other tabs, and try again\./,
  );
  assert.equal(await page.evaluate(() => document.querySelector("tabloom-chat").state), "error");
  assert.equal(reported("load").length, 1);
  // It died once more, while the visitor was asked.
  assert.equal(await again(page), true);
  await chat(page);
  await page.locator("[part~=retry]").click();
  await page.waitForFunction(() => document.querySelector("tabloom-chat").state === "ready");
  assert.equal(await page.evaluate(() => Engine.interrupted), false);
  assert.equal(await again(page), false);
  await chat(page);
  await page.waitForFunction(() => document.querySelector("tabloom-chat").state === "ready");
});

test("a page that is left in a load, or whose load fails, has not died of it", async () => {
  const page = await loading();
  assert.equal(await again(page), false);
  await deaf(page);
  await page.reload();
  await page.waitForFunction(() => globalThis.Engine);
  fates.load = [{ fate: "no_gpu" }];
  await page.evaluate(() => failure(Engine.load("model/")));
  assert.equal(await again(page), false);
});

test("a page that dies while its model is loaded again, after its device was lost, does not load by itself", async () => {
  await deaf(context);
  fates.chat = [{ fate: "device_lost", at: 3, count: 20 }];
  fates.load = [{}, { fate: "stick" }];
  const page = await open({ host: "private" });
  await page.evaluate(() => void failure(engine.chat.completions.create({ messages: [] })));
  await until("load", 2);
  assert.equal(await again(page), true);
});

test("a page that is left after a load, or while its model is loaded again, has not died of it", async () => {
  const page = await open({ host: "private" });
  assert.equal(await again(page), false);
  fates.chat = [{ fate: "device_lost", at: 3, count: 20 }];
  fates.load = [{}, { fate: "stick" }];
  await load(page, { host: "private" });
  await page.evaluate(() => void failure(engine.chat.completions.create({ messages: [] })));
  await until("load", 3);
  assert.equal(await again(page), false);
});

test("the frames of a page that loads, and pages that it opens, have not died", async () => {
  const page = await loading();
  const interrupted = (page) =>
    page.waitForFunction(() => globalThis.Engine).then(() => page.evaluate(() => Engine.interrupted));
  const [opened] = await Promise.all([
    context.waitForEvent("page"),
    page.evaluate(() => void globalThis.open(location.href)),
  ]);
  await page.evaluate(() => {
    const frame = document.createElement("iframe");
    frame.src = location.href;
    document.body.append(frame);
  });
  await page.waitForFunction(() => /** @type {any} */ (frames[0])?.Engine);
  const [, frame] = page.frames();
  assert.deepEqual(await Promise.all([opened, frame].map(interrupted)), [false, false]);
});

test("two loads of a page are marked until both have ended", async () => {
  await deaf(context);
  const page = await loading();
  await page.evaluate(async () => (await Engine.load("model/", { host: "private" })).close());
  assert.equal(await again(page), true);
});

test("a page without session storage loads", async () => {
  await context.addInitScript(() =>
    Object.defineProperty(globalThis, "sessionStorage", {
      get() {
        throw new DOMException("denied", "SecurityError");
      },
    }),
  );
  const page = await open();
  assert.equal(await page.evaluate(() => Engine.interrupted), false);
});
