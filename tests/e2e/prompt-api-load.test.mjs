// `tabloom/prompt-api`: a `LanguageModel` before its model is loaded.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { openPackage } from "./package.mjs";
import { modelFile, sendPart } from "./server.mjs";

/** A page that has imported the entry alone. */
const HTML = `<!doctype html>
<title>The Prompt API in use</title>
<script type="module">
  import { languageModel } from "./tabloom/prompt-api.js";
  globalThis.languageModel = languageModel;
</script>`;

/** A page that asks for a session by itself, before anyone has touched it, and again at a click. */
const RULED = `<!doctype html>
<title>The Prompt API as browsers have it</title>
<button>Begin</button>
<script type="module">
  import { languageModel } from "./tabloom/prompt-api.js";
  const options = { device: "cpu", host: "private", browserRules: true };
  globalThis.LanguageModel = languageModel("models/one/", options);
  const ask = () => LanguageModel.create().then(() => LanguageModel.availability(), ({ name }) => name);
  globalThis.told = [await LanguageModel.availability(), await ask(), await LanguageModel.availability()];
  document.querySelector("button").onclick = () => (globalThis.later = ask());
  await fetch("asked");
</script>`;

let session;
let page;
/** Without it, the weights of models come. */
let gate;
/** Lets them come. */
let open;

function close() {
  gate = new Promise((resolve) => {
    open = resolve;
  });
}

before(async () => {
  const weights = await modelFile("model.safetensors");
  const slow = {
    "model.safetensors": async (response) => {
      await gate;
      if (!response.destroyed) sendPart(response, weights);
    },
  };
  const folders = Object.fromEntries(["one", "two", "three"].map((name) => [`models/${name}/`, slow]));
  session = await openPackage({ ...folders, "": { "lazy.html": HTML, "ruled.html": RULED, asked: "" } });
  page = await fresh("lazy.html");
  await page.waitForFunction(() => globalThis.languageModel);
  await page.evaluate(() => {
    globalThis.fault = (promise, same) =>
      promise.then(
        () => "no failure",
        (error) => (same !== undefined && error === same ? "the same" : error.name),
      );
  });
});

after(() => session?.close());

/** A page of its own. */
async function fresh(file) {
  const page = await session.browser.newPage();
  await page.goto(`${session.server.url}${file}`);
  return page;
}

const asked = () => session.server.requests.filter((path) => path.includes("prompt-api"));

test("options that belong to sessions are refused by name; there may be none", async () => {
  const found = await page.evaluate(() => {
    const named = ["signal", "onProgress", "fallback"].map((name) => {
      try {
        languageModel("models/one/", { [name]: {} });
      } catch (error) {
        return [error.code, error.param, error.message];
      }
      return [];
    });
    return { named, none: typeof languageModel("models/one/", null).create };
  });
  assert.deepEqual(found, {
    named: [
      ["invalid_request", "signal", "signal: there is no such option. Use create({ signal })"],
      ["invalid_request", "onProgress", "onProgress: there is no such option. Use create({ monitor })"],
      [
        "invalid_request",
        "fallback",
        "fallback: there is no such option. Sessions are answered on the device: leave it out",
      ],
    ],
    none: "function",
  });
});

test("options that there are not are refused at the call, as Engine.load has them", async () => {
  const found = await page.evaluate(async () => {
    const { Engine } = await import(/** @type {any} */ ("./tabloom/index.js"));
    const refused = (option) => {
      try {
        languageModel("models/one/", { [option]: 1 });
      } catch ({ name, code, param, message }) {
        return { name, code, param, message };
      }
    };
    const { message } = await Engine.load("models/one/", { dtpye: 1 }).catch((error) => error);
    return { refused: refused("dtype"), unset: refused("preferBrowser"), loads: message.split("some of ")[1] };
  });
  const { name, code, param, message } = found.refused;
  assert.deepEqual([name, code, param, found.unset], ["TabloomError", "invalid_request", "dtype", undefined]);
  const [problem, names] = message.split("some of ");
  assert.equal(problem, "dtype: there is no such option. Expected ");
  const others = found.loads.split(", ").filter((name) => !["signal", "onProgress", "fallback"].includes(name));
  assert.deepEqual(names.split(", "), others);
});

test("options are read at the call, though what reads them is loaded then", async () => {
  const cold = await fresh("lazy.html");
  await cold.waitForFunction(() => globalThis.languageModel);
  const found = await cold.evaluate(async () => {
    const asked = [];
    globalThis.LanguageModel = {
      async availability(options) {
        asked.push(options);
        return "unavailable";
      },
    };
    const options = { device: "cpu", host: "private" };
    const told = [];
    for (const preferBrowser of [false, true]) {
      const model = languageModel("models/one/", { ...options, preferBrowser });
      const content = [{ type: "text", value: "Hi" }];
      const initialPrompts = new Set([{ role: "user", content }]);
      const outputs = [{ type: "text" }];
      const creating = model.create({ initialPrompts });
      const asking = model.availability({ expectedOutputs: outputs });
      initialPrompts.add({ role: "wizard", content: [] });
      content[0].value = "Hi ".repeat(100);
      outputs[0].type = "image";
      const session = await creating;
      told.push([(await asking) !== "unavailable", session.contextUsage]);
      const throws = {
        get monitor() {
          throw new RangeError("mine");
        },
      };
      told.push(
        await model.create(throws).then(
          () => "no failure",
          ({ message }) => message,
        ),
      );
    }
    return { told, asked };
  });
  const [[, usage]] = found.told;
  assert.ok(usage > 0 && usage < 20, `${usage}`);
  assert.deepEqual(found.told, [[true, usage], "mine", [true, usage], "mine"]);
  assert.deepEqual(found.asked.slice(0, 2), [
    { initialPrompts: [{ role: "user", content: [{ type: "text", value: "Hi" }] }] },
    { expectedOutputs: [{ type: "text" }] },
  ]);
  await cold.close();
});

test("nothing of the Prompt API is loaded before it is used", async () => {
  const { requests } = session.server;
  requests.length = 0;
  const first = await fresh("bare.html");
  await first.waitForFunction(() => globalThis.Engine);
  await first.evaluate(async () => {
    globalThis.engine = await Engine.load("model/", { device: "cpu" });
    globalThis.model = engine.languageModel();
  });
  const face = "tabloom/prompt-api/interface.js";
  assert.deepEqual(asked(), [face]);
  await first.evaluate(() => model.availability());
  assert.ok(asked().includes("tabloom/prompt-api/language-model.js"));
  await first.close();

  requests.length = 0;
  const second = await fresh("lazy.html");
  await second.waitForFunction(() => globalThis.languageModel);
  await second.evaluate(() => {
    globalThis.model = languageModel("models/one/", { device: "cpu", preferBrowser: true });
  });
  const modules = requests.filter((path) => path.endsWith(".js")).map((path) => path.replace("tabloom/", ""));
  const light = [
    "abort.js",
    "calls/arguments.js",
    "error.js",
    "prompt-api.js",
    "prompt-api/interface.js",
    "prompt-api/tool-messages.js",
  ];
  assert.deepEqual(modules.sort(), light);
  await second.close();
});

test("availability and progress tell of the download, which all sessions share", async () => {
  const before = await page.evaluate(() => {
    globalThis.LanguageModel = languageModel("models/one/", { device: "cpu", host: "private" });
    return LanguageModel.availability();
  });
  const looks = () => session.server.requests.filter((path) => path.startsWith("models/one/")).length;
  const atFirst = looks();
  const first = await page.evaluate(async () => {
    const unsupported = { expectedInputs: [{ type: "image" }] };
    return [
      await LanguageModel.availability(unsupported),
      await fault(LanguageModel.create(unsupported)),
      await LanguageModel.availability(),
    ];
  });
  assert.deepEqual([before, ...first], ["downloadable", "unavailable", "NotSupportedError", "downloadable"]);
  assert.equal(looks(), atFirst, "it is looked at once");
  close();
  const during = await page.evaluate(async () => {
    globalThis.steps = [];
    const begun = Promise.withResolvers();
    globalThis.creating = [0, 1].map((which) =>
      LanguageModel.create({
        monitor: (monitor) => {
          monitor.ondownloadprogress = ({ loaded, total }) => {
            steps.push([which, loaded, total]);
            begun.resolve(null);
          };
        },
      }),
    );
    await begun.promise;
    return LanguageModel.availability();
  });
  assert.equal(during, "downloading");
  open();
  const found = await page.evaluate(async () => {
    const sessions = await Promise.all(creating);
    const told = steps.length;
    const text = await sessions[0].prompt("Hi");
    const later = await LanguageModel.create();
    return {
      steps,
      quiet: told === steps.length,
      kinds: [...sessions, later].map((session) => session instanceof LanguageModel),
      text: typeof text,
      availability: await LanguageModel.availability(),
    };
  });
  for (const which of [0, 1]) {
    const own = found.steps.filter(([of]) => of === which);
    const parts = own.map(([, loaded]) => loaded);
    assert.deepEqual([parts[0], parts.at(-1)], [0, 1]);
    assert.ok(
      parts.every((part, i) => part % 2 ** -16 === 0 && (i === 0 || part > parts[i - 1])),
      `${parts}`,
    );
    assert.ok(own.every(([, , total]) => total === 1));
  }
  assert.ok(found.quiet);
  assert.deepEqual([found.kinds, found.text, found.availability], [[true, true, true], "string", "available"]);
});

test("a model that is kept from before is available", async () => {
  const found = await page.evaluate(async () => {
    const stored = languageModel("models/one/", { device: "cpu" });
    const files = languageModel({ "config.json": new Blob(["{}"]) });
    const frame = document.createElement("iframe");
    document.body.append(frame);
    const address = new /** @type {any} */ (frame.contentWindow).URL("models/of-a-frame/", location.href);
    const framed = languageModel(address, { device: "cpu" });
    const missing = languageModel("nothing/", { device: "cpu" });
    return [
      await stored.availability(),
      await files.availability(),
      await framed.availability(),
      await missing.availability(),
      await fault(missing.create()),
    ];
  });
  assert.deepEqual(found, ["available", "available", "downloadable", "unavailable", "NetworkError"]);
});

test("a creation that is aborted ends at once; the load ends when nobody waits for it", async () => {
  close();
  const found = await page.evaluate(async () => {
    globalThis.model = languageModel("models/two/", { device: "cpu", host: "private" });
    const controllers = [new AbortController(), new AbortController()];
    const reasons = [new Error("one"), new Error("two")];
    const creating = controllers.map(({ signal }, i) => fault(model.create({ signal }), reasons[i]));
    const late = fault(model.create({ signal: AbortSignal.abort(reasons[0]) }), reasons[0]);
    const told = [await late];
    controllers[0].abort(reasons[0]);
    told.push(await creating[0], await model.availability());
    controllers[1].abort(reasons[1]);
    told.push(await creating[1]);
    return told;
  });
  assert.deepEqual(found, ["the same", "the same", "downloading", "the same"]);
  open();
  const again = await page.evaluate(async () => {
    const availability = await model.availability();
    const session = await model.create();
    return [availability, typeof (await session.prompt("Hi"))];
  });
  assert.deepEqual(again, ["downloadable", "string"]);
});

test("it steps aside where the browser has its model, if asked", async () => {
  const found = await page.evaluate(async () => {
    const asked = [];
    const before = globalThis.LanguageModel;
    globalThis.LanguageModel = {
      async availability(options) {
        if (options?.samplingMode === "creative") throw new TypeError("no such member");
        return globalThis.theirs;
      },
      async create(options) {
        asked.push(options);
        return "the browser's";
      },
    };
    const told = [];
    const options = { device: "cpu", host: "private" };
    for (const preferBrowser of [false, true]) {
      for (const theirs of ["downloadable", "available"]) {
        globalThis.theirs = theirs;
        const own = languageModel("models/three/", { ...options, preferBrowser });
        told.push([await own.availability(), typeof (await own.create({ initialPrompts: [] }))]);
      }
    }
    const own = languageModel("models/three/", { ...options, preferBrowser: true });
    told.push([await own.availability({ samplingMode: "creative" }), asked]);
    globalThis.LanguageModel = before;
    return told;
  });
  assert.deepEqual(found, [
    ["downloadable", "object"],
    ["available", "object"],
    ["available", "object"],
    ["available", "string"],
    ["available", [{ initialPrompts: [] }]],
  ]);
});

describe("browserRules", () => {
  test("create-user-activation, create-sticky-user-activation: no download before a click or a key", async () => {
    const { requests } = session.server;
    requests.length = 0;
    const ruled = await fresh("ruled.html");
    // Where scripts of a driver count as clicks, none runs before this.
    while (!requests.includes("asked")) await new Promise((resolve) => setTimeout(resolve, 50));
    await ruled.locator("button").click();
    const found = await ruled.evaluate(async () => [...told, await later]);
    assert.deepEqual(found, ["downloadable", "NotAllowedError", "downloadable", "available"]);
    await ruled.close();
  });

  test("what is downloading or available needs none; who cannot tell of a click has had none", async () => {
    const ruled = await fresh("lazy.html");
    await ruled.waitForFunction(() => globalThis.languageModel);
    const refused = await ruled.evaluate(async () => {
      globalThis.touched = (value) => Object.defineProperty(navigator, "userActivation", { value, configurable: true });
      globalThis.LanguageModel = languageModel("models/two/", { device: "cpu", host: "private", browserRules: true });
      const name = ({ name }) => name;
      const told = [];
      for (const activation of [undefined, { hasBeenActive: false }]) {
        touched(activation);
        told.push(await LanguageModel.create().catch(name));
      }
      const signal = AbortSignal.timeout(0);
      return [...told, await LanguageModel.create({ signal }).catch(name)];
    });
    assert.deepEqual(refused, ["NotAllowedError", "NotAllowedError", "TimeoutError"]);
    close();
    const loading = await ruled.evaluate(async () => {
      touched({ hasBeenActive: true });
      const begun = Promise.withResolvers();
      const monitor = (target) => target.addEventListener("downloadprogress", () => begun.resolve(null));
      globalThis.creating = [LanguageModel.create({ monitor })];
      await begun.promise;
      touched({ hasBeenActive: false });
      creating.push(LanguageModel.create());
      return LanguageModel.availability();
    });
    open();
    const loaded = await ruled.evaluate(async () => {
      await Promise.all(creating);
      return [await LanguageModel.availability(), (await LanguageModel.create()) instanceof LanguageModel];
    });
    assert.deepEqual([loading, ...loaded], ["downloading", "available", true]);
    await ruled.close();
  });

  test("language-model-create, create-sampling-mode: temperature and topK are not even read", async () => {
    const ruled = await fresh("lazy.html");
    await ruled.waitForFunction(() => globalThis.languageModel);
    const found = await ruled.evaluate(async () => {
      Object.defineProperty(navigator, "userActivation", { value: { hasBeenActive: true } });
      const LanguageModel = languageModel("models/one/", { device: "cpu", host: "private", browserRules: true });
      const read = [];
      class Options {
        get temperature() {
          return read.push("temperature");
        }
        get topK() {
          return read.push("topK");
        }
      }
      const told = [];
      for (const options of [new Options(), { topK: 0 }, { temperature: -1, topK: 3 }, { temperature: "warm" }]) {
        const availability = await LanguageModel.availability(options);
        const { samplingMode, temperature, topK } = await (await LanguageModel.create(options)).clone();
        told.push([availability !== "unavailable", samplingMode, temperature === undefined, topK === undefined]);
      }
      const predictable = await LanguageModel.create({ samplingMode: "predictable", temperature: 2 });
      return [told, read, predictable.samplingMode, "params" in LanguageModel];
    });
    assert.deepEqual(found, [Array(4).fill([true, "balanced", true, true]), [], "predictable", false]);
    await ruled.close();
  });

  test("what cannot run is refused before any download", async () => {
    const found = await page.evaluate(async () => {
      const missing = languageModel("nothing/", { device: "cpu", browserRules: true });
      return [await missing.availability(), await fault(missing.create())];
    });
    assert.deepEqual(found, ["unavailable", "NotSupportedError"]);
  });

  test("iframe: a permissions policy counts where the browser tells of it", async () => {
    const found = await page.evaluate(async () => {
      const { featurePolicy } = /** @type {any} */ (document);
      const told = [];
      for (const allow of ["", "language-model 'none'"]) {
        const frame = Object.assign(document.createElement("iframe"), { src: "lazy.html", allow });
        document.body.append(frame);
        await new Promise((resolve) => frame.addEventListener("load", resolve));
        const theirs = /** @type {any} */ (frame.contentWindow).languageModel;
        for (const browserRules of [false, true]) {
          const model = theirs("models/three/", { device: "cpu", host: "private", browserRules });
          const watched = [];
          const availability = await model.availability();
          const monitor = () => {
            watched.push("monitor");
            throw new RangeError("mine");
          };
          told.push([availability !== "unavailable", await fault(model.create({ monitor })), ...watched]);
        }
      }
      return [featurePolicy?.features().includes("language-model") ?? false, ...told];
    });
    const free = [true, "RangeError", "monitor"];
    const [known, ...told] = found;
    assert.deepEqual(told, [free, free, free, known ? [false, "NotAllowedError"] : free]);
  });
});
