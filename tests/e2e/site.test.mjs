// The server of the demo page: its policy, parts of files, what it refuses; and pages that reload.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";
import { url } from "./browser.mjs";

const script = fileURLToPath(new URL("../../xtask/js/serve.mjs", import.meta.url));

/** Asks for a path as it stands: `fetch` would resolve `..` itself. */
async function ask(path, options = {}, address = url) {
  const { hostname, port } = new URL(address);
  const asked = request({ hostname, port, path, ...options }).end();
  const [response] = await once(asked, "response");
  const pieces = await response.toArray();
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(pieces) };
}

test("every file has the policy, and none is kept by browsers", async () => {
  for (const path of ["/", "/tabloom/worker.js", "/model/config.json"]) {
    const { status, headers } = await ask(path);
    assert.equal(status, 200, path);
    assert.match(headers["content-security-policy"], /default-src 'none'.*require-trusted-types-for 'script'/);
    assert.equal(headers["x-content-type-options"], "nosniff");
    assert.equal(headers["cache-control"], "no-store");
  }
});

test("a part of a file, and one beyond its end", async () => {
  const whole = await ask("/model/config.json");
  const part = await ask("/model/config.json", { headers: { range: "bytes=2-5" } });
  assert.equal(part.status, 206);
  assert.equal(part.headers["content-range"], `bytes 2-5/${whole.body.length}`);
  assert.deepEqual(part.body, whole.body.subarray(2, 6));
  const beyond = await ask("/model/config.json", { headers: { range: `bytes=${whole.body.length}-` } });
  assert.equal(beyond.status, 416);
});

test("scripts, styles, pages and the engine are compressed for who can read that; parts and models are not", async () => {
  const headers = { "accept-encoding": "gzip, deflate, br" };
  for (const path of ["/", "/page.css", "/main.js", "/icon.svg", "/tabloom/wasm/tabloom_bg.wasm"]) {
    const [whole, sent] = [await ask(path), await ask(path, { headers })];
    assert.equal(whole.headers["content-encoding"], undefined, path);
    // What is very short stays as it is.
    if (whole.body.length < 1024) continue;
    assert.equal(sent.headers["content-encoding"], "br", path);
    assert.match(sent.headers.vary, /Accept-Encoding/i);
    assert.ok(sent.body.length < whole.body.length / 2, `${path}: ${sent.body.length} of ${whole.body.length}`);
    assert.deepEqual(brotliDecompressSync(sent.body), whole.body);
  }
  for (const path of ["/model/tokenizer.json", "/model/model.safetensors"]) {
    const { headers: told, body } = await ask(path, { headers });
    assert.deepEqual([told["content-encoding"], told["content-length"]], [undefined, `${body.length}`], path);
  }
  const part = await ask("/main.js", { headers: { ...headers, range: "bytes=2-5" } });
  assert.deepEqual([part.status, part.headers["content-encoding"], part.body.length], [206, undefined, 4]);
});

test("HEAD has the length alone; other methods are refused", async () => {
  const { body } = await ask("/index.html");
  const head = await ask("/index.html", { method: "HEAD" });
  assert.deepEqual([head.status, head.headers["content-length"], head.body.length], [200, `${body.length}`, 0]);
  const post = await ask("/index.html", { method: "POST" });
  assert.deepEqual([post.status, post.headers.allow], [405, "GET, HEAD"]);
});

test("nothing outside the folder is served, however it is written", async () => {
  const up = ["/../Cargo.toml", "/../../Cargo.toml", "/model/../../../Cargo.toml", "/..%2f..%2fCargo.toml"];
  for (const path of [...up, "/%2e%2e/%2e%2e/Cargo.toml", "/%2e%2e%2f%2e%2e%2fCargo.toml", "/nothing", "/%E0%A4%A"]) {
    assert.equal((await ask(path)).status, 404, path);
  }
});

test("a page that is being written reloads, and may be tried in play/", { timeout: 60_000 }, async () => {
  const root = await mkdtemp(join(tmpdir(), "tabloom-site-"));
  for (const folder of ["www", "pkg-template", "play", "built"]) await mkdir(join(root, folder));
  await writeFile(join(root, "www/index.html"), "<!doctype html>");
  await writeFile(join(root, "www/sw.js"), "");
  await writeFile(join(root, "pkg-template/index.js"), "source");
  await writeFile(join(root, "built/other.js"), "built");
  const env = { ...process.env, TABLOOM_SOURCES: root };
  const server = spawn(process.execPath, [script, join(root, "built"), "0", "--watch"], { env });
  try {
    const [line] = await once(server.stdout, "data");
    const address = `${line}`.trim();
    const text = async (path) => `${(await ask(path, {}, address)).body}`;
    assert.match(await text("/"), /reload\.js/);
    assert.equal(await text("/tabloom/index.js"), "source");
    assert.equal(await text("/other.js"), "built");
    assert.equal((await ask("/sw.js", {}, address)).status, 404);
    assert.equal((await ask("/play/../../secret", {}, address)).status, 404);

    const changes = request(`${address}changes`).end();
    const [events] = await once(changes, "response");
    await writeFile(join(root, "play/try.html"), "tried");
    assert.match(`${(await once(events, "data"))[0]}`, /^data: changed/);
    assert.equal(await text("/play/try.html"), "tried");
    changes.destroy();
  } finally {
    server.kill();
    await rm(root, { recursive: true });
  }
});
