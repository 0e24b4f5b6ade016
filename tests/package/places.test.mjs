// The package where there is no page, as on a server or in a test without a browser; and what bundlers keep of it.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import * as vite from "vite";
import { install, root } from "./project.mjs";

let project;

before(async () => {
  project = await install();
});

after(() => project?.remove());

/** Runs a module in Node; gives what it prints. */
const run = (code) => JSON.parse(project.run("node", ["--input-type=module", "-e", code]));

/** A window's names become global, as test runners have it; those of Node stay, but for events. */
const AS_GLOBALS = `
  const of = new Set(Object.getOwnPropertyNames(globalThis));
  for (const name of ["navigator", "Event", "EventTarget", "CustomEvent"]) of.delete(name);
  for (const name of Object.getOwnPropertyNames(window)) {
    if (!of.has(name)) Object.defineProperty(globalThis, name, { value: window[name], configurable: true, writable: true });
  }
  for (const name of ["addEventListener", "removeEventListener"]) globalThis[name] = window[name].bind(window);`;

/** Documents for tests without a browser. */
const DOCUMENTS = {
  jsdom: `
    const { JSDOM } = await import(${JSON.stringify(import.meta.resolve("jsdom"))});
    const { window } = new JSDOM("", { url: "http://localhost/", pretendToBeVisual: true });${AS_GLOBALS}`,
  "happy-dom": `
    const { Window } = await import(${JSON.stringify(import.meta.resolve("happy-dom"))});
    const window = new Window({ url: "http://localhost/" });${AS_GLOBALS}`,
};

const PLACES = {
  "a server": "",
  "an older server": `Object.defineProperty(globalThis, "navigator", { value: undefined });`,
  ...DOCUMENTS,
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

for (const [place, begin] of Object.entries(DOCUMENTS)) {
  test(`in ${place}: the element chats with the guide's engine`, async () => {
    const guide = await readFile(join(root, "docs/guides/embed-a-chat.md"), "utf8");
    const [, chapter] = guide.split("## In tests\n");
    const [, fake] = /^```js no-run\n(.*?)^```$/ms.exec(chapter);
    const found = run(`${begin}
      const problems = [];
      for (const type of ["uncaughtException", "unhandledRejection"]) process.on(type, (error) => problems.push(error.stack));
      window.addEventListener("error", ({ error }) => problems.push(error.stack));
      await import("tabloom/element");
      ${fake}
      const { shadowRoot } = chat;
      const part = (name) => shadowRoot.querySelector(\`[part~=\${name}]\`);
      const shown = () => [...shadowRoot.querySelectorAll("[part~=text]")].map(({ textContent }) => textContent);
      document.body.append(chat);
      const ended = new Promise((resolve) => {
        chat.addEventListener("tabloom-message", ({ detail }) => detail.finishReason && resolve());
        setTimeout(resolve, 10_000);
      });
      part("input").value = "Hi";
      part("input").dispatchEvent(new Event("input", { bubbles: true }));
      part("send").focus();
      part("send").click();
      await ended;
      const first = shown();
      const answer = await chat.send("And you?");
      const { messages } = chat;
      part("clear").click();
      for (let tries = 0; tries < 100 && shown().length > 0; tries++) await new Promise((then) => setTimeout(then, 20));
      const left = shown();
      chat.messages = [{ role: "assistant", content: "**Good** evening" }];
      const set = shown();
      chat.remove();
      await new Promise((resolve) => setTimeout(resolve, 100));
      console.log(JSON.stringify({ problems, first, answer, messages, left, set, state: chat.state }));
      process.exit();`);
    assert.deepEqual(found.problems, []);
    assert.deepEqual(found.first, ["Hi", "Hello"]);
    assert.deepEqual(found.answer, { role: "assistant", content: "Hello" });
    const [asked, answered] = [{ role: "user" }, found.answer];
    assert.deepEqual(found.messages, [
      { ...asked, content: "Hi" },
      answered,
      { ...asked, content: "And you?" },
      answered,
    ]);
    assert.deepEqual([found.left, found.set, found.state], [[], ["Good evening"], "idle"]);
  });
}

test("in a React server component: the element says where it belongs", async () => {
  await project.write("component.js", `import { TabloomChat } from "tabloom/element"; console.log(TabloomChat);`);
  const code = `
    const { TabloomError } = await import("tabloom");
    const error = await import("./component.js").catch((error) => error);
    console.log(JSON.stringify([error instanceof TabloomError, error.code, error.message]));`;
  const args = ["--conditions=react-server", "--input-type=module", "-e", code];
  const [typed, kind, message] = JSON.parse(project.run("node", args));
  assert.deepEqual([typed, kind], [true, "no_host"]);
  assert.match(message, /"use client"/);
});

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
