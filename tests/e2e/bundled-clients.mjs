// What pages with other people's clients share: a page in whose scripts the npm packages are bundled.
import { build } from "esbuild";
import { openPackage } from "./package.mjs";

/**
 * Opens a bare page, loads the built-in model into `engine`, and runs a module of this folder in it,
 * bundled with the packages that it imports; what it exports is in `clients`.
 *
 * @param {string} file
 */
export async function openClients(file) {
  const entryPoints = [new URL(file, import.meta.url).pathname];
  const { outputFiles } = await build({
    entryPoints,
    bundle: true,
    write: false,
    format: "esm",
    platform: "browser",
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const session = await openPackage({ "": { "clients.js": outputFiles[0].text } });
  await session.page.evaluate(async () => {
    globalThis.engine = await Engine.load("model/", { device: "cpu" });
    const bundle = "./clients.js";
    globalThis.clients = await import(bundle);
  });
  return session;
}
