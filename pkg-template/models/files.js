// Models of files that the page has.
import { TabloomError, invalid, kindOf } from "../error.js";
import { noValue, unread } from "../found.js";
import { encoded } from "./address.js";
import { isModel, models } from "./gguf.js";

/** Files that may be a model's. */
const OF_A_MODEL = /\.(json|jinja|safetensors|gguf|bin|pt)$/i;
/** Bytes per digest. */
const PIECE = 32 * 2 ** 20;

/**
 * A model of files, with an address of its own.
 *
 * @param {Exclude<import("../types.js").ModelSource, string | URL>} source
 * @param {AbortSignal | null} [signal]
 * @returns {Promise<import("./types.js").Model>}
 */
export async function local(source, signal) {
  const { name, files } = await gather(source).catch((error) => {
    throw error instanceof TabloomError ? error : unread("model", error);
  });
  return { url: `local:${await identity(files, signal)}/${encoded(name.toWellFormed())}`, files };
}

/**
 * The files of a model, and its name, which ends as an address would.
 *
 * @param {Exclude<import("../types.js").ModelSource, string | URL>} source
 * @returns {Promise<{name: string, files: Map<string, Blob>}>}
 */
async function gather(source) {
  // Not by `instanceof`: files of a frame are of other classes, and some browsers have no handles.
  const given = /** @type {any} */ (source);
  const kind = kindOf(given);
  switch (kind) {
    case "Blob":
    case "File":
      return gguf(given);
    case "FileSystemFileHandle":
      return gguf(await opened(given, () => given.getFile()));
    case "FileSystemDirectoryHandle":
      return choose(await opened(given, () => inside(given)), given.name);
  }
  if (isBytes(given)) return gguf(asBlob(given));
  const isList = typeof given !== "string" && Boolean(given?.[Symbol.iterator]);
  if (!isList && kind !== "Object") throw noValue("model", given, "an address, files or bytes");
  const entries = isList ? Array.from(given, pathed) : Object.entries(given);
  return choose(entries.map(([path, file]) => [path, asBlob(file)]));
}

/** @param {Blob} file */
function gguf(file) {
  const given = baseName(/** @type {File} */ (file).name ?? "model");
  const name = /\.gguf$/i.test(given) ? given : `${given}.gguf`;
  return { name, files: new Map([[name, file]]) };
}

/**
 * The files of a folder that may be a model's or its drafter's.
 *
 * @param {any} folder
 * @param {string} [path] of the folder
 */
async function inside(folder, path = "") {
  /** @type {[string, Blob][]} */
  const entries = [];
  for await (const [name, handle] of folder.entries()) {
    if (handle.kind === "directory") {
      if (path + name === "draft") entries.push(...(await inside(handle, "draft/")));
    } else if (OF_A_MODEL.test(name)) entries.push([path + name, await opened(handle, () => handle.getFile())]);
  }
  return entries;
}

/**
 * The model among files, by path: their only GGUF file that is one if none are safetensors; otherwise
 * those beside the outermost `config.json`, and in the folder `draft` there.
 *
 * @param {[string, Blob][]} entries
 * @param {string} [folderName]
 */
async function choose(entries, folderName) {
  const files = entries.filter(([path]) => OF_A_MODEL.test(path));
  const paths = files.map(([path]) => path);
  let ggufs = models(paths, folderName);
  if (ggufs.length > 1) {
    const whether = await Promise.all(files.map(([path, file]) => ggufs.includes(path) && isModel(file)));
    const certain = paths.filter((_, index) => whether[index]);
    if (certain.length > 0) ggufs = certain;
  }
  const isGguf = ggufs.length > 0 && !paths.some((path) => path.endsWith(".safetensors"));
  if (isGguf && ggufs.length > 1) {
    const problem = `found ${ggufs.length} models (${ggufs.join(", ")}), expected one: choose a file`;
    throw Object.assign(invalid("model", problem), { details: { files: ggufs } });
  }
  const depth = (/** @type {string} */ path) => path.split("/").length;
  const configs = paths.filter((path) => baseName(path) === "config.json");
  const [first = ""] = isGguf ? ggufs : configs.sort((a, b) => depth(a) - depth(b));
  const folder = first.slice(0, first.lastIndexOf("/") + 1);
  const inFolder = (/** @type {string} */ path) => (path.startsWith(folder) ? path.slice(folder.length) : "");
  const named = baseName(folder.slice(0, -1)) || folderName || "model";
  return {
    name: isGguf ? baseName(first) : `${named}/`,
    files: new Map(
      files.flatMap(([path, file]) => {
        const [, draft = "", name] = /^(draft\/)?([^/]+)$/.exec(inFolder(path)) ?? [];
        return name ? [[draft + baseName(name), file]] : [];
      }),
    ),
  };
}

/**
 * A digest of names, sizes and dates of files on disk, and of the bytes of others.
 *
 * @param {Map<string, Blob>} files
 * @param {AbortSignal | null} [signal]
 */
async function identity(files, signal) {
  // Without https, pages have no digests. They have no engine to share either, so any text will do.
  if (!globalThis.crypto?.subtle) return `${Math.random()}`.slice(2);
  const facts = [];
  for (const [name, file] of files) {
    const { lastModified = await digest(file, signal) } = /** @type {Partial<File>} */ (file);
    facts.push([name, file.size, lastModified]);
  }
  const [first] = await sha256(new TextEncoder().encode(JSON.stringify(facts.sort())));
  return first;
}

/**
 * Digests of a blob's pieces, of which one at a time is in memory.
 *
 * @param {Blob} file
 * @param {AbortSignal | null} [signal]
 */
async function digest(file, signal) {
  const digests = [];
  for (let start = 0; start < file.size; start += PIECE) {
    signal?.throwIfAborted();
    const piece = await file.slice(start, start + PIECE).arrayBuffer();
    digests.push((await sha256(piece)).join(""));
  }
  return digests;
}

/**
 * A digest as hexadecimal text, in two halves.
 *
 * @param {BufferSource} bytes
 */
async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const text = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [text.slice(0, 32), text.slice(32)];
}

/**
 * What a handle gives.
 *
 * @template T
 * @param {{name: string}} handle
 * @param {() => Promise<T>} open
 * @returns {Promise<T>}
 */
async function opened(handle, open) {
  try {
    return await open();
  } catch (error) {
    if (error instanceof TabloomError) throw error;
    const details = { what: handle.name, reason: `${error}` };
    const message = `could not read ${handle.name}: ${error}. Ask the visitor for permission, or to choose it again`;
    throw new TabloomError({ code: "fetch", message, details });
  }
}

/** @param {any} file */
function asBlob(file) {
  if (["Blob", "File"].includes(kindOf(file))) return file;
  if (isBytes(file)) return new Blob([file]);
  throw invalid("model", `found ${kindOf(file)} as a file, expected a Blob or bytes`);
}

/** @param {any} value */
function isBytes(value) {
  return ArrayBuffer.isView(value) || kindOf(value) === "ArrayBuffer";
}

/**
 * @param {any} file
 * @returns {[string, any]}
 */
function pathed(file) {
  return [file?.webkitRelativePath || file?.name || "", file];
}

/** @param {string} path */
function baseName(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}
