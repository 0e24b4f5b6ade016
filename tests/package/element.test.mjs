// The element's manifest names what the element has, and nothing else.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, test } from "node:test";
import { filesOf, install, root } from "./project.mjs";

const template = join(root, "pkg-template");
let element;
/** The element's modules, one after the other. */
let source;

before(async () => {
  const project = await install();
  const manifest = await readFile(join(project.folder, "node_modules/tabloom/custom-elements.json"), "utf8");
  await project.remove();
  [element] = JSON.parse(manifest).modules[0].declarations;
  const files = (await filesOf(template)).filter((file) => /^element(\.js$|\/.*\.js$)/.test(file));
  source = (await Promise.all(files.map((file) => readFile(join(template, file), "utf8")))).join("\n");
  // Not what its comment says.
  source = source.replace(/^ \*.*$/gm, "");
});

const names = (entries) => entries.map(({ name }) => name).sort();
/** What a pattern's first group finds, once each. */
const found = (pattern) => [...new Set([...source.matchAll(pattern)].map(([, name]) => name))].sort();

test("its class and tag", () => {
  assert.equal(element.name, "TabloomChat");
  assert.equal(element.tagName, "tabloom-chat");
  assert.equal(element.customElement, true);
});

test("attributes are those that it reads, those that it observes among them", () => {
  assert.deepEqual(names(element.attributes), found(/this\.(?:get|has)Attribute\("([^"]+)"\)/g));
  const observed = [...source.match(/OF_ENGINE = \[(.*)\]/)[1].split(", "), '"autoload"', '"placeholder"'];
  assert.match(source, /observedAttributes = \[\.\.\.OF_ENGINE, "autoload", "placeholder"\]/);
  for (const name of observed) assert.ok(names(element.attributes).includes(JSON.parse(name)), name);
  const fields = names(element.members);
  for (const { fieldName } of element.attributes) assert.ok(fields.includes(fieldName), fieldName);
});

test("events are those that it sends", () => {
  assert.deepEqual(names(element.events), found(/#emit\("([^"]+)"/g));
});

test("parts are those in its shadow tree", () => {
  const said = found(/\bpart: ["`]([^"`]+)["`]/g).flatMap((list) => list.split(" "));
  const buttons = found(/\b(?:button|iconButton)\("([^"]+)"/g);
  const actions = found(/\baction\("([^"]+)"/g);
  const parts = [...said.filter((name) => /^[a-z-]+$/.test(name)), ...buttons, ...actions, "user", "assistant"];
  for (const kind of ["message", "button", "action"]) assert.ok(source.includes(`part: \`${kind} \${`), kind);
  assert.deepEqual(names(element.cssParts), [...new Set(parts)].sort());
});

test("slots, custom properties and states", async () => {
  const labels = found(/\biconButton\("([^"]+)"/g).map((name) => `${name}-label`);
  const slots = [...found(/\bslot\("([^"]+)"/g), ...found(/"slot", \{ name: "([^"]+)"/g), ...labels].sort();
  assert.deepEqual(names(element.slots), slots);
  assert.deepEqual(names(element.cssProperties), found(/var\((--tabloom-[\w-]+)/g));
  const types = await readFile(join(template, "element/types.d.ts"), "utf8");
  const [, states] = /TabloomChatState = (.*);/.exec(types);
  const shown = states.split(" | ").map((name) => JSON.parse(name));
  assert.deepEqual(names(element.cssStates), shown.filter((name) => name !== "idle").sort());
});
