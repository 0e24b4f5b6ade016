// Apps as people make them with the package: installed from their lock files once, and built for production.
import { execFile, spawn } from "node:child_process";
import { cp, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { freePort } from "../free-port.mjs";
import { tarball } from "../package/project.mjs";

const run = promisify(execFile);
const sources = fileURLToPath(new URL("./", import.meta.url));
const target = fileURLToPath(new URL("../../target/apps/", import.meta.url));

const INSTALL = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];

/**
 * Makes a folder of an app's sources, its npm packages, and the package itself; gives its path. Npm packages
 * stay there until the lock file changes.
 *
 * @param {string} name
 */
export async function provide(name) {
  const [source, folder] = [join(sources, name), join(target, name)];
  const lock = await text(join(source, "package-lock.json"));
  const installed = join(folder, "node_modules/.installed");
  const kept = lock === (await text(installed));
  for (const entry of await readdir(folder).catch(() => [])) {
    if (!kept || entry !== "node_modules") await rm(join(folder, entry), { recursive: true });
  }
  await cp(source, folder, { recursive: true });
  if (!kept) {
    await npm(folder, INSTALL);
    await mkdir(dirname(installed), { recursive: true });
    await writeFile(installed, lock);
  }
  const own = join(folder, "node_modules/tabloom");
  await rm(own, { recursive: true, force: true });
  await mkdir(own);
  await run("tar", ["-xzf", tarball, "-C", own, "--strip-components=1"]);
  return folder;
}

/** Builds an app for production in its folder. */
export const build = (/** @type {string} */ folder, script = "build") => npm(folder, ["run", script]);

/**
 * Starts the server that an app has of its own; gives its origin once it listens.
 *
 * @param {string} folder
 */
export async function start(folder) {
  const port = await freePort();
  const server = spawn("npm", ["start"], {
    cwd: folder,
    env: { ...environment(), PORT: `${port}`, HOST: "127.0.0.1" },
    detached: true,
  });
  let said = "";
  for (const stream of [server.stdout, server.stderr]) stream.on("data", (piece) => (said += piece));
  const origin = `http://127.0.0.1:${port}`;
  const ended = () => server.exitCode !== null || server.signalCode !== null;
  const close = async () => {
    if (ended()) return;
    process.kill(-server.pid);
    await once(server, "exit");
  };
  for (const end = Date.now() + 60_000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 100))) {
    if (ended()) throw new Error(`its server has ended: ${said}`);
    const answered = await fetch(origin, { signal: AbortSignal.timeout(10_000) }).catch(() => null);
    if (answered) return { origin, close };
  }
  await close();
  throw new Error(`its server does not answer within a minute: ${said}`);
}

/** What it prints is shown if it fails. */
async function npm(folder, args) {
  try {
    return await run("npm", args, { cwd: folder, env: environment(), maxBuffer: 2 ** 26, timeout: 600_000 });
  } catch (/** @type {any} */ error) {
    throw new Error(`${error.message}\n${error.stdout}`);
  }
}

/** No tool asks anything or tells its maker what it does. */
const QUIET = {
  CI: "1",
  ASTRO_TELEMETRY_DISABLED: "1",
  NEXT_TELEMETRY_DISABLED: "1",
  NG_CLI_ANALYTICS: "false",
  NUXT_TELEMETRY_DISABLED: "1",
};

/** Some tools want a newer Node than the tests: the one in `node`'s lock file, where it has this system. */
function environment() {
  const { platform, arch, execPath } = process;
  const pinned = join(target, `node/node_modules/node-${platform}-${arch}/bin`);
  return { ...process.env, ...QUIET, PATH: [pinned, dirname(execPath), process.env.PATH].join(delimiter) };
}

const text = (path) => readFile(path, "utf8").catch(() => "");
