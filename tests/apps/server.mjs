// Serves what an app's build made, as a host of static files does, with the built-in model beside it.
import { createServer } from "node:http";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import sirv from "sirv";
import { modelFile } from "../e2e/server.mjs";

/** Where apps have their model, below their own path. */
const MODEL = "models/my-model/";
const FILES = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];

/**
 * @param {string} folder
 * @param {{base?: string, headers?: Record<string, string>}} [options] `base`: the path below which the
 *   app is; `headers` of every file
 */
export async function serveApp(folder, { base = "/", headers = {} } = {}) {
  // No file is taken from the browser's cache without a question.
  const all = { "cache-control": "no-cache", ...headers };
  const setHeaders = (response) => response.setHeaders(new Map(Object.entries(all)));
  const files = sirv(folder, { dev: true, extensions: ["html"], setHeaders });
  const server = createServer(async (request, response) => {
    const path = request.url.split("?")[0];
    if (path.startsWith(base + MODEL)) {
      const body = await modelFile(path.slice((base + MODEL).length)).catch(() => null);
      return response.writeHead(body ? 200 : 404, all).end(body);
    }
    const missing = () => response.writeHead(404).end();
    if (!path.startsWith(base)) return missing();
    request.url = request.url.slice(base.length - 1);
    files(request, response, missing);
  });
  await /** @type {Promise<void>} */ (new Promise((resolve) => server.listen(0, "127.0.0.1", resolve)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    origin: `http://127.0.0.1:${port}`,
    async close() {
      if (!server.listening) return;
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * The built-in model as files of an app's own.
 *
 * @param {string} folder
 */
export async function addModel(folder) {
  await mkdir(folder, { recursive: true });
  for (const file of FILES) await writeFile(join(folder, file), await modelFile(file));
}
