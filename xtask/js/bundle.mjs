// Bundles the demo page in a folder that has www/ and, as tabloom/, the package: node bundle.mjs SITE.
// Views stay chunks of their own, and so do the libraries in xtask/js/npm/. The package's files stay as they
// are: the worker runs from there. Prints, as JSON, which modules and styles the page and its worker load.
import { build } from "esbuild";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL("./", import.meta.url));
const site = process.argv[2];
if (!site) throw new Error("no folder named. Name that of the site: node xtask/js/bundle.mjs SITE");

/** @type {import("esbuild").BuildOptions & {metafile: true}} */
const COMMON = {
  absWorkingDir: site,
  outdir: site,
  allowOverwrite: true,
  bundle: true,
  splitting: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  metafile: true,
  logLevel: "error",
};

const libraries = await build({
  ...COMMON,
  absWorkingDir: here,
  entryPoints: readdirSync(join(here, "npm")).map((file) => join(here, "npm", file)),
  outdir: join(site, "npm"),
});
writeFileSync(join(site, "npm/licences.txt"), licences(Object.keys(libraries.metafile.inputs)));
const page = await build({ ...COMMON, entryPoints: ["main.js", "page.css"], chunkNames: "chunks/[name]-[hash]" });
preload(page.metafile.outputs);
const worker = await build({ ...COMMON, entryPoints: ["tabloom/worker.js"], write: false });
console.log(JSON.stringify([...Object.keys(page.metafile.outputs), ...Object.keys(worker.metafile.inputs)]));

/**
 * Names in index.html the chunks that main.js imports, which the browser would find one after the other.
 *
 * @param {import("esbuild").Metafile["outputs"]} outputs
 */
function preload(outputs) {
  const needed = new Set(["main.js"]);
  for (const file of needed) {
    for (const { path, kind } of outputs[file].imports) if (kind === "import-statement") needed.add(path);
  }
  needed.delete("main.js");
  const links = [...needed].map((path) => `<link rel="modulepreload" href="${path}" />`);
  const file = join(site, "index.html");
  writeFileSync(file, readFileSync(file, "utf8").replace("</head>", `${links.join("")}</head>`));
}

/**
 * The licences of the packages that files are from.
 *
 * @param {string[]} files
 */
function licences(files) {
  const folders = files.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? "");
  const texts = [...new Set(folders)].filter(Boolean).map((folder) => {
    const file = readdirSync(join(here, folder)).find((name) => /^licen[cs]e/i.test(name));
    if (!file) throw new Error(`${folder} has no licence`);
    return `${folder.replace(/^.*node_modules\//, "")}\n\n${readFileSync(join(here, folder, file), "utf8")}`;
  });
  return texts.join("\n\n");
}
