// Apps made of the examples in the package's README: built by bundlers without settings, opened under a
// strict policy, and served while they are developed.
import assert from "node:assert/strict";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { build } from "esbuild";
import * as vite from "vite";
import webpack from "webpack";
import { serve } from "../e2e/server.mjs";
import { install, read, shown, tools } from "./project.mjs";

/** What the README's examples leave out: a module that is loaded on demand, and which worker answers. */
const CONSTRAINED = `
import { Engine } from "tabloom";

const engine = await Engine.load("/models/my-model/");
const messages = [{ role: "user", content: "Tell me a story about a fox." }];
const params = { messages, structured_outputs: { choice: ["a red fox"] } };
const { choices } = await engine.chat.completions.create(params);
document.body.append(engine.host + ": " + choices[0].message.content);
`;

/** One after the other. */
const MAIN = `
for (const load of [() => import("./stream.js"), () => import("./openai.js"), () => import("./constrained.js")]) {
  await load();
  document.body.append(" | ");
}
`;

let project;

before(async () => {
  project = await install();
  await symlink(join(tools, "openai"), join(project.folder, "node_modules/openai"));
  const [stream, openai] = project.examples.js;
  const files = { "stream.js": stream, "openai.js": openai, "constrained.js": CONSTRAINED, "main.js": MAIN };
  for (const [file, text] of Object.entries(files)) await project.write(file, text);
});

after(() => project?.remove());

/** The page of an app, whose script is at `src`. */
const page = (src) => `<!doctype html><title>App</title><body><script type="module" src="${src}"></script>`;

/** What the app has shown, once it is through. */
const parts = () => document.body.textContent.match(/^(.+) \| (.+) \| (.+) \| $/s)?.slice(1);

function check([stream, openai, constrained]) {
  assert.match(stream, /fox/i);
  assert.match(openai, /fox/i);
  assert.equal(constrained, "shared: a red fox");
}

/** Ways to build the app into the folder `dist`; each gives its warnings. */
const bundlers = {
  async vite(root) {
    const warnings = [];
    const customLogger = vite.createLogger("warn");
    customLogger.warn = customLogger.warnOnce = (warning) => warnings.push(warning);
    await project.write("index.html", page("/main.js"));
    // How long its plugins take is the machine's affair.
    const build = { rolldownOptions: { checks: { pluginTimings: false } } };
    await vite.build({ root, configFile: false, logLevel: "warn", customLogger, build });
    return warnings;
  },
  async webpack(context) {
    // Its hints on performance are about the size of any WebAssembly.
    /** @type {import("webpack").Configuration} */
    const config = { context, mode: "production", entry: "./main.js", performance: { hints: false } };
    const compiler = webpack({ ...config, output: { path: join(context, "dist"), clean: true } });
    const stats = await promisify(compiler.run.bind(compiler))();
    await promisify(compiler.close.bind(compiler))();
    await project.write("dist/index.html", page("/main.js"));
    const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true });
    return [...errors, ...warnings].map(({ message }) => message);
  },
};

for (const [name, bundle] of Object.entries(bundlers)) {
  test(`an app built by ${name} answers`, async () => {
    assert.deepEqual(await bundle(project.folder), []);
    const { found, requests } = await shown(join(project.folder, "dist"), parts);
    check(found);
    assert.equal(requests.filter((path) => path.endsWith(".wasm")).length, 2, requests.join());
    assert.ok(
      requests.every((path) => !path.startsWith("tabloom/")),
      requests.join(),
    );
  });
}

test("an app that is no module needs the worker's address, and says so", async () => {
  const code = (options) => `
    import { Engine } from "tabloom";
    const loading = Engine.load("/models/my-model/", ${options});
    loading.then(({ host }) => host, ({ code, message }) => code + ": " + message).then((text) => document.body.append(text));`;
  const dist = join(project.folder, "dist");
  /** @type {[options: string, expected: RegExp][]} */
  const cases = [
    ["{}", /^no_host: .*workerUrl/],
    [`{ workerUrl: "/tabloom/worker.js" }`, /^shared$/],
  ];
  for (const [options, expected] of cases) {
    const stdin = { contents: code(options), resolveDir: project.folder };
    await build({ stdin, bundle: true, format: "iife", logLevel: "silent", outfile: join(dist, "main.js") });
    await project.write("dist/index.html", `<!doctype html><title>App</title><body><script src="/main.js"></script>`);
    const { found } = await shown(dist, () => document.body.innerText.trim());
    assert.match(found, expected);
  }
});

test("an app on Vite's server for developers answers", async () => {
  const site = await serve({});
  const proxy = { "/models": site.url };
  const server = { host: "127.0.0.1", port: 0, proxy, ws: /** @type {const} */ (false) };
  await project.write("index.html", page("/main.js"));
  const served = await vite.createServer({ root: project.folder, configFile: false, logLevel: "error", server });
  try {
    await served.listen();
    check(await read(served.resolvedUrls.local[0], parts));
  } finally {
    await served.close();
    await site.close();
  }
});
