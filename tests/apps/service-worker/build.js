import { cp, readFile, readdir, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";

await cp("index.html", "dist/index.html");
await cp("node_modules/tabloom", "dist/tabloom", { recursive: true });
const entries = await readdir("dist", { recursive: true, withFileTypes: true });
const files = entries.filter((entry) => /\.(html|js|wasm)$/.test(entry.name));
const paths = files.map(({ parentPath, name }) => relative("dist", join(parentPath, name)));
await writeFile("dist/sw.js", `const FILES = ${JSON.stringify(["./", ...paths])};\n${await readFile("sw.js", "utf8")}`);
