// Long conversations whose keys and values are stored: after a reload they are read and not computed.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { open, STORY, text, until } from "./tabs.mjs";

/** A conversation of some three hundred tokens. */
const LONG = {
  messages: [{ role: "user", content: `${STORY.answer.repeat(4)} What did the fox learn?` }],
  temperature: 0,
  max_tokens: 8,
};

const STORES = { prefixCache: { storedBytes: 64 * 2 ** 20 } };

/** What a new visit is answered, when the answer began, and how many tokens were read for it. */
async function visit(visitor, options, command = null) {
  const tab = await visitor.tab();
  await tab.load(options);
  if (command) await tab.command(command);
  const read = await tab.run(
    "an answer",
    async (params) => {
      const began = performance.now();
      let [answer, first] = ["", 0];
      for await (const { choices } of await engine.chat.completions.create(params)) {
        const piece = choices[0]?.delta.content ?? "";
        if (piece) first ||= Math.round(performance.now() - began);
        answer += piece;
      }
      return { answer, first };
    },
    { ...LONG, stream: true },
  );
  const { stored_tokens: stored, prefix_cache_hits: found } = await tab.metrics();
  return { tab, ...read, stored, found };
}

/** Ends a visit, and the worker that may outlive it. */
async function leave({ tab }, visitor) {
  await tab.close();
  const other = await visitor.tab();
  await other.command("close");
  await until("the worker's end", async () => (await other.hosts()).length === 0);
  await other.close();
}

/** The model in the tab's store. */
const kept = (tab) => tab.run("store", async () => (await Engine.store.list())[0]);

/** Waits until what was said is stored; returns its bytes. */
async function stored(tab) {
  let before = -1;
  return until("the conversation to be stored", async () => {
    const { prefixBytes } = await kept(tab);
    const is = prefixBytes > 0 && prefixBytes === before && prefixBytes;
    before = prefixBytes;
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return is;
  });
}

for (const [device, host] of /** @type {const} */ ([
  ["cpu", "shared"],
  ["cpu", "private"],
  ["gpu", "shared"],
])) {
  describe(`${device}, ${host}:`, () => {
    test("a conversation finds what is stored of it in the next visit", async () => {
      const session = await open({}, { device });
      try {
        const visitor = await session.visitor();
        const options = { host, ...STORES };
        const first = await visit(visitor, options);
        assert.deepEqual([first.stored, first.found], [0, 0]);
        const bytes = await stored(first.tab);
        await leave(first, visitor);

        const plain = await visit(visitor, { host });
        assert.deepEqual([plain.answer, plain.stored, plain.found], [first.answer, 0, 0], "not asked for");
        await leave(plain, visitor);

        const again = await visit(visitor, options);
        console.log(
          `${device}, ${host}, first token: ${first.first} ms, ${plain.first} ms and from storage ${again.first} ms`,
        );
        assert.equal(again.answer, first.answer);
        assert.ok(again.stored > 250 && again.found > 250, `${again.stored} tokens read, ${again.found} found`);
        assert.equal(await stored(again.tab), bytes, "it is stored once");
        await leave(again, visitor);

        if (host === "shared") {
          const slow = await visit(visitor, options, "hang files");
          assert.deepEqual([slow.answer, slow.stored], [first.answer, 0], "no wait for what never comes");
          await leave(slow, visitor);
        }

        // Another device or other options compute other numbers.
        const other = await visit(visitor, { ...options, kv: "int8" });
        assert.equal(other.stored, 0);
        await leave(other, visitor);
        await visitor.close();
      } finally {
        await session.close();
      }
    });
  });
}

test("what is damaged is computed, and what is deleted is gone", async () => {
  const session = await open();
  try {
    const visitor = await session.visitor();
    const options = { host: "private", ...STORES };
    const first = await visit(visitor, options);
    await stored(first.tab);
    await leave(first, visitor);

    const spoiler = await visitor.tab();
    const count = await spoiler.run("damage", async () => {
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("tabloom");
      let count = 0;
      for await (const name of folder.keys()) {
        if (!decodeURIComponent(name).includes("?tabloom-kv=")) continue;
        const handle = await folder.getFileHandle(name);
        const file = new Uint8Array(await (await handle.getFile()).arrayBuffer());
        file[file.length >> 1] ^= 1;
        const writable = await handle.createWritable();
        await writable.write(count % 2 ? file : file.subarray(0, 99));
        await writable.close();
        count += 1;
      }
      return count;
    });
    assert.ok(count > 0);
    await spoiler.close();
    const damaged = await visit(visitor, options);
    assert.deepEqual([damaged.answer, damaged.stored], [first.answer, 0]);
    await stored(damaged.tab);
    await damaged.tab.run("deletion", () => Engine.store.deletePrefixes());
    assert.equal((await kept(damaged.tab)).prefixBytes, 0);
    await leave(damaged, visitor);
    const deleted = await visit(visitor, options);
    assert.deepEqual([deleted.answer, deleted.stored], [first.answer, 0]);
    await stored(deleted.tab);

    const { model } = await kept(deleted.tab);
    assert.equal(await deleted.tab.run("deletion", (model) => Engine.store.delete(model), model), true);
    assert.equal(await kept(deleted.tab), undefined);
    const files = await deleted.tab.run("files", async () => {
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("tabloom");
      const names = [];
      for await (const name of folder.keys()) names.push(name);
      return names;
    });
    assert.deepEqual(files, []);
    await visitor.close();
  } finally {
    await session.close();
  }
});

test("tabs that share nothing store nothing", async () => {
  const session = await open();
  try {
    for (const isolation of ["tab", { session: "mine" }]) {
      const visitor = await session.visitor();
      const { tab } = await visit(visitor, { host: "private", isolation, ...STORES });
      await new Promise((resolve) => setTimeout(resolve, 1000));
      assert.equal((await kept(tab)).prefixBytes, 0, JSON.stringify(isolation));
      await visitor.close();
    }
  } finally {
    await session.close();
  }
});

/** A worker to which the browser denies files. */
const DENIED = {
  "deny.js": `StorageManager.prototype.getDirectory = async () => { throw new DOMException("denied", "SecurityError"); };`,
  "denied.js": `import "./deny.js"; import "./observed.js";`,
};

test("storage that is denied, full or silent changes nothing", async () => {
  const session = await open({ "": DENIED });
  try {
    const answers = [];
    for (const [workerFile, command] of [["denied.js"], ["observed.js", "full"], ["observed.js", "hang writes"]]) {
      const visitor = await session.visitor();
      const { tab, answer } = await visit(visitor, { host: "private", workerFile, ...STORES }, command);
      await new Promise((resolve) => setTimeout(resolve, 2000));
      const again = await tab.ask({ ...LONG, stream: false });
      answers.push(answer, text(again));
      assert.equal((await kept(tab)).prefixBytes, 0, `${workerFile} ${command}`);
      await visitor.close();
    }
    assert.equal(new Set(answers).size, 1, answers.join("\n"));
  } finally {
    await session.close();
  }
});

test("storage without room changes nothing", async () => {
  const session = await open();
  try {
    const visitor = await session.visitor();
    const first = await visit(visitor, { host: "private", prefixCache: { storedBytes: 1 } });
    await first.tab.ask({ ...LONG, stream: false });
    assert.equal((await kept(first.tab)).prefixBytes, 0);
    for (const storedBytes of [-1, "1", 1.5]) {
      const refused = await (await visitor.tab()).refused({ host: "private", prefixCache: { storedBytes } });
      assert.deepEqual([refused.code, refused.typed], ["invalid_request", true], `${storedBytes}`);
    }
    await visitor.close();
  } finally {
    await session.close();
  }
});
