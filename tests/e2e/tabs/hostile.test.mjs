// A page that says what no page should gets an error or nothing; nobody else notices.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { FRANCE, open, SHARING, STORY, text, until } from "./tabs.mjs";

const SEED = Number(process.env.TABLOOM_SEED ?? Math.floor(Math.random() * 2 ** 31));

const MESSAGES = 1000;

const GREEDY = { ...STORY.params, logprobs: true };
const SEEDED = { ...STORY.params, temperature: 1, seed: 3, max_tokens: 100 };

let session;

before(async () => (session = await open()));

after(() => session?.close());

for (const rung of SHARING) {
  describe(`${rung}:`, () => {
    let visitor;
    let witness;
    let hostile;
    /** The witness's answers while all is quiet. */
    let expected;
    /** What escaped the pages' handlers. */
    const problems = [];

    before(async () => {
      visitor = await session.visitor();
      // Without a heartbeat silence says nothing: locks and messages must.
      await visitor.context.addInitScript(() => {
        globalThis.setInterval = /** @type {any} */ (() => 0);
      });
      [witness, hostile] = await visitor.tabs(2, { host: rung });
      for (const tab of [witness, hostile]) {
        tab.page.on("pageerror", (error) => problems.push(`${tab.name}: ${error}`));
      }
      expected = [await witness.ask(GREEDY), await witness.ask(SEEDED)];
      assert.equal(text(expected[0]), STORY.answer);
    });

    after(() => visitor?.close());

    /** Has the witness stream while something is done to it; its answers must not change. */
    async function undisturbed(what, body, argument) {
      const [host] = await witness.hosts();
      await witness.begin("greedy", GREEDY);
      await witness.begin("seeded", SEEDED);
      await witness.pieces("greedy", 1);
      const result = await hostile.run(what, body, argument);
      assert.deepEqual([await witness.answer("greedy"), await witness.answer("seeded")], expected);
      const hosts = await witness.hosts();
      assert.deepEqual(
        hosts.map(({ id }) => id),
        [host.id],
        "the host is another",
      );
      await witness.idle();
      assert.deepEqual(problems, []);
      return result;
    }

    test("calls before hello, a second hello, and calls after bye", async () => {
      const answers = await undisturbed(
        "order",
        async ([rung, params]) => {
          const { call, connect, hello } = await import("./hostile.js");
          const line = await connect(rung, worker("observed.js"));
          const first = [
            { type: "metrics", id: 1 },
            { type: "cancel", id: 2 },
            { type: "load", id: 3, url: "nowhere/", options: {} },
            { type: "chat", id: 4, request: params, moment: { now: 1, entropy: 1 } },
            { type: "embed", id: 5, request: { input: "a" } },
            { ...hello(6), version: "0.0.0" },
            { ...hello(7), protocol: 9 },
            hello(8),
            hello(9),
            { ...hello(10), version: "0.0.0" },
            { type: "chat", id: 11, request: params, moment: { now: 1, entropy: 1 } },
            { type: "ping", id: 12 },
          ];
          const ends = [];
          for (const message of first) ends.push((await call(line, message)).at(-1));
          // No answers come to calls on a port that was left.
          line.port.postMessage({ type: "bye" });
          const before = line.answers.length;
          line.port.postMessage({ type: "ping", id: 13 });
          await engine.metrics();
          return { ends, late: line.answers.length - before };
        },
        [rung, STORY.params],
      );
      const codes = answers.ends.map(({ type, error }) => error?.code ?? type);
      const refused = ["handshake", "handshake", "handshake", "handshake", "handshake"];
      const met = ["version_mismatch", "version_mismatch", "value", "invalid_request"];
      assert.deepEqual(codes.slice(0, 9), [...refused, ...met]);
      assert.ok(["invalid_request", "version_mismatch"].includes(codes[9]), codes[9]);
      assert.deepEqual(codes.slice(10), ["closed", "value"]);
      assert.equal(answers.late, 0);
    });

    test("strange first words", async () => {
      const met = await undisturbed(
        "first words",
        async (rung) => {
          const { call, connect, hello, STRANGE } = await import("./hostile.js");
          let met = 0;
          for (const strange of [...STRANGE, { type: "ping" }, { type: "ping", id: {} }]) {
            const line = await connect(rung, worker("observed.js"));
            try {
              line.port.postMessage(strange);
            } catch (error) {
              // Too deep for the browser.
              if (error.name !== "RangeError") throw error;
            }
            if ((await call(line, hello(7))).at(-1).type === "value") met++;
            line.port.postMessage({ type: "bye" });
          }
          return met - STRANGE.length;
        },
        rung,
      );
      assert.equal(met, 2);
    });

    test(`${MESSAGES} malformed messages on three ports (seed ${SEED})`, async () => {
      const outcome = await undisturbed(
        "malformed messages",
        async ([rung, seed, count, params]) => {
          const { call, connect, hello, malformed } = await import("./hostile.js");
          const { randomFrom } = await import("./random.mjs");
          const random = randomFrom(seed);
          const stranger = await connect(rung, worker("observed.js"));
          const empty = await connect(rung, worker("observed.js"));
          const loaded = await connect(rung, worker("observed.js"));
          await call(empty, hello(1));
          await call(loaded, hello(1));
          const model = new URL("model/", location.href).href;
          await call(loaded, { type: "load", id: 2, url: model, options: { device: "cpu" } });
          const lines = [stranger, empty, loaded];
          for (const { answers } of lines) answers.length = 0;
          const alive = [];
          for (let i = 0; i < count; i++) {
            const { port } = lines[i % 3];
            // Ids of calls that others have open, too.
            const id = Math.floor(random() * 50);
            try {
              port.postMessage(malformed(random, id, "nowhere/", params));
            } catch (error) {
              // The browser itself refuses to send it.
              if (!["DataCloneError", "RangeError"].includes(error.name)) throw error;
            }
            // Each port still works, whatever it was sent.
            if (i % 50 > 2) continue;
            const word = lines[i % 3] === stranger ? hello(1000 + i) : { type: "ping", id: 1000 + i };
            alive.push((await call(lines[i % 3], word)).at(-1).type);
          }
          const answers = lines.map(({ answers }) => answers);
          const kinds = answers.map((answers) => [...new Set(answers.map(({ type }) => type))].sort());
          const errors = answers.flat().filter(({ type }) => type === "error");
          const typed = errors.every(({ error }) => typeof error.code === "string" && error.message.length < 200_000);
          for (const { port } of lines) port.postMessage({ type: "bye" });
          return {
            alive,
            kinds,
            errors: errors.length,
            typed,
            codes: [...new Set(errors.map(({ error }) => error.code))],
          };
        },
        [rung, SEED, MESSAGES, STORY.params],
      );
      assert.ok(outcome.typed);
      assert.ok(outcome.alive.length > 50);
      assert.ok(outcome.errors > MESSAGES / 2, `${outcome.errors} errors`);
      for (const kinds of outcome.kinds) {
        assert.ok(!kinds.includes("failed") && kinds.includes("error"), kinds.join(" "));
      }
      assert.ok(!outcome.codes.includes("engine_crashed"), outcome.codes.join(" "));
    });

    test("huge, deep and transferred messages", async () => {
      const heaps = await undisturbed(
        "sizes",
        async (rung) => {
          const { call, connect, hello } = await import("./hostile.js");
          const line = await connect(rung, worker("observed.js"));
          await call(line, hello(1));
          const heaps = [];
          const stands = () => heaps.length > 5 && heaps.at(-1) === heaps.at(-6);
          for (let round = 0; round < 30 && !stands(); round++) {
            const huge = "x".repeat(4 << 20);
            line.port.postMessage({ type: huge, id: 2 });
            line.port.postMessage({ type: "chat", id: 3, request: { messages: [{ role: huge, content: huge }] } });
            line.port.postMessage({ type: "chat", id: 4, request: { messages: Array(100_000).fill({}) } });
            line.port.postMessage(new Uint8Array(1 << 16));
            let nest = {};
            for (let depth = 0; depth < 500; depth++) nest = { nest };
            line.port.postMessage({ type: "chat", id: 5, request: nest });
            if (rung === "shared") {
              const { port1, port2 } = new MessageChannel();
              line.port.postMessage({ type: "ping", id: port1 }, [port1]);
              line.port.postMessage(port2, [port2]);
              const buffer = new ArrayBuffer(1 << 20);
              line.port.postMessage({ type: "chat", id: 6, request: buffer }, [buffer]);
              const stream = new ReadableStream();
              line.port.postMessage({ type: "load", id: 7, url: stream }, [stream]);
            }
            await call(line, { type: "ping", id: 100 + round });
            heaps.push((await engine.metrics()).wasm_heap_bytes);
          }
          line.port.postMessage({ type: "bye" });
          return heaps;
        },
        rung,
      );
      // How many messages are held at a time is up to chance, so the heap may grow now and then. If one
      // of each round were kept, it would in all.
      assert.equal(heaps.at(-1), heaps.at(-6), `the heap grows: ${heaps.join(" ")}`);
    });

    test("ids of others' calls", async () => {
      const kinds = await undisturbed(
        "guessing",
        async (rung) => {
          const { call, connect, hello } = await import("./hostile.js");
          const line = await connect(rung, worker("observed.js"));
          await call(line, hello(1));
          const model = new URL("model/", location.href).href;
          await call(line, { type: "load", id: 2, url: model, options: { device: "cpu" } });
          for (let id = 0; id < 1000; id++) {
            line.port.postMessage({ type: "cancel", id });
            line.port.postMessage({ type: "credit", id, chunks: 2 ** 32 - 1 });
          }
          await call(line, { type: "ping", id: 5000 });
          line.port.postMessage({ type: "bye" });
          return line.answers.filter(({ id }) => id !== 1 && id !== 2 && id !== 5000);
        },
        rung,
      );
      assert.deepEqual(kinds, []);
    });

    test("a port that is left in the middle of everything", async () => {
      await undisturbed(
        "leaving",
        async ([rung, params]) => {
          const { call, connect, hello } = await import("./hostile.js");
          for (let round = 0; round < 20; round++) {
            const line = await connect(rung, worker("observed.js"));
            await call(line, hello(1));
            const model = new URL("model/", location.href).href;
            line.port.postMessage({ type: "load", id: 2, url: model, options: { device: "cpu" } });
            const request = { ...params, stream: true, n: 4 };
            const moment = { now: 1, entropy: round };
            for (let id = 3; id < 8; id++) line.port.postMessage({ type: "chat", id, request, moment, credit: 0 });
            await call(line, { type: "ping", id: 9 });
            line.port.postMessage({ type: "bye" });
            line.port.postMessage({ type: "chat", id: 10, request, moment, credit: 9 });
            line.port.close();
          }
          await engine.metrics();
        },
        [rung, STORY.params],
      );
      assert.equal((await witness.metrics()).host.tabs.length, 2);
    });

    for (const whose of ["host", "tab"]) {
      test(`the lock of each ${whose} is stolen amid an answer, which goes on`, async () => {
        const [before] = await witness.hosts();
        await witness.begin("greedy", GREEDY);
        await witness.pieces("greedy", 1);
        await hostile.run(
          "theft",
          async (whose) => {
            const { held } = await navigator.locks.query();
            const names = held.map(({ name }) => name).filter((name) => name.startsWith(`tabloom ${whose} `));
            await Promise.all(names.map((name) => navigator.locks.request(name, { steal: true }, () => {})));
          },
          whose,
        );
        assert.deepEqual(await witness.answer("greedy"), expected[0]);
        assert.equal(text(await witness.ask(FRANCE.params)), FRANCE.answer);
        const hosts = await witness.hosts();
        assert.equal(hosts.length, 1);
        // The leader's page knows its worker by the lock alone.
        assert.equal(hosts[0].id === before.id, rung === "shared" || whose === "tab");
        assert.deepEqual(problems, []);
      });
    }

    if (rung === "leader") {
      test("strange words in the lobby", async () => {
        await undisturbed("lobby", async () => {
          const { VERSION } = await import("./tabloom/version.js");
          const lobby = new BroadcastChannel(`tabloom ${VERSION} lobby`);
          /** @type {unknown[]} */
          const strange = [null, undefined, 7, "up", [], {}, { type: "lead" }, { type: "here" }, { type: "join" }];
          for (const channel of [null, 5, "", "x".repeat(1 << 20), {}, `tabloom ${VERSION} lobby`, "probe"]) {
            strange.push({ type: "join", channel }, { type: "join", channel, epoch: NaN });
          }
          for (const epoch of [undefined, null, NaN, -1, "9", {}, 0, Number.MAX_SAFE_INTEGER]) {
            strange.push({ type: "up", epoch }, { type: "join", channel: "probe", epoch });
          }
          for (const message of strange) lobby.postMessage(message);
          await engine.metrics();
        });
      });

      test("what a listener says on a page's channel ends no call", async () => {
        const [before] = await witness.hosts();
        const led = await hostile.run("leaving", async () => {
          const led = await leads();
          engine.close();
          return led;
        });
        const isGone = async () => (await witness.hosts()).every((host) => host?.id !== before.id);
        if (led) await until("the host to leave with its page", isGone);
        await witness.metrics();
        await undisturbed("forgery", async () => {
          const { listenIn, UNSOUND } = await import("./hostile.js");
          const { channel, lobby, epoch, last } = await listenIn();
          lobby.postMessage({ type: "down", epoch });
          for (const message of UNSOUND) {
            for (let id = 1; id < 20; id++) channel.postMessage({ ...message, id, said: last.said + 1 });
          }
          for (let id = 1; id < 20; id++) channel.postMessage({ type: "cancel", id, asked: ++last.asked });
          channel.postMessage({ type: "bye", asked: ++last.asked });
          channel.close();
        });
      });

      test("a leader whose lock is stolen gives way to another, whatever epochs are forged", async () => {
        const [before] = await witness.hosts();
        await witness.begin("greedy", GREEDY);
        await witness.pieces("greedy", 1);
        await hostile.run("theft", async () => {
          const { VERSION } = await import("./tabloom/version.js");
          const office = `tabloom ${VERSION} leader`;
          for (const epoch of [Number.MAX_SAFE_INTEGER, `${Date.now() + 9e6}.5`, "x"]) {
            navigator.locks.request(`${office} since ${epoch}`, () => new Promise(() => {}));
          }
          await navigator.locks.request(office, { steal: true }, () => {});
        });
        assert.deepEqual(await witness.answer("greedy"), expected[0]);
        const hosts = await witness.hosts();
        assert.equal(hosts.length, 1);
        assert.notEqual(hosts[0].id, before.id);
        const [late] = await visitor.tabs(1, { host: "leader" });
        assert.equal(text(await late.ask(FRANCE.params)), FRANCE.answer);
        await late.close();
      });
    }
  });
}
