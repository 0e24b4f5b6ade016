// Makes modules as small as they can be, style sheets in them too: node minify.mjs MODULE…. Each stays a
// module: bundlers of sites drop what they do not use.
import { readFileSync, writeFileSync } from "node:fs";
import { transformSync } from "esbuild";

/** A style sheet in a module, without what is filled in. */
const SHEET = /(?<=\bCSS = `)[^`$]+(?=`)/;

/** What a comment tells bundlers of an `import()`; such comments go with the white space. */
const TOLD = /import\(\s*\/\*/;

for (const file of process.argv.slice(2)) {
  const source = readFileSync(file, "utf8");
  const small = source.replace(SHEET, (css) => transformSync(css, { loader: "css", minify: true }).code.trim());
  /** @type {import("esbuild").TransformOptions} */
  const options = { minifyIdentifiers: true, minifySyntax: true, minifyWhitespace: !TOLD.test(source) };
  writeFileSync(file, transformSync(small, { ...options, format: "esm", target: "es2022" }).code);
}
