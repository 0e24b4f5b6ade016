// Compares a built package with what the repository keeps of it for review: its sizes, its declarations
// and the reference of the element and of metrics. node kept.mjs PACKAGE SIZES [--accept], where SIZES is
// what `cargo xtask package --json` prints; --accept writes the files anew.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { element } from "./manifest.mjs";

const [folder, measured, accept] = process.argv.slice(2);
const root = fileURLToPath(new URL("../../", import.meta.url));
const PAGE = "docs/reference/element.md";
const METRICS = "docs/reference/metrics.md";
const SIZES = "docs/sizes.json";
/** Types that only constructors take which the package alone calls. */
const INTERNAL = ["calls/calls.d.ts"];

/** @param {string} path */
const kept = (path) => (existsSync(join(root, path)) ? readFileSync(join(root, path), "utf8") : "");
/** @param {string} path */
const built = (path) => readFileSync(join(folder, path), "utf8");

/**
 * Bytes of the minified modules, by part and by file. What compilers make differs with the machine, and
 * what Brotli makes with Node: both have limits instead, in sizes.rs.
 */
function sizes() {
  /** @type {Record<string, number>} */
  const parts = {};
  /** @type {Record<string, number>} */
  const files = {};
  const list = JSON.parse(measured).files;
  list.sort((/** @type {{path: string}} */ a, /** @type {{path: string}} */ b) => (a.path < b.path ? -1 : 1));
  for (const { path, part, raw } of list) {
    if (path.startsWith("wasm/")) continue;
    parts[part] = (parts[part] ?? 0) + raw;
    files[path] = raw;
  }
  return { parts, files };
}

/** What the package's entries declare, with the types of it that they name. */
function declarations() {
  /** @type {Map<string, string>} */
  const files = new Map();
  /** @param {string} file */
  const add = (file) => {
    if (files.has(file) || INTERNAL.includes(file)) return;
    const code = bare(built(file));
    files.set(file, code);
    for (const [, path] of code.matchAll(/(?: from |import\()"(\.[^"]*)\.js"/g)) {
      add(posix.join(posix.dirname(file), `${path}.d.ts`));
    }
  };
  for (const { types } of Object.values(JSON.parse(built("package.json")).exports)) {
    // Those of a pattern are alike.
    if (types && !types.includes("*")) add(posix.normalize(types));
  }
  return [...files]
    .sort()
    .map(([file, code]) => `// ${file}\n${code}`)
    .join("\n");
}

/**
 * Declarations without comments and blank lines.
 *
 * @param {string} text
 */
function bare(text) {
  const code = text.replace(/("(?:[^"\\\n]|\\.)*"|`[^`]*`)|\/\*.*?\*\/|\/\/[^\n]*/gs, "$1");
  return `${code.replace(/\s+$/gm, "").trim()}\n`;
}

/**
 * The page about the element with its tables made anew, each between two comments.
 *
 * @param {string} page
 */
function reference(page) {
  return page.replace(/(<!-- (\w+) of the manifest -->\n).*?(\n<!-- end -->)/gs, (_, begin, what, end) => {
    const kind = /** @type {keyof typeof HEADS} */ (what);
    const rows = element[kind].map(row);
    return `${begin}\n| ${HEADS[kind]} |\n|---|---|\n${rows.join("\n")}\n${end}`;
  });
}

/** The tables that the page may have. */
const HEADS = {
  attributes: "Attribute | Meaning",
  events: "Event | When, and its `detail`",
  slots: "Slot | What it holds",
  cssProperties: "Property | Meaning",
  cssParts: "Part | What it is",
  cssStates: "State | When",
};

/** @param {{name: string, fieldName?: string, description: string}} entry */
function row({ name, fieldName = name, description }) {
  const other = fieldName === name ? "" : ` (property \`${fieldName}\`)`;
  return `| \`${name}\`${other} | ${description.replaceAll("|", "\\|")} |`;
}

/**
 * The page about metrics with its tables made anew, each of an interface and between two comments.
 *
 * @param {string} page
 */
function metrics(page) {
  const types = kept("pkg-template/types/metrics.d.ts");
  return page.replace(/(<!-- (\w+) of the types -->\n).*?(\n<!-- end -->)/gs, (_, begin, name, end) => {
    const [, body = ""] = new RegExp(`interface ${name}\\b[^{]*{\n(.*?)\n}`, "s").exec(types) ?? [];
    const rows = [...body.matchAll(/ {2}\/\*\* (.*?)\.? \*\/\n {2}(\w+): (.*);/g)].map(([, text, field, type]) => {
      const meaning = text.replace(/^[A-Z](?![A-Z])/, (first) => first.toLowerCase());
      return `| \`${field}\` | \`${type.replaceAll("|", "\\|")}\` | ${meaning} |`;
    });
    if (rows.length !== body.split(";\n").length) throw new Error(`${name}: each field needs a comment of one line`);
    return `${begin}\n| Field | Type | Meaning |\n|---|---|---|\n${rows.join("\n")}\n${end}`;
  });
}

/** Says which files have another size than before. */
function compareSizes() {
  const before = JSON.parse(kept(SIZES) || '{"parts":{},"files":{}}');
  const now = sizes();
  for (const [kind, list] of Object.entries(now)) {
    for (const name of new Set([...Object.keys(before[kind]), ...Object.keys(list)])) {
      const [old = 0, bytes = 0] = [before[kind][name], list[name]];
      if (old !== bytes)
        console.log(`${name}: ${bytes - old > 0 ? "+" : ""}${bytes - old} bytes, ${bytes} instead of ${old}`);
    }
  }
}

/** @type {[path: string, text: string][]} */
const files = [
  [SIZES, `${JSON.stringify(sizes(), null, 2)}\n`],
  ["docs/api/report.d.ts", declarations()],
  [PAGE, reference(kept(PAGE))],
  [METRICS, metrics(kept(METRICS))],
];
const changed = files.filter(([path, text]) => kept(path) !== text);
compareSizes();
for (const [path, text] of changed) {
  const place = join(accept ? root : join(folder, "../kept"), path);
  mkdirSync(dirname(place), { recursive: true });
  writeFileSync(place, text);
  if (!accept && path !== SIZES && kept(path)) {
    spawnSync("git", ["diff", "--no-index", "--", join(root, path), place], { stdio: "inherit" });
  }
  console.log(`${path} ${accept ? "is written" : "differs: if that is meant, cargo xtask package --accept"}`);
}
process.exitCode = changed.length > 0 && !accept ? 1 : 0;
