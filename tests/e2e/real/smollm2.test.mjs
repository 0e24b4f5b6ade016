// SmolLM2-135M-Instruct as its makers published it, in a page: by its address and as a dropped file.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { after, before, beforeEach, test } from "node:test";
import { openPackage } from "../package.mjs";
import { sendPart } from "../server.mjs";

const FILE = "SmolLM2-135M-Instruct.Q4_1.gguf";
const PATH = fileURLToPath(new URL(`../../../target/real/models/${FILE}`, import.meta.url));
const weights = await readFile(PATH);
const [golden] = JSON.parse(await readFile(new URL("../../goldens/real/models.json", import.meta.url), "utf8"))[FILE];

let session;
let page;
let asked = 0;

before(async () => {
  const send = (response) => {
    asked++;
    sendPart(response, weights);
  };
  session = await openPackage({ "models/real/": { [FILE]: send } });
  page = session.page;
  await page.evaluate(() => {
    document.body.append(Object.assign(document.createElement("input"), { type: "file" }));
  });
});

beforeEach(() => {
  asked = 0;
});

after(() => session?.close());

/** What an engine of its own says, and of itself. */
const chat = (model, { messages }) =>
  page.evaluate(
    async ([model, messages]) => {
      const chosen = () => /** @type {HTMLInputElement} */ (document.querySelector("input")).files[0];
      const engine = await Engine.load(model ?? chosen(), { host: "private" });
      const { info } = engine;
      const text = await answer(engine, messages);
      engine.close();
      return { text, info, kept: await Engine.store.list() };
    },
    [model, messages],
  );

test("by its address, then from the store", async () => {
  const address = `models/real/${FILE}`;
  const { text, info } = await chat(address, golden);
  assert.equal(text, golden.answer);
  assert.equal(info.device, "gpu");
  assert.ok(asked > 0);
  asked = 0;
  const again = await chat(address, golden);
  assert.equal(again.text, golden.answer);
  assert.equal(asked, 0, "nothing is fetched again");
  assert.equal(again.info.stored, true);
  assert.deepEqual(
    again.kept.map(({ bytes, complete }) => ({ bytes, complete })),
    [{ bytes: weights.length, complete: true }],
  );
});

test("as a file", async () => {
  await page.locator("input").setInputFiles(PATH);
  const { text, info } = await chat(undefined, golden);
  assert.equal(text, golden.answer);
  assert.equal(info.device, "gpu");
  assert.equal(asked, 0);
});

test("a step on the processor keeps nobody waiting who asks whether the worker lives", async () => {
  const { alive, steps } = await page.evaluate(
    async ([url, content]) => {
      const { PROTOCOL, VERSION } = await import("./tabloom/version.js");
      const { port } = new SharedWorker("./tabloom/worker.js", { type: "module", name: "by hand" });
      /** The first message that this is true of. */
      const heard = (test) =>
        /** @type {Promise<any>} */ (
          new Promise((resolve) => {
            port.addEventListener("message", ({ data }) => test(data) && resolve(data));
          })
        );
      const call = (message) => {
        const over = heard(({ type, id }) => id === message.id && ["value", "end", "error"].includes(type));
        port.postMessage(message);
        return over;
      };
      const here = heard(({ type }) => type === "here");
      port.start();
      await here;
      const page = { tab: null, visible: true, isolation: "shared" };
      await call({ type: "hello", id: 1, version: VERSION, protocol: PROTOCOL, ...page });
      await call({ type: "load", id: 2, url, options: { device: "cpu" } });
      let isOver = false;
      const request = { messages: [{ role: "user", content }], max_tokens: 1 };
      const answer = call({ type: "chat", id: 3, request, moment: { now: 1, entropy: 1 } }).finally(
        () => (isOver = true),
      );
      let alive = 0;
      for (let id = 1000; !isOver; id++) {
        const ping = heard((data) => data.id === id && data.type === "alive");
        port.postMessage({ type: "ping", id });
        await Promise.race([ping, answer]);
        alive++;
      }
      if ((await answer).type === "error") throw new Error(JSON.stringify(await answer));
      const { value } = await call({ type: "metrics", id: 4 });
      port.postMessage({ type: "bye" });
      return { alive, steps: value.steps };
    },
    [new URL(`models/real/${FILE}`, page.url()).href, "How many stars are there? ".repeat(5)],
  );
  // Within one step the worker would not have heard a second ping.
  assert.ok(alive > 3 * steps, `${alive} pings were answered in ${steps} steps`);
});
