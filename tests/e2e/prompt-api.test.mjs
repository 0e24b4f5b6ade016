// The Prompt API as the web-platform-tests have it (`ai/language-model`, as of October 2026): what they ask of a
// text model, in our words, under their names. docs/guides/prompt-api.md says which are not met, and why.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { openPackage } from "./package.mjs";

let session;
let page;

before(async () => {
  session = await openPackage();
  page = session.page;
  await page.evaluate(async () => {
    globalThis.engine = await Engine.load("model/", { device: "cpu" });
    globalThis.LanguageModel = engine.languageModel();
    globalThis.PROMPT = "Please write a sentence in English.";
    globalThis.OTHER = "Please write a sentence in French.";
    /** Greedy and short. */
    globalThis.create = (options) => LanguageModel.create(options);
    /** The whole of a stream. */
    globalThis.read = async (stream) => {
      let text = "";
      for await (const piece of stream) text += piece;
      return text;
    };
    /** With what a promise is rejected, or a function throws: its name, and whether it is the very same. */
    globalThis.fault = async (work, same) => {
      try {
        await (typeof work === "function" ? work() : work);
        return "no failure";
      } catch (error) {
        if (same !== undefined) return error === same ? "the same" : `${error}`;
        return error?.name ?? `${error}`;
      }
    };
  });
});

after(() => session?.close());

/** Runs a test's work in the page and compares what it gives. */
const gives = (name, work, expected) => test(name, async () => assert.deepEqual(await page.evaluate(work), expected));

describe("language-model-abort", () => {
  for (const name of ["create", "clone", "prompt", "append", "measureContextUsage"]) {
    test(`${name} rejects with the reason, also when aborted before`, async () => {
      const found = await page.evaluate(async (name) => {
        const session = await create();
        const first = name === "clone" ? [] : [PROMPT];
        const work = (signal) => (name === "create" ? create({ signal }) : session[name](...first, { signal }));
        const told = [];
        for (const reason of [undefined, new Error("mine")]) {
          const controller = new AbortController();
          const running = fault(work(controller.signal), reason);
          controller.abort(reason);
          told.push(await running, await fault(() => work(controller.signal), reason));
        }
        return told;
      }, name);
      assert.deepEqual(found, ["AbortError", "AbortError", "the same", "the same"]);
    });
  }

  gives("create tells nothing more to who aborts for what it has told", async () => {
    const controller = new AbortController();
    const told = [];
    const monitor = (target) => {
      target.addEventListener("downloadprogress", ({ loaded }) => {
        told.push(loaded);
        queueMicrotask(() => controller.abort());
      });
    };
    return [await fault(create({ monitor, signal: controller.signal })), told];
  }, ["AbortError", [0]]);

  gives("promptStreaming errors its stream, and throws when aborted before", async () => {
    const session = await create();
    const told = [];
    for (const reason of [undefined, new DOMException("mine", "VersionError")]) {
      const controller = new AbortController();
      const piped = session.promptStreaming(PROMPT, { signal: controller.signal }).pipeTo(new WritableStream());
      controller.abort(reason);
      told.push(await fault(piped, reason));
      try {
        session.promptStreaming(PROMPT, { signal: controller.signal });
      } catch (error) {
        told.push(reason ? error === reason : error.name);
      }
    }
    return told;
  }, ["AbortError", "AbortError", "the same", true]);
});

describe("language-model-append", () => {
  gives("it gives nothing and adds what was measured", async () => {
    const session = await create();
    const measured = await session.measureContextUsage(PROMPT);
    const before = session.contextUsage;
    const given = await session.append(PROMPT);
    return [before, given === undefined, measured > 0, session.contextUsage === measured];
  }, [0, true, true, true]);

  gives("more than the window is refused with what was asked and what there is", async () => {
    const session = await create();
    const long = PROMPT.repeat(session.contextWindow);
    const usage = await session.measureContextUsage(long);
    const error = await session.append(long).catch((error) => error);
    return [error.name, error.requested === usage, error.quota === session.contextWindow];
  }, ["QuotaExceededError", true, true]);

  gives("the system speaks first or not at all", async () => {
    const session = await create();
    const [user, system] = ["user", "system"].map((role) => ({ role, content: "foo" }));
    const told = [await fault(session.append([user, system])), await fault(session.append([system, system]))];
    // An object that is no list is a text.
    const before = session.append(system);
    told.push(await fault(session.append([system])), await fault(before));
    return told;
  }, ["TypeError", "TypeError", "TypeError", "no failure"]);

  gives(
    "what is empty is appended, and what is no text becomes one",
    async () => {
      const session = await create();
      const empty = [
        "",
        [],
        [{ role: "user", content: [] }],
        [{ role: "user", content: [{ type: "text", value: "" }] }],
      ];
      for (const input of [null, undefined, {}, 5, ...empty]) await session.append(input);
      return session.contextUsage > 0;
    },
    true,
  );
});

describe("language-model-availability, language-model-availability-available", () => {
  gives("it is told for options that are plausible, whatever they are", async () => {
    const told = [];
    const kinds = [
      undefined,
      [],
      [{ type: "text" }],
      [{ type: "text" }, { type: "audio" }, { type: "image" }],
      [{ type: "text", languages: ["en", "ja", "ko"] }],
      [{ type: "audio", languages: ["es"] }],
    ];
    const isText = (expected = []) => expected.every(({ type }) => type === "text");
    for (const topK of [undefined, -2, 0, 1, 1.5, 99]) {
      for (const temperature of [undefined, -0.5, 0, 0.6, 7]) {
        const inRange = !(topK < 1 || temperature < 0);
        for (const expectedInputs of kinds) {
          for (const expectedOutputs of kinds) {
            const initialPrompts = [
              { role: "system", content: "be good" },
              { role: "system", content: "be bad" },
            ];
            const options = { topK, temperature, expectedInputs, expectedOutputs, initialPrompts };
            const found = await LanguageModel.availability(options);
            const runs = inRange && isText(expectedInputs) && isText(expectedOutputs);
            if (found !== (runs ? "available" : "unavailable")) told.push([found, options]);
          }
        }
        const created = await fault(create({ topK, temperature }));
        if (created !== (inRange ? "no failure" : "RangeError")) told.push([created, topK, temperature]);
      }
    }
    return [typeof LanguageModel.availability, await LanguageModel.availability(null), told];
  }, ["function", "available", []]);

  gives(
    "kinds that the model does not have are unavailable, and creation refuses them",
    async () => {
      const told = [];
      for (const options of [
        { expectedOutputs: [{ type: "image" }] },
        { expectedOutputs: [{ type: "audio" }] },
        { expectedInputs: [{ type: "image" }] },
      ]) {
        told.push(await LanguageModel.availability(options), await fault(create(options)));
      }
      return told;
    },
    Array(3).fill(["unavailable", "NotSupportedError"]).flat(),
  );

  gives(
    "words that the API does not have are refused",
    () =>
      Promise.all(
        [
          { expectedInputs: [{ type: "soup" }] },
          { samplingMode: "soup" },
          { samplingMode: null },
          { expectedInputs: [{ type: "text", languages: ["en-abc-invalid"] }] },
          { thinking: { effort: "soup" } },
          5,
        ].map((options) => fault(LanguageModel.availability(options))),
      ),
    ["TypeError", "TypeError", "TypeError", "RangeError", "TypeError", "TypeError"],
  );
});

describe("language-model-availability-sampling-mode, language-model-create-sampling-mode", () => {
  const MODES = [
    "most-predictable",
    "predictable",
    "slightly-predictable",
    "balanced",
    "slightly-creative",
    "creative",
    "most-creative",
  ];

  test("there are seven modes, which clones keep", async () => {
    const found = await page.evaluate(async (modes) => {
      const told = [];
      for (const samplingMode of modes) {
        const session = await create({ samplingMode });
        const available = await LanguageModel.availability({ samplingMode });
        told.push([available, session.samplingMode, (await session.clone()).samplingMode]);
      }
      return told;
    }, MODES);
    assert.deepEqual(
      found,
      MODES.map((mode) => ["available", mode, mode]),
    );
  });

  gives("a mode goes before numbers, of which nothing is seen; numbers alone have no mode", async () => {
    const told = ["params" in LanguageModel, (await create()).samplingMode];
    for (const options of [{ temperature: 0.8 }, { topK: 10 }, { temperature: 0.8, topK: 10 }]) {
      const both = { samplingMode: "balanced", ...options };
      const { samplingMode, temperature, topK } = await create(both);
      told.push([await LanguageModel.availability(both), samplingMode, temperature === undefined, topK === undefined]);
      told.push((await create(options)).samplingMode);
    }
    return told;
  }, [
    false,
    "balanced",
    ...Array(3)
      .fill([["available", "balanced", true, true], null])
      .flat(),
  ]);
});

describe("language-model-clone", () => {
  gives("a clone has the same window, usage and sampling, and goes on by itself", async () => {
    const session = await create({ temperature: 0.5, topK: 3 });
    await session.prompt(PROMPT);
    const clone = await session.clone();
    const names = ["contextWindow", "contextUsage", "inputQuota", "inputUsage", "topK", "temperature", "samplingMode"];
    const same = names.filter((name) => clone[name] === session[name]).length;
    const text = await clone.prompt(PROMPT);
    return [same, typeof text, clone.contextUsage > session.contextUsage];
  }, [7, "string", true]);
});

describe("language-model-create", () => {
  gives("a session is an instance of LanguageModel, which only creation makes", async () => {
    const session = await create();
    const methods = [
      "prompt",
      "promptStreaming",
      "append",
      "measureContextUsage",
      "measureInputUsage",
      "clone",
      "destroy",
    ];
    const clone = await session.clone();
    return [
      session instanceof LanguageModel,
      clone instanceof LanguageModel,
      session instanceof EventTarget,
      session.constructor === LanguageModel,
      engine.languageModel() === LanguageModel,
      LanguageModel.name,
      Object.prototype.toString.call(session),
      await fault(() => new LanguageModel()),
      methods.filter((name) => typeof session[name] !== "function"),
      [session.contextUsage, session.contextWindow, session.inputUsage, session.inputQuota].map((it) => typeof it),
      session.oncontextoverflow === null && session.onquotaoverflow === null,
    ];
  }, [
    true,
    true,
    true,
    true,
    true,
    "LanguageModel",
    "[object LanguageModel]",
    "TypeError",
    [],
    Array(4).fill("number"),
    true,
  ]);

  gives("a monitor is told of the download, from nothing to all, before the session is there", async () => {
    const steps = [];
    let kind;
    let created = false;
    const monitor = (target) => {
      kind = [Object.prototype.toString.call(target), target instanceof EventTarget, target.ondownloadprogress];
      kind.push(fault(() => new target.constructor()));
      const listen = ({ loaded, total, lengthComputable }) => steps.push([loaded, total, lengthComputable, created]);
      target.addEventListener("downloadprogress", listen);
      target.ondownloadprogress = ({ type }) => steps.push(type);
    };
    await create({ monitor });
    created = true;
    return [await Promise.all(kind), steps];
  }, [
    ["[object CreateMonitor]", true, null, "TypeError"],
    [[0, 1, true, false], "downloadprogress", [1, 1, true, false], "downloadprogress"],
  ]);

  gives("creation that is aborted at any step of the download rejects", async () => {
    const told = [];
    for (const step of [0, 1]) {
      const controller = new AbortController();
      const reached = Promise.withResolvers();
      const monitor = (target) => {
        target.addEventListener("downloadprogress", ({ loaded }) => loaded === step && reached.resolve(null));
      };
      const creating = create({ monitor, signal: controller.signal });
      creating.catch(() => {});
      await reached.promise;
      const reason = new Error("mine");
      controller.abort(reason);
      told.push(await fault(creating, reason));
    }
    return told;
  }, ["the same", "the same"]);

  gives("numbers out of range are refused, or brought into it", async () => {
    const told = [];
    for (const options of [{ temperature: -0.5 }, { topK: 0 }, { topK: -2 }, { temperature: "warm" }]) {
      told.push(await fault(create(options)));
    }
    const { topK, temperature } = await create({ topK: 1.5, temperature: Infinity });
    return [...told, topK, temperature];
  }, ["RangeError", "RangeError", "RangeError", "RangeError", 1, 2]);

  gives("initial prompts begin the conversation, if there are any; the system speaks first or not at all", async () => {
    const [system, user, assistant] = ["system", "user", "assistant"].map((role) => ({ role, content: "hello" }));
    const usages = [];
    for (const initialPrompts of [[], [system, user, assistant], [user, assistant]]) {
      usages.push((await create({ initialPrompts })).contextUsage > 0);
    }
    const told = [];
    for (const initialPrompts of [[user, assistant, system], [system, system, user], 5, [5], [{ role: "user" }]]) {
      told.push(await fault(create({ initialPrompts })));
    }
    return [usages, told];
  }, [[false, true, true], Array(5).fill("TypeError")]);

  gives(
    "language tags are checked, whatever their case",
    async () => [
      await fault(create({ expectedInputs: [{ type: "text", languages: ["en-abc-invalid"] }] })),
      (await create({ expectedInputs: [{ type: "text", languages: ["EN"] }] })) instanceof LanguageModel,
    ],
    ["RangeError", true],
  );

  gives("options are null, undefined or an object", async () => {
    const told = [];
    for (const options of [null, undefined, {}, 5, "a"]) told.push(await fault(create(options)));
    const session = await create();
    await session.append("a", null);
    told.push(
      (await session.prompt("a", null)).length > 0,
      (await session.measureContextUsage("a", null)) > 0,
      (await session.clone(null)) instanceof LanguageModel,
      session.promptStreaming("a", null) instanceof ReadableStream,
    );
    for (const options of [{ signal: null }, { signal: {} }, { monitor: {} }]) told.push(await fault(create(options)));
    return told;
  }, [
    ...Array(3).fill("no failure"),
    ...Array(2).fill("TypeError"),
    ...Array(4).fill(true),
    ...Array(3).fill("TypeError"),
  ]);
});

describe("language-model-destroy", () => {
  gives(
    "prompts that run or come later fail, and what is known stays known",
    async () => {
      const session = await create();
      const running = fault(session.prompt(PROMPT));
      session.destroy();
      const told = [
        await running,
        await fault(session.prompt(PROMPT)),
        await fault(() => session.promptStreaming("a")),
      ];
      return [told, typeof session.inputQuota, typeof session.contextUsage, session.temperature === undefined];
    },
    // The test wants InvalidStateError; the specification's text has the reason of `destroy()`.
    [Array(3).fill("AbortError"), "number", "number", true],
  );
});

describe("language-model-params", () => {
  gives("there is no params() outside of extensions", () => "params" in LanguageModel, false);
});

describe("iframe", () => {
  gives("a frame that imports the library has a class and sessions of its own", async () => {
    const frame = document.createElement("iframe");
    frame.src = "bare.html";
    document.body.append(frame);
    await new Promise((resolve) => frame.addEventListener("load", resolve));
    const { Engine } = /** @type {any} */ (frame.contentWindow);
    const theirs = (await Engine.load("model/", { device: "cpu" })).languageModel();
    const session = await theirs.create();
    const text = await session.prompt(PROMPT);
    return [await theirs.availability(), session instanceof theirs, session instanceof LanguageModel, text.length > 0];
  }, ["available", true, false, true]);
});

describe("prompt/context", () => {
  gives("language-model-measure-context-usage, language-model-measure-input-usage: one measure by two names", async () => {
    const session = await create();
    const usage = await session.measureContextUsage(PROMPT);
    return [usage > 0, (await session.measureInputUsage(PROMPT)) === usage, session.contextUsage];
  }, [true, true, 0]);

  gives("measure: messages of all roles, also those that begin a conversation", async () => {
    const initialPrompts = [
      { role: "system", content: "foo" },
      { role: "user", content: "bar" },
      { role: "assistant", content: "baz" },
    ];
    const session = await create({ initialPrompts });
    const usage = await session.measureContextUsage(initialPrompts);
    return [usage > 0, usage === session.contextUsage, (await session.measureContextUsage("This is a prompt.")) > 0];
  }, [true, true, true]);

  gives(
    "usage: a prompt adds what it and its answer measure, give or take five tokens",
    async () => {
      const session = await create();
      const prompt = await session.measureContextUsage(PROMPT);
      const answer = await session.measureContextUsage(await session.prompt(PROMPT));
      return Math.abs(session.contextUsage - prompt - answer) <= 5;
    },
    true,
  );

  gives(
    "usage-initial-prompt: it counts as much as it measures",
    async () => {
      const initialPrompts = [{ role: "system", content: "The word of the day is banana." }];
      const session = await create({ initialPrompts });
      return session.contextUsage > 0 && session.contextUsage === (await session.measureContextUsage(initialPrompts));
    },
    true,
  );

  gives("overflow: the oldest goes, and the event says so", async () => {
    const session = await create();
    const overflow = new Promise((resolve) => session.addEventListener("contextoverflow", resolve));
    const long = PROMPT.repeat(10);
    await session.append(long);
    const again = long.repeat(Math.ceil(session.contextWindow / session.contextUsage));
    const [{ target }, text] = await Promise.all([overflow, session.prompt(again)]);
    return [target === session, typeof text];
  }, [true, "string"]);

  gives("overflow: also where the prompt fits, and its answer does not", async () => {
    const session = await create({ temperature: 0 });
    const told = [];
    session.oncontextoverflow = () => told.push("overflow");
    const long = PROMPT.repeat(10);
    const first = await session.measureContextUsage(long);
    await session.append(long);
    // As many as the test has.
    const again = long.repeat(session.contextWindow / session.contextUsage);
    const second = await session.measureContextUsage(again);
    told.push(first + second <= session.contextWindow);
    const answer = await session.measureContextUsage([{ role: "assistant", content: await session.prompt(again) }]);
    told.push(first + second + answer > session.contextWindow, Math.abs(session.contextUsage - second - answer) <= 5);
    // That turn goes as well, with another like it.
    await session.append(again);
    return [...told, session.contextUsage === second];
  }, [true, "overflow", true, true, "overflow", true]);

  gives("usage-prompt-quota-exceeded: the error has what was asked and what there is", async () => {
    const session = await create();
    const long = PROMPT.repeat(session.contextWindow);
    const usage = await session.measureContextUsage(long);
    const error = await session.prompt(long).catch((error) => error);
    return [error.name, Math.abs(error.requested - usage) <= 50, error.quota === session.contextWindow];
  }, ["QuotaExceededError", true, true]);

  gives("language-model-quota-exceeded: so have initial prompts that are too long", async () => {
    const { contextWindow } = await create();
    const content = PROMPT.repeat(contextWindow);
    const error = await create({ initialPrompts: [{ role: "system", content }] }).catch((error) => error);
    return [error.name, error.requested > error.quota, error.quota === contextWindow];
  }, ["QuotaExceededError", true, true]);
});

describe("prompt/empty-inputs, prompt/streaming", () => {
  /** What a page may hand over, and what a user would have said with it. */
  const INPUTS = [
    ["null-input", null, "null"],
    ["undefined-input", undefined, "undefined"],
    ["empty-object-input", {}, "[object Object]"],
    ["a number", 5, "5"],
    ["empty-string-input", "", null],
    ["empty-array-input", [], null],
    ["empty-sequence-input", [{ role: "user", content: [] }], null],
    ["sequence-with-empty-string-input", [{ role: "user", content: [{ type: "text", value: "" }] }], null],
    ["null content", [{ role: "user", content: null }], "null"],
    ["content that is a number", [{ role: "user", content: 5 }], "5"],
    ["a value that is an object", [{ role: "user", content: [{ type: "text", value: {} }] }], "[object Object]"],
  ];
  for (const [name, input, said] of INPUTS) {
    test(`${name} is answered, whole and in pieces`, async () => {
      const work = async ([input, said]) => {
        const options = { responseConstraint: /[a-z]{3}/, omitResponseConstraintInput: true };
        const texts = [await (await create()).prompt(input, options)];
        texts.push(await read((await create()).promptStreaming(input, options)));
        const session = await create();
        const measured = await session.measureContextUsage(input);
        const same = said === null ? measured > 0 : measured === (await session.measureContextUsage(said));
        return [texts.every((text) => /[a-z]{3}/.test(text)), same];
      };
      assert.deepEqual(await page.evaluate(work, [input, said]), [true, true]);
    });
  }

  gives("what has no text is refused at the call: promises reject, the stream is not made", async () => {
    const session = await create();
    const first = session.prompt(PROMPT);
    const inputs = [
      Symbol("a"),
      [5],
      [null],
      [{ role: "robot", content: "a" }],
      [{ role: "user" }],
      [{ content: "a" }],
      [{ role: "user", content: [{ type: "text" }] }],
      [{ role: "user", content: [{ type: "soup", value: "a" }] }],
      [{ role: "user", content: [{ value: "a" }] }],
    ];
    const told = new Set();
    for (const input of inputs) {
      told.add(await fault(session.prompt(input)));
      told.add(await fault(session.append(input)));
      try {
        session.promptStreaming(input);
        told.add("a stream");
      } catch (error) {
        told.add(error.name);
      }
    }
    for (const options of [5, { signal: {} }, { responseConstraint: 5 }])
      told.add(await fault(session.prompt("a", options)));
    let waits = true;
    first.then(() => {
      waits = false;
    });
    return [[...told], waits, typeof (await first)];
  }, [["TypeError"], true, "string"]);

  gives(
    "a list that is changed after the call was not changed for the session",
    async () => {
      const session = await create();
      const content = [{ type: "text", value: "one" }];
      const input = [{ role: "user", content }];
      const [measured] = [await session.measureContextUsage("one")];
      const appended = session.append(input);
      content[0].value = "one and two and three";
      content.push({ type: "text", value: "more" });
      input.push({ role: "robot", content: [] });
      await appended;
      return session.contextUsage === measured;
    },
    true,
  );
});

describe("prompt, prompt/streaming", () => {
  gives("prompt, prompt-simple-question, prompt-streaming: a text, and a stream of text", async () => {
    const session = await create();
    const stream = session.promptStreaming(PROMPT);
    const kind = Object.prototype.toString.call(stream);
    return [typeof (await session.prompt(PROMPT)), kind, (await read(stream)).length > 0];
  }, ["string", "[object ReadableStream]", true]);

  gives(
    "prompt-concurrent, prompt-streaming-concurrent: several at once are all answered",
    async () => {
      const session = await create();
      const texts = await Promise.all([
        session.prompt(PROMPT),
        session.prompt(PROMPT),
        session.prompt(OTHER),
        read(session.promptStreaming(PROMPT)),
        read(session.promptStreaming(OTHER)),
      ]);
      return texts.filter((text) => text.length > 0).length;
    },
    5,
  );

  gives("prompt-post-abort, prompt-streaming-post-abort: the session answers after an abort", async () => {
    const session = await create();
    const controller = new AbortController();
    const { signal } = controller;
    const running = [
      fault(session.prompt(PROMPT, { signal })),
      fault(session.promptStreaming(PROMPT, { signal }).pipeTo(new WritableStream())),
    ];
    controller.abort();
    const told = await Promise.all(running);
    return [told, (await session.prompt(PROMPT)).length > 0, (await read(session.promptStreaming(PROMPT))).length > 0];
  }, [["AbortError", "AbortError"], true, true]);

  test("garbage-collection: it ends nothing", async () => {
    const inspector = await page.context().newCDPSession(page);
    const answering = page.evaluate(async () => {
      const answers = [(await create()).prompt(PROMPT), read((await create()).promptStreaming(PROMPT))];
      return (await Promise.all(answers)).map((text) => text.length > 0);
    });
    let over = false;
    const end = () => (over = true);
    answering.then(end, end);
    while (!over) await inspector.send("HeapProfiler.collectGarbage");
    assert.deepEqual(await answering, [true, true]);
    await inspector.detach();
  });

  gives("rejections: the system speaks first or not at all", async () => {
    const [user, system] = ["user", "system"].map((role) => ({ role, content: "foo" }));
    const session = await create();
    const told = [await fault(session.prompt([user, system])), await fault(session.prompt([system, system]))];
    const before = session.prompt(system);
    told.push(await fault(session.prompt([system])), typeof (await before));
    const begun = await create({ initialPrompts: [user] });
    return [...told, await fault(begun.prompt([system]))];
  }, ["TypeError", "TypeError", "TypeError", "string", "TypeError"]);

  gives(
    "monitor-callback-exception: what a monitor throws ends creation",
    async () => {
      const mine = new RangeError("mine");
      const monitor = () => {
        throw mine;
      };
      return fault(create({ monitor }), mine);
    },
    "the same",
  );
});

describe("prompt/multimodal", () => {
  gives("without-image-expected-input, without-video-expected-input: pictures are refused", async () => {
    const session = await create();
    const pictures = [document.createElement("canvas"), document.createElement("video"), new ImageData(1, 1)];
    const prompts = pictures.map((value) => {
      const content = [
        { type: "text", value: PROMPT },
        { type: "image", value },
      ];
      return fault(session.prompt([{ role: "user", content }]));
    });
    return [await Promise.all(prompts), session.contextUsage];
  }, [Array(3).fill("NotSupportedError"), 0]);
});

describe("response-constraint", () => {
  /** Kinds of JSON, and what is valid to them. */
  const SCHEMAS = /** @type {[string, object, (value: any) => boolean][]} */ ([
    ["array", { type: "array", maxItems: 3 }, (value) => Array.isArray(value)],
    ["boolean", { type: "boolean" }, (value) => typeof value === "boolean"],
    ["integer", { type: "integer" }, (value) => Number.isInteger(value)],
    ["integer-bounded", { type: "integer", minimum: 1, maximum: 5 }, (value) => [1, 2, 3, 4, 5].includes(value)],
    ["null", { type: "null" }, (value) => value === null],
    ["number", { type: "number" }, (value) => typeof value === "number"],
    ["number-bounded", { type: "number", minimum: -1, maximum: 1 }, (value) => value >= -1 && value <= 1],
    ["object", { type: "object", maxProperties: 2 }, (value) => value !== null && typeof value === "object"],
    ["string", { type: "string", maxLength: 20 }, (value) => typeof value === "string"],
  ]);
  for (const [name, schema, isValid] of SCHEMAS) {
    test(`json-schema/${name}`, async () => {
      const text = await page.evaluate(async (responseConstraint) => {
        const session = await create({ samplingMode: "most-predictable" });
        return session.prompt("Give an example.", { responseConstraint });
      }, schema);
      assert.ok(isValid(JSON.parse(text)), text);
    });
  }

  /** Patterns of that kind, each with an end. */
  const PATTERNS = {
    boolean: /^(true|false)$/,
    "bullet-points": /^(\* .{1,9}\n?){1,3}$/,
    "character-range": /^[a-z]$/,
    "csv-row": /^([^,]{1,9},){1,3}[^,]{1,9}$/,
    date: /^\d{4}-\d{2}-\d{2}$/,
    decimal: /^-?(0(\.\d{1,3})?|1(\.0{1,3})?)$/,
    email: /^[a-z0-9._%+-]{1,9}@[a-z0-9.-]{1,9}\.[a-z]{2,3}$/i,
    enumeration: /^(red|green|blue)$/,
    "exact-length": /^.{5}$/,
    integer: /^-?\d{1,3}$/,
    list: /^\s?"[a-zA-Z]{1,9}"\s?(?:,\s?"[a-zA-Z]{1,9}"\s?){0,2}$/,
    literal: /hello/,
    "max-length": /^.{0,125}$/,
    quote: /^"[^"]{0,20}"$/,
    time: /^([01]\d|2[0-3]):[0-5]\d$/,
    url: /^https?:\/\/[^\s$.?#].[^\s]{0,20}$/,
    word: /^\w{1,12}$/,
  };
  for (const [name, pattern] of Object.entries(PATTERNS)) {
    test(`regex/${name}`, async () => {
      const text = await page.evaluate(async (responseConstraint) => {
        const session = await create({ samplingMode: "most-predictable" });
        return session.prompt("Give an example.", { responseConstraint });
      }, pattern);
      assert.match(text, pattern);
    });
  }

  gives("an answer keeps to its constraint, with it in the prompt or without", async () => {
    const responseConstraint = {
      type: "object",
      required: ["Rating"],
      additionalProperties: false,
      properties: { Rating: { type: "number", minimum: 0, maximum: 5 } },
    };
    const told = [];
    for (const omitResponseConstraintInput of [false, true]) {
      const session = await create();
      const { Rating } = JSON.parse(await session.prompt("hello", { responseConstraint, omitResponseConstraintInput }));
      told.push(Rating >= 0 && Rating <= 5);
    }
    const session = await create();
    return [...told, await session.prompt(PROMPT, { responseConstraint: /hello/ })];
  }, [true, true, "hello"]);

  gives("a prefix and its answer together keep to the constraint", async () => {
    const responseConstraint = {
      type: "object",
      required: ["Rating"],
      additionalProperties: false,
      properties: { Rating: { type: "number", minimum: 0, maximum: 5 } },
    };
    const after = async (content, responseConstraint) => {
      const input = [
        { role: "user", content: "hello" },
        { role: "assistant", content, prefix: true },
      ];
      return content + (await (await create()).prompt(input, { responseConstraint }));
    };
    const { Rating } = JSON.parse(await after('{ "Rating": ', responseConstraint));
    const greetings = await after("Greetings", /^Greetings and salutations[.!]$/);
    return [Rating >= 0 && Rating <= 5, /^Greetings and salutations[.!]$/.test(greetings)];
  }, [true, true]);

  test("patterns take the characters that JavaScript's take", async () => {
    const found = await page.evaluate(async () => {
      const session = await create();
      const characters = ["😀", "\r", "\u2028", "\u0085", "\ufeff", "\u00e9", "a"];
      const patterns = [
        /^.b$/,
        /^.b$/u,
        /^.b$/s,
        /^.b$/su,
        /^[^x]b$/,
        /^[^x]b$/u,
        /^\sb$/,
        /^\Sb$/,
        /^[\s]b$/,
        /^[^\s]b$/u,
      ];
      const differing = [];
      for (const pattern of patterns) {
        for (const character of characters) {
          const input = [
            { role: "user", content: "hello" },
            { role: "assistant", content: character, prefix: true },
          ];
          const told = await session.clone().then((clone) =>
            clone.prompt(input, { responseConstraint: pattern, omitResponseConstraintInput: true }).then(
              (text) => text === "b",
              ({ name }) => (name === "NotSupportedError" ? false : name),
            ),
          );
          if (told !== pattern.test(`${character}b`)) differing.push([`${pattern}`, character, told]);
        }
      }
      return differing;
    });
    assert.deepEqual(found, []);
  });

  gives("a constraint that cannot be is refused, and so is a prefix from which nothing leads to it", async () => {
    const circular = {};
    circular.self = circular;
    const session = await create();
    const input = [
      { role: "user", content: "hello" },
      { role: "assistant", content: "invalid", prefix: true },
    ];
    return [
      await fault(session.prompt(PROMPT, { responseConstraint: circular })),
      await fault(session.prompt(PROMPT, { responseConstraint: { type: "soup" } })),
      await fault(session.prompt(input, { responseConstraint: /^Greetings and salutations.*/ })),
      session.contextUsage,
    ];
  }, ["NotSupportedError", "NotSupportedError", "NotSupportedError", 0]);
});

describe("event handlers", () => {
  gives("functions are called in place of those before, other objects are kept, the rest is null", async () => {
    const session = await create();
    const calls = [];
    const object = { handleEvent: () => calls.push("object") };
    const told = [];
    for (const handler of [object, 5, () => calls.push("first"), ({ type }) => calls.push(type)]) {
      session.oncontextoverflow = handler;
      told.push(session.oncontextoverflow === handler ? "kept" : session.oncontextoverflow);
      session.dispatchEvent(new Event("contextoverflow"));
    }
    return [told, calls];
  }, [
    ["kept", null, "kept", "kept"],
    ["first", "contextoverflow"],
  ]);
});

describe("prefix", () => {
  gives(
    "an empty one is none",
    async () => {
      const session = await create({ temperature: 0 });
      const user = { role: "user", content: PROMPT };
      const text = await session.prompt([user, { role: "assistant", content: "", prefix: true }]);
      return text === (await (await create({ temperature: 0 })).prompt(PROMPT));
    },
    true,
  );
});
