// Puts the examples into a folder that can be served, `examples/` of a site with `tabloom/` and
// `model/` in it: node examples/web/build.mjs SITE
import { build } from "esbuild";
import { cpSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { join } from "node:path";

const here = fileURLToPath(new URL("./", import.meta.url));
const site = process.argv[2];
if (!site) throw new Error("no folder named. Name that of the site: node examples/web/build.mjs SITE");
const examples = join(site, "examples");
cpSync(here, examples, { recursive: true });

// An extension has all of its files in its own folder.
for (const part of ["tabloom", "model"])
  cpSync(join(site, part), join(examples, "extension", part), { recursive: true });

// Those that import npm packages become one file each, in which these are. Tabloom stays beside them:
// its worker and its WebAssembly are files of their own.
const entryPoints = ["react/main.jsx", "openai-sdk/main.js", "ai-sdk/main.js"].map((file) => join(here, file));
await build({
  entryPoints,
  outbase: here,
  outdir: examples,
  allowOverwrite: true,
  bundle: true,
  minify: true,
  format: "esm",
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"' },
  plugins: [
    {
      name: "tabloom",
      setup: ({ onResolve }) =>
        onResolve({ filter: /^tabloom$/ }, () => ({ path: "../../tabloom/index.js", external: true })),
    },
  ],
});
