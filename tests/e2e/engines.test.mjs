// What the package makes up for in browsers that lack something, Safari above all.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { FileStore } from "../../pkg-template/models/opfs.js";
import { openPackage } from "./package.mjs";

let session;
let page;

before(async () => {
  session = await openPackage();
  page = session.page;
  await page.evaluate(async () => {
    delete ReadableStream.prototype[Symbol.asyncIterator];
    globalThis.engine = await Engine.load("model/", { device: "cpu" });
    globalThis.FRANCE = "What is the capital of France?";
  });
});

after(() => session?.close());

test("streams of sessions are read by `for await`, and cancelled by leaving it", async () => {
  const { whole, pieces, left, again } = await page.evaluate(async () => {
    const create = () => engine.languageModel().create({ temperature: 0 });
    const whole = await (await create()).prompt(FRANCE);
    const pieces = [];
    for await (const piece of (await create()).promptStreaming(FRANCE)) pieces.push(piece);
    const stream = (await create()).promptStreaming(FRANCE);
    const left = [];
    for await (const piece of stream) {
      left.push(piece);
      break;
    }
    const { done } = await stream.getReader().read();
    const controller = new AbortController();
    const aborted = (await create()).promptStreaming(FRANCE, { signal: controller.signal });
    controller.abort(new Error("too late"));
    const read = async () => {
      for await (const piece of aborted) left.push(piece);
    };
    return { whole, pieces, left, again: [done, await read().catch(({ message }) => message)] };
  });
  assert.ok(pieces.length > 1, `${pieces.length} pieces`);
  assert.equal(pieces.join(""), whole);
  assert.deepEqual(left, pieces.slice(0, 1));
  assert.deepEqual(again, [true, "too late"]);
});

test("so is the body of a streamed response", async () => {
  const text = await page.evaluate(async () => {
    const messages = [{ role: "user", content: FRANCE }];
    const body = JSON.stringify({ messages, temperature: 0, stream: true });
    const response = await engine.fetch("/v1/chat/completions", { method: "POST", body });
    const decoder = new TextDecoder();
    let text = "";
    for await (const bytes of response.body) text += decoder.decode(bytes, { stream: true });
    return text;
  });
  assert.match(text, /^data: \{.*data: \[DONE\]\n\n$/s);
});

test("a field grows with its text, and keeps a height while it is hidden", async () => {
  const heights = await page.evaluate(async () => {
    const { grow } = await import(new URL("tabloom/element/parts.js", location.href).href);
    CSS.supports = () => false;
    const field = document.body.appendChild(document.createElement("textarea"));
    const height = (text, hidden = false) => {
      field.value = text;
      field.parentElement.hidden = hidden;
      grow(field);
      field.parentElement.hidden = false;
      return field.clientHeight;
    };
    return ["a", "a\nb\nc\nd", "a"].map((text) => height(text)).concat(height("a", true), height("a"));
  });
  const [one, four, again, hidden] = heights;
  assert.ok(four > 1.5 * one, `${heights}`);
  assert.deepEqual([again, heights[4]], [one, one]);
  assert.ok(hidden > one / 2, `${heights}`);
});

const BYTES = Uint8Array.from({ length: 5 * 2 ** 20 }, (_, i) => i % 251);

/** A store with one file, whose bytes are read by `read`, and whether the file is open. */
function store(read) {
  const state = { open: false };
  const file = {
    createSyncAccessHandle: async () => {
      state.open = true;
      return { read, close: () => (state.open = false) };
    },
  };
  const root = /** @type {any} */ ({ getFileHandle: async () => file });
  return { files: new FileStore(root, async () => undefined), state };
}

/** @type {(into: Uint8Array, options: {at: number}) => number} */
const readBytes = (into, { at }) => {
  const part = BYTES.subarray(at, at + into.length);
  into.set(part);
  return part.length;
};

/** Runs with streams of bytes as they are, and without them. */
async function eitherWay(run) {
  await run();
  const { ReadableStream } = globalThis;
  const construct = (Streams, [source, strategy]) => {
    if (source.type === "bytes") throw new TypeError("ReadableByteStreamController is not implemented");
    return new Streams(source, strategy);
  };
  globalThis.ReadableStream = new Proxy(ReadableStream, { construct });
  try {
    await run();
  } finally {
    globalThis.ReadableStream = ReadableStream;
  }
}

test("a stored file is read with streams of bytes and without, and closed at its end", () =>
  eitherWay(async () => {
    const { files, state } = store(readBytes);
    const read = Buffer.from(await new Response(await files.get("key")).arrayBuffer());
    assert.ok(read.equals(BYTES));
    assert.equal(state.open, false);
  }));

test("a stored file is closed where its reader leaves, and where it cannot be read", () =>
  eitherWay(async () => {
    const left = store(readBytes);
    const reader = (await left.files.get("key")).getReader();
    await reader.read();
    assert.equal(left.state.open, true);
    await reader.cancel();
    assert.equal(left.state.open, false);

    const broken = store(() => {
      throw new Error("the disk is gone");
    });
    await assert.rejects(new Response(await broken.files.get("key")).arrayBuffer(), /the disk is gone/);
    assert.equal(broken.state.open, false);
  }));
