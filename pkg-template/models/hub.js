// Models by name: in a registry, or on Hugging Face, whose branches are pinned to a commit.
import { childOf, unlessAborted } from "../abort.js";
import { TabloomError, invalid } from "../error.js";
import { noValue } from "../found.js";
import { addressOf, encoded, isAddress } from "./address.js";
import { pinned } from "./entries.js";
import { models } from "./gguf.js";
import { REGISTRY } from "./registry.js";
import { KINDS } from "./store.js";

const HUB = "https://huggingface.co/";
/**
 * `org/name`, `:` and a quantisation, `@` and a revision, and a path within the repository. Pull requests are revisions
 * with slashes.
 */
const NAME = /^(?:hf:)?([\w.-]+\/[\w.-]+)(?::([\w.-]+))?(?:@(refs\/\w+\/[^/@\s]+|[^/@\s]+))?((?:\/[^/]+)*)$/;
const COMMIT = /^[\da-f]{40}$/;
/** Milliseconds for an answer. */
const PATIENCE = 60_000;

/**
 * Where a model is.
 *
 * @typedef {object} Found
 * @property {string} url
 * @property {string} [pin] the name that was resolved to it; none where a name always gives the same address
 */

/**
 * A branch or tag of a repository, or the file of a quantisation: the hub has to be asked for the commit
 * and the file.
 *
 * @typedef {object} Branch
 * @property {string} hub
 * @property {string} repository
 * @property {string} revision
 * @property {string} path of the folder or file within the repository, after a slash
 * @property {string | undefined} quantisation
 * @property {string} commits the address of the repository's commits
 * @property {string} pin
 */

/**
 * @param {unknown} name
 * @param {import("../types.js").LoadOptions} options
 * @param {string} [param] the name of the parameter, for errors
 * @returns {Promise<Found>}
 */
export async function find(name, options, param) {
  const meant = read(name, options, param);
  if ("url" in meant) return meant;
  const { hub, repository, revision, path, quantisation, commits, pin } = meant;
  const { signal, store = "cache" } = options;
  const before = await pinned(store, commits, pin);
  if (before) return { url: before, pin };
  const { sha, files } = await listing(hub, repository, revision, signal);
  const model = `${commits}${sha}${encoded(path)}`;
  if (/\.gguf$/i.test(path)) return { url: addressOf(model), pin };
  const folder = `${path.slice(1)}/`.replace(/^\//, "");
  const inside = files.filter((file) => file.startsWith(folder)).map((file) => file.slice(folder.length));
  const file = choose(inside, quantisation, `${repository}${path}`);
  return { url: addressOf(`${model}/${encoded(file)}`), pin };
}

/**
 * The addresses of kept models that a name was resolved to. The hub is not asked.
 *
 * @param {unknown} name
 * @param {import("../types.js").NameOptions} options
 * @param {string} [param] the name of the parameter, for errors
 * @returns {Promise<string[]>}
 */
export async function kept(name, options, param) {
  const meant = read(name, options, param);
  if ("url" in meant) return [meant.url];
  const found = await Promise.all(KINDS.map((kind) => pinned(kind, meant.commits, meant.pin)));
  return found.filter((url) => url !== undefined);
}

/**
 * The address or the branch that a name stands for.
 *
 * @param {unknown} name
 * @param {import("../types.js").NameOptions} options
 * @param {string} [param] the name of the parameter, for errors
 * @returns {{url: string} | Branch}
 */
function read(name, { registry, quantisation: asked, hub: mirror = HUB }, param = "model") {
  const known = { ...REGISTRY, ...registry };
  const meant = typeof name === "string" && Object.hasOwn(known, name) ? known[name] : name;
  const source = typeof meant === "string" ? meant.toWellFormed() : meant;
  if (typeof source === "string" && isAddress(source) && !asked) return { url: addressOf(source) };
  const parts = typeof source === "string" && !isAddress(source) ? NAME.exec(source) : null;
  if (!parts && asked) {
    throw noValue("quantisation", source, "a repository on Hugging Face");
  }
  if (!parts || /(^|\/)\.\.?(\/|$)/.test(parts[1] + parts[4])) throw unknown(param, source, Object.keys(known));
  const [, repository, named, given = "main", path] = parts;
  const quantisation = asked ?? named;
  // Hugging Face writes slashes in the names of branches like this.
  const revision = given.replace(/%2f/gi, "/");
  if (quantisation && /\.gguf$/i.test(path)) {
    throw invalid("quantisation", "found it with a file, expected a repository");
  }
  const hub = addressOf(mirror, "hub");
  if (/[?#]/.test(hub)) throw invalid("hub", "found a query, expected an address without one");
  const commits = `${hub}${repository}/resolve/`;
  if (COMMIT.test(revision) && !quantisation) return { url: addressOf(`${commits}${revision}${encoded(path)}`) };
  const pin = encodeURIComponent([revision, path, quantisation].join(" "));
  return { hub, repository, revision, path, quantisation, commits, pin };
}

/**
 * The GGUF file to load from a folder; empty if the folder itself is the model.
 *
 * @param {string[]} files
 * @param {string | undefined} quantisation
 * @param {string} where
 */
function choose(files, quantisation, where) {
  if (!quantisation && files.includes("config.json") && files.some((file) => /\.safetensors$/.test(file))) {
    return "";
  }
  const found = models(files, where.slice(where.indexOf("/")));
  const wanted = found.filter((file) => !quantisation || words(file).includes(words(quantisation)));
  if (wanted.length === 1) return wanted[0];
  // If the folder is no model, loading it reports why.
  if (!quantisation && found.length === 0) return "";
  const offered = wanted.length > 0 ? wanted : found;
  const names = offered.join(", ") || "no GGUF files";
  const advice = "name the file (hf:org/name/file.gguf) or its quantisation (org/name:Q4_K_M)";
  const problem = `found ${names} in ${where}, expected one for ${quantisation ?? "no quantisation"}: ${advice}`;
  throw Object.assign(invalid("quantisation", problem), { details: { files: offered } });
}

/**
 * A path with `-` around each of its words, of which `Q4_K_M` is one.
 *
 * @param {string} path
 */
function words(path) {
  return `-${path.toLowerCase().replace(/[./]/g, "-")}-`;
}

/**
 * The commit that a branch or tag is at, and the files of the repository.
 *
 * @param {string} hub
 * @param {string} repository
 * @param {string} revision
 * @param {AbortSignal | null} [signal]
 * @returns {Promise<{sha: string, files: string[]}>}
 */
async function listing(hub, repository, revision, signal) {
  const address = `${hub}api/models/${repository}/revision/${encodeURIComponent(revision)}`;
  const life = signal ? childOf(signal) : new AbortController();
  const timer = setTimeout(() => life.abort(unread(address, "it does not answer")), PATIENCE);
  try {
    const response = await unlessAborted(fetch(address, { signal: life.signal }), life.signal);
    if (!response.ok) throw unread(address, `HTTP status ${response.status}`);
    const { sha, siblings } = await unlessAborted(response.json(), life.signal);
    if (!COMMIT.test(sha) || !Array.isArray(siblings)) throw unread(address, "found no commit and files");
    return { sha, files: siblings.map(({ rfilename }) => `${rfilename}`) };
  } catch (/** @type {any} */ error) {
    if (life.signal.aborted) throw life.signal.reason;
    throw error instanceof TabloomError ? error : unread(address, error.message);
  } finally {
    clearTimeout(timer);
    life.abort();
  }
}

/**
 * @param {string} what
 * @param {string} reason
 */
function unread(what, reason) {
  const advice =
    'Check the model\'s name and revision, and that the repository is public and not gated; a folder of this site begins with "./" or "/"';
  const message = `could not read ${what}: ${reason}. ${advice}`;
  return new TabloomError({ code: "fetch", message, details: { what, reason } });
}

/**
 * @param {string} param
 * @param {unknown} name
 * @param {string[]} known
 */
function unknown(param, name, known) {
  const names = `a name of the registry (${known.join(", ")}) or on Hugging Face (org/name, org/name@revision, org/name:quantisation)`;
  return noValue(
    param,
    name,
    `${names}, or an address, which begins with a scheme, "/" or "." or ends with "/" or ".gguf"`,
  );
}
