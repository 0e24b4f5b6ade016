// The package where there is no page, as on a server or in a test without a browser; and what bundlers keep of it.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import * as vite from "vite";
import { install } from "./project.mjs";

let project;

before(async () => {
  project = await install();
});

after(() => project?.remove());

/** Runs a module in Node; gives what it prints. */
const run = (code) => JSON.parse(project.run("node", ["--input-type=module", "-e", code]));

/** What an older Node, or jsdom, has not. */
const PLACES = {
  "a server": "",
  "an older server": `Object.defineProperty(globalThis, "navigator", { value: undefined });`,
  "a document without much else": `
    class HTMLElement extends EventTarget {}
    Object.assign(globalThis, { HTMLElement, document: { baseURI: "http://localhost/", visibilityState: "visible" } });
    globalThis.location = { href: "http://localhost/" };`,
};

for (const [place, begin] of Object.entries(PLACES)) {
  test(`in ${place}: imports do nothing, a load says where to call it, a probe finds nothing`, () => {
    const found = run(`${begin}
      const before = new Set(Object.keys(globalThis));
      const { Engine, TabloomError } = await import("tabloom");
      await import("tabloom/element");
      const added = Object.keys(globalThis).filter((name) => !before.has(name));
      const refused = await Engine.load("/models/my-model/").catch((error) => error);
      const typed = refused instanceof TabloomError;
      const probe = await Engine.probe({ models: [{ id: "a", bytes: 1 }] });
      const stored = await Engine.store.list();
      console.log(JSON.stringify({ added, typed, code: refused.code, message: refused.message, probe, stored }));`);
    assert.deepEqual([found.added, found.typed, found.code, found.stored], [[], true, "no_host", []]);
    assert.match(found.message, /no workers.*in an effect/);
    const { secure, gpu, workers, models } = found.probe;
    assert.deepEqual([secure, gpu.available, gpu.reason], [false, false, "there is no browser"]);
    assert.deepEqual(Object.values(workers), [false, false, false]);
    assert.deepEqual([models[0].fits, models[0].stored], ["no", false]);
  });
}

test("bundlers keep nothing of the engine for a page that knows its errors alone", async () => {
  const code = `import { TabloomError } from "tabloom"; console.log(TabloomError.name);`;
  const entry = join(project.folder, "errors.js");
  await project.write("errors.js", code);
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, write: false, format: "esm" });
  const options = { write: false, minify: false, lib: { entry, formats: [/** @type {const} */ ("es")] } };
  const built = await vite.build({ root: project.folder, configFile: false, logLevel: "error", build: options });
  const [{ output }] = /** @type {any[]} */ (built);
  for (const text of [outputFiles[0].text, JSON.stringify(output.map(({ code }) => code))]) {
    assert.match(text, /TabloomError/);
    assert.doesNotMatch(text, /SharedWorker|sessionStorage|import\(/);
  }
});
