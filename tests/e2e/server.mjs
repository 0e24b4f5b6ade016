// The demo page's files behind a server of the test's own, with some files replaced.
import { createHash } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { url } from "./browser.mjs";

/** @typedef {Record<string, string | Buffer | ((response: import("node:http").ServerResponse) => void)>} Files */

/**
 * Starts a server on 127.0.0.1 that has the demo page's files and those of `folders`.
 *
 * A folder, by its name, lists files with their contents: text, bytes, or a function that answers
 * by itself. Below `models/` a file that its folder does not list is the built-in model's, below
 * `packages/` the package's. `requests` fills up with the paths asked for.
 *
 * @param {Record<string, Files>} folders
 * @param {Record<string, string>} [headers] of every file, in place of the site's own
 */
export async function serve(folders, headers = {}) {
  const requests = [];
  const server = createServer(async (request, response) => {
    const path = request.url.slice(1).split("?")[0];
    requests.push(path);
    const slash = path.lastIndexOf("/") + 1;
    const [folder, file] = [path.slice(0, slash), path.slice(slash)];
    const found = folders[folder]?.[file];
    if (typeof found === "function") return found(response);
    if (found !== undefined) {
      return send(response, 200, { "content-type": type(file), ...headers }, found);
    }
    const { status, kept, body } = await original(stored(path));
    send(response, status, { ...kept, ...headers }, body);
  });
  await /** @type {Promise<void>} */ (new Promise((resolve) => server.listen(0, "127.0.0.1", resolve)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  // A test that fails before it closes the server does not keep the others waiting.
  server.unref();
  return {
    url: `http://127.0.0.1:${port}/`,
    requests,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** What the site has, which stays as it is: each file is asked for once. */
const originals = new Map();

/** A file of the site. */
function original(path) {
  if (!originals.has(path)) originals.set(path, ask(path));
  return originals.get(path);
}

async function ask(path) {
  const response = await fetch(`${url}${path}`);
  const kept = ["content-type", "content-security-policy"].map((name) => [name, response.headers.get(name) ?? ""]);
  return { status: response.status, kept: Object.fromEntries(kept), body: Buffer.from(await response.arrayBuffer()) };
}

/** Where the site has what another folder shows. */
function stored(path) {
  return path.replace(/^models\/[^/]*/, "model").replace(/^packages\/[^/]*/, "tabloom");
}

function type(file) {
  const known = { html: "text/html", js: "text/javascript", mjs: "text/javascript" };
  return known[file.split(".").pop()] ?? "application/octet-stream";
}

function send(response, status, headers, body) {
  response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(body) });
  response.end(body);
}

/**
 * Answers with `bytes`, or with the range of them that is asked for.
 *
 * @param {import("node:http").ServerResponse} response
 * @param {Buffer} bytes
 */
export function sendPart(response, bytes) {
  const { range } = response.req.headers;
  const [, start, last] = range?.match(/^bytes=(\d+)-(\d*)$/) ?? [0, "0", ""];
  const end = last ? Number(last) + 1 : bytes.length;
  const body = bytes.subarray(Number(start), end);
  const headers = { "content-length": body.length, "accept-ranges": "bytes" };
  if (range) headers["content-range"] = `bytes ${start}-${end - 1}/${bytes.length}`;
  response.writeHead(range ? 206 : 200, headers);
  response.end(body);
}

/** A file of the built-in model. */
export async function modelFile(file) {
  const { status, body } = await original(`model/${file}`);
  if (status !== 200) throw new Error(`model/${file}: ${status}`);
  return Buffer.from(body);
}

/** A new folder with the files of the built-in model. */
export async function modelFolder() {
  const folder = await mkdtemp(join(tmpdir(), "own-model-"));
  for (const name of ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]) {
    await writeFile(join(folder, name), await modelFile(name));
  }
  return folder;
}

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** The policy of the site. */
export const policy = (await original("")).kept["content-security-policy"];
