// The package's own scripts, for realms of the simulation.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const PACKAGE = new URL("../../../pkg-template/", import.meta.url);
const HOST = fileURLToPath(new URL("../fake-host.js", import.meta.url));

/** Where the site has the package. */
const SITE = "https://site.example/tabloom/index.js";

/**
 * A change to a source file: what to find in it, once, and what to have in its place.
 *
 * @typedef {{file: string, find: string, replace: string}} Change
 */

/**
 * The page's and the worker's scripts, with the scripted host in the WebAssembly module's place.
 *
 * @param {Change[]} [changes]
 */
export async function scripts(changes = []) {
  return { page: await script("index.js", changes), worker: await script("worker.js", changes) };
}

/**
 * A function that runs a script with globals of its own, and gives its exports.
 *
 * @param {string} entry
 * @param {Change[]} changes
 * @returns {Promise<(globals: Record<string, unknown>) => any>}
 */
async function script(entry, changes) {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(entry, PACKAGE))],
    bundle: true,
    write: false,
    format: "iife",
    globalName: "exported",
    define: { "import.meta.url": JSON.stringify(SITE) },
    plugins: [{ name: "scripts", setup: (build) => prepare(build, changes) }],
  });
  const [{ text }] = outputFiles;
  /** @type {Map<string, Function>} one for each list of globals */
  const compiled = new Map();
  return (globals) => {
    const names = Object.keys(globals);
    const key = names.join();
    if (!compiled.has(key)) compiled.set(key, new Function(...names, `${text}\nreturn exported;`));
    return /** @type {Function} */ (compiled.get(key))(...Object.values(globals));
  };
}

/**
 * @param {import("esbuild").PluginBuild} build
 * @param {Change[]} changes
 */
function prepare(build, changes) {
  build.onResolve({ filter: /wasm\/tabloom\.js$/ }, () => ({ path: HOST }));
  build.onResolve({ filter: /wasm\/grammar\.js$/ }, ({ path }) => ({ path, external: true }));
  build.onLoad({ filter: /pkg-template.*\.js$/ }, ({ path }) => {
    let contents = readFileSync(path, "utf8");
    for (const { file, find, replace } of changes) {
      if (!path.endsWith(`/${file}`)) continue;
      if (contents.split(find).length !== 2) throw new Error(`${file} does not have once: ${find}`);
      contents = contents.replace(find, () => replace);
    }
    return { contents, loader: "js" };
  });
}
