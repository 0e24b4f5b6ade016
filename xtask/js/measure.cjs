// Prints, as JSON, what the code in a package's folder weighs, and which part of a page needs it.
const { readFileSync } = require("node:fs");
const { join, relative } = require("node:path");
const { brotliCompressSync, gzipSync } = require("node:zlib");
const esbuild = require("esbuild");

const [folder, ...files] = process.argv.slice(1);

/** What a page loads at once. Everything else it loads when it asks for it. */
const AT_ONCE =
  /^(abort|error|index|locks|memory|types|version|calls\/(arguments|calls|stream|tokens)|host\/(connection|heartbeat|ladder|page|session|worker-script|rungs\/(dedicated|greeting|private|shared))|models\/(address|kept|source)|prompt-api\/interface)\.js$/;

/** @param {Uint8Array} bytes */
const weigh = (bytes) => ({
  raw: bytes.length,
  gzip: gzipSync(bytes, { level: 9 }).length,
  brotli: brotliCompressSync(bytes).length,
});

/**
 * Bundles modules, on paper: gives what was read and what came out.
 *
 * @param {string[]} entries
 */
function bundle(entries) {
  const outdir = join(folder, "bundle");
  return esbuild.buildSync({
    entryPoints: entries.map((entry) => join(folder, entry)),
    bundle: true,
    splitting: true,
    minify: true,
    format: "esm",
    write: false,
    metafile: true,
    absWorkingDir: folder,
    outdir,
    logLevel: "error",
  });
}

/**
 * The modules that come with one, by `import` statements alone.
 *
 * @param {Record<string, {imports: {path: string, kind?: string}[]}>} modules
 * @param {string} entry
 */
function closure(modules, entry, found = new Set()) {
  if (found.has(entry)) return found;
  found.add(entry);
  for (const { path, kind } of modules[entry].imports) {
    if (kind === "import-statement") closure(modules, path, found);
  }
  return found;
}

const { metafile } = bundle(["index.js", "worker.js", "element.js", "prompt-api.js"]);
const early = [...closure(metafile.inputs, "index.js")].filter((path) => !AT_ONCE.test(path));
if (early.length > 0) throw new Error(`index.js must load on demand, and not by an import: ${early.join(", ")}`);

/** @type {[string, Set<string>][]} */
const parts = [
  ["client", closure(metafile.inputs, "index.js")],
  // The worker imports the module when a page first has a message for it.
  ["worker", closure(metafile.inputs, "worker.js").add("wasm/tabloom.js").add("wasm/tabloom_bg.wasm")],
  ["element", closure(metafile.inputs, "element.js")],
];

const measured = files.map((file) => {
  const path = relative(folder, file).split("\\").join("/");
  const [part] = parts.find(([, paths]) => paths.has(path)) ?? ["on demand"];
  return { path, part, ...weigh(readFileSync(file)) };
});

const client = bundle(["index.js"]);
const chunks = closure(client.metafile.outputs, "bundle/index.js");
const bundled = client.outputFiles.filter(({ path }) => chunks.has(relative(folder, path)));
console.log(JSON.stringify({ files: measured, bundled: bundled.map(({ contents }) => weigh(contents)) }));
