// The words of the page and of the element: each language has all of them, and nothing is said beside them.
import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";
import { describe, test } from "node:test";

const root = new URL("../../", import.meta.url);
const read = (path) => readFile(new URL(path, root), "utf8");
const table = async (path) => (await import(`${new URL(path, root)}`)).default;
const { ALL: TEXTS } = await import(`${new URL("pkg-template/element/view/later.js", root)}`);
const { sentenceOf } = await import(`${new URL("pkg-template/element/view/problems.js", root)}`);
const page = await read("www/index.html");

const OTHERS = ["de", "es", "fr", "ja", "zh"];
/** Words that are the same in every language. */
const NAMES = ["Tabloom", "✕"];

/**
 * What index.html says, by name, with `{0}` for the first element within.
 *
 * @param {string} html
 * @param {Record<string, string>} [found]
 */
function said(html, found = {}) {
  for (const [, , name, inner] of html.matchAll(/<(\w+)[^<>]* data-text="(\w+)"[^<>]*>(.*?)<\/\1>/gs)) {
    let i = 0;
    const text = inner.replace(ELEMENT, () => `{${i++}}`).replace(/\s+/g, " ");
    assert.equal(found[name] ?? text.trim(), text.trim(), `${name} says two things`);
    found[name] = text.trim();
    said(inner, found);
  }
  for (const [, attribute, text, name] of html.matchAll(/ ([\w-]+)="([^"]*)" data-\1="(\w+)"/g)) {
    assert.equal(found[name] ?? text, text, `${name}, ${attribute}`);
    found[name] = text;
  }
  return found;
}

/** An element without others of its kind within. */
const ELEMENT = /<(\w+)[^<>]*(?:\/>|>.*?<\/\1>)/gs;

/** Every text of a table by its path. */
function flat(value, path = "", all = {}) {
  if (typeof value === "string") all[path] = value;
  else for (const [name, inner] of Object.entries(value)) flat(inner, path ? `${path}.${name}` : name, all);
  return all;
}

/** What a text leaves open. */
const open = (text) => (text.match(/\{\w+\}/g) ?? []).sort();

function compare(english, other) {
  const [wanted, found] = [flat(english), flat(other)];
  assert.deepEqual(Object.keys(found).sort(), Object.keys(wanted).sort());
  for (const [name, text] of Object.entries(wanted)) {
    assert.deepEqual(open(found[name]), open(text), name);
    assert.ok(found[name].trim(), name);
  }
}

describe("each language has all that English has", () => {
  for (const code of OTHERS) {
    test(`the element's texts: ${code}`, async () => {
      compare(TEXTS, await table(`pkg-template/element/texts/${code}.js`));
    });

    test(`the page's texts: ${code}`, async () => {
      compare({ html: said(page), ...(await table("www/texts/en.js")) }, await table(`www/texts/${code}.js`));
    });
  }

  test("the app that can be installed has its name and what it is", async () => {
    const manifest = JSON.parse(await read("www/manifest.webmanifest"));
    const { title, description } = said(page);
    assert.deepEqual([manifest.name, manifest.description], [title, description]);
    for (const code of OTHERS) {
      const { html } = await table(`www/texts/${code}.js`);
      const { name_localized: names, description_localized: descriptions } = manifest;
      assert.deepEqual([names[code], descriptions[code]], [html.title, html.description], code);
    }
  });

  test("there are no other tables", async () => {
    const files = async (path) => (await readdir(new URL(path, root))).sort();
    const others = OTHERS.map((code) => `${code}.js`);
    assert.deepEqual(await files("pkg-template/element/texts/"), [...others, "index.js"].sort());
    assert.deepEqual(await files("www/texts/"), [...others, "en.js"].sort());
  });
});

test("what visitors are told of an error is in their language, whatever its code", async () => {
  const union = await read("pkg-template/types/errors.d.ts");
  const codes = [...union.matchAll(/\| "(\w+)"/g)].map(([, code]) => code);
  assert.ok(codes.length > 30, codes.join());
  const told = (code) => sentenceOf({ code, message: "found x, expected y" });
  // What only whoever writes a page meets.
  const own = ["aborted", "model_busy", "no_token_allowed", "not_found", "method_not_allowed", "model_not_found"];
  for (const code of [...codes, undefined, "tired"]) {
    const text = told(code);
    assert.ok(Object.values(TEXTS).includes(text), `${code}: ${text}`);
    const unexpected = [...own, "server_error", undefined, "tired"].includes(code);
    if (!unexpected) assert.notEqual(text, TEXTS.unexpected, code);
  }
  assert.match(told("template"), /^The model is not made for chats\./);
  const english = { ...TEXTS };
  Object.assign(TEXTS, await table("pkg-template/element/texts/de.js"));
  assert.match(told("fetch"), /^Das Modell konnte nicht heruntergeladen werden\./);
  Object.assign(TEXTS, english);
  // What was put into words before stays.
  assert.equal(sentenceOf({ code: "fetch", message: "told", cause: {} }), "told");
});

describe("nothing is said beside the tables", () => {
  test("each text of index.html has a name", () => {
    const unnamed = page
      .replace(/<(\w+)[^<>]* data-text="\w+"[^<>]*>.*?<\/\1>/gs, "")
      .replace(/<[^>]*>/g, " ")
      .split(/\s+/)
      .filter((word) => word && !NAMES.includes(word));
    assert.deepEqual(unnamed, []);
    const attributes = [...page.matchAll(/ (aria-label|placeholder|title|alt)="([^"]+)"(?! data-\1=)/g)];
    assert.deepEqual(
      attributes.map(([, , text]) => text),
      ["HuggingFaceTB/SmolLM2-135M-Instruct"],
    );
  });

  test("no module has sentences of its own", async () => {
    const page = (await modules("www/")).filter((file) => !file.startsWith("www/texts/"));
    const tables = /element\/(?:texts\/|texts\.js|view\/later\.js)/;
    const element = (await modules("pkg-template/element/")).filter((file) => !tables.test(file));
    const found = await Promise.all(
      [...page, ...element].map(async (file) => sentences(await read(file)).map((text) => `${file}: ${text}`)),
    );
    assert.deepEqual(found.flat(), []);
  });

  test("each text of the tables is used where it belongs", async () => {
    const sources = await Promise.all((await modules("www/")).filter((file) => !/\/texts\//.test(file)).map(read));
    // The element says what its own group has.
    const { element, ...groups } = await table("www/texts/en.js");
    const all = sources.join("\n").replace(/^import .*$/gm, "");
    const unused = Object.entries(groups).flatMap(([group, texts]) =>
      Object.keys(texts)
        .filter((name) => !sources.some((code) => uses(code, `texts.${group}`, name)))
        // Where texts are looked up, their names are in another table.
        .filter((name) => !LOOKED_UP.includes(group) || !new RegExp(`\\b${name}\\b`).test(all))
        .map((name) => `${group}.${name}`),
    );
    assert.deepEqual(unused, []);
    const own = await Promise.all(
      (await modules("pkg-template/element/")).filter((file) => !/texts\//.test(file)).map(read),
    );
    const parts = [...own, await read("pkg-template/element.js"), ...sources];
    // How an answer has ended and whose a message is are names of texts; so are kinds of errors, and stages.
    const dynamic = ["user", "assistant", "length", "full", "stopped", "download", "compile"];
    assert.deepEqual(
      Object.keys(TEXTS).filter(
        (name) =>
          !dynamic.includes(name) &&
          !parts.some(
            (code) =>
              code.includes(`TEXTS.${name}`) || (/const CODES/.test(code) && new RegExp(`\\b${name}\\b`).test(code)),
          ),
      ),
      [],
    );
  });

  test("the model's button says what it leads to before any script has run", () => {
    assert.match(page, /<span id="model-name" data-text="builtIn">Built-in model<\/span>/);
  });
});

/**
 * The modules in a folder.
 *
 * @param {string} folder
 */
async function modules(folder) {
  const files = await readdir(new URL(folder, root), { recursive: true });
  return files.filter((file) => file.endsWith(".js")).map((file) => folder + file);
}

/**
 * Whether a module uses a text: by its whole name, by a short name for its group, or by taking it out of the group.
 *
 * @param {string} code
 * @param {string} group
 * @param {string} name
 */
function uses(code, group, name) {
  const [, short = group] = new RegExp(`const (\\w+) = ${group};`).exec(code) ?? [];
  const from = `(?:${group}|\\b${short})`;
  if (new RegExp(`${from}\\.${name}\\b`).test(code)) return true;
  if (new RegExp(`\\{[^{}]*\\b${name}\\b[^{}]*\\} = ${from};`).test(code)) return true;
  return false;
}

/** Groups whose texts are looked up by a name that is a value. */
const LOOKED_UP = ["models", "examples", "schema"];

/** Strings that look like words and are none of the page's. */
const CODE = [
  // Questions that the built-in model understands, and what it says.
  /^(?:Tell me|What is|How many|What sound|A cat) .*[.?]$|: Tell me a story about a fox\.$/,
  // Names of engines, models and licences.
  /^(?:Tabloom,|wllama|transformers\.js|SmolLM2|Qwen[\d.]+|Apache) /,
  // Names of the browser's keys, errors and kinds.
  /^(?:Arrow\w+|Home|End|Enter|Escape|Delete|Backspace|AbortError|VersionError|Files|PageUp)$/,
  // Patterns, grammars, paths and markup.
  /[<>#^@%]|::|\d \d/,
  // Messages between scripts, and what only developers read.
  /^take over$| is no script of this page$| is not what was built$/,
  /^found .+, expected |^a list with null |^the page ended in |^a chat that is not: |, or call stop\(\)$/,
  // Names of styles and parts.
  /^(?:button|round|pill|noopener) [a-z ]+$|^\(pointer: coarse\)$/,
  // Code between two quotation marks.
  /\/g\)\)/,
];

/**
 * The strings of a module that may be words for visitors: those with blanks between words, and single
 * words with a capital. What is between `${` and `}` is code.
 *
 * @param {string} code
 */
function sentences(code) {
  const bare = code
    .replace(/\/\*.*?\*\//gs, "")
    .replace(/^\s*\/\/.*$/gm, "")
    .replace(/^import .*$/gm, "");
  const strings = [...bare.matchAll(/"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g)].map(([, a, b]) => a ?? b);
  return strings
    .map((text) => text.replace(/\$\{[^}]*\}/g, "1"))
    .filter((text) => /\p{L}{2}.* .*\p{L}{2}/su.test(text) || /^\p{Lu}\p{Ll}{2,}[.…:]?$/u.test(text))
    .filter((text) => !CODE.some((pattern) => pattern.test(text)));
}
