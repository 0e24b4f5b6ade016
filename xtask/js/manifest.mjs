// Makes a Custom Elements Manifest, which editors know, from the class comment of <tabloom-chat>:
// node manifest.mjs FOLDER writes FOLDER/custom-elements.json.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cli } from "@custom-elements-manifest/analyzer/cli.js";

const cwd = fileURLToPath(new URL("../../pkg-template/", import.meta.url));
const argv = ["analyze", "--globs", "element.js", "--quiet"];

/** The manifest of the package; of the class, what pages may use. */
export const manifest = await cli({ argv, cwd, noWrite: true });
/** The element's class in it. */
export const element = manifest.modules[0].declarations[0];

element.superclass = { name: "HTMLElement" };
element.members = element.members.filter(({ name, privacy }) => !privacy && !name.endsWith("Callback"));
// Without a name of their own are events that a variable names.
element.events = element.events.filter(({ name }) => name.startsWith("tabloom-"));
// In the order of the comment; those that are observed come first otherwise.
const source = readFileSync(join(cwd, "element.js"), "utf8");
/** @param {{name: string}} attribute */
const place = ({ name }) => source.indexOf(`} ${name} - `);
element.attributes.sort((a, b) => place(a) - place(b));
for (const attribute of element.attributes) {
  attribute.fieldName = attribute.name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
}
manifest.modules[0].declarations = [element];

const [, script, folder] = process.argv;
if (script === fileURLToPath(import.meta.url)) {
  writeFileSync(join(folder, "custom-elements.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}
