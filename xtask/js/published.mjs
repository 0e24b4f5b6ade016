// Has others' tools judge the package as it is published: node published.mjs TARBALL. publint reads its
// package.json and files; "Are the types wrong?" resolves its types as each kind of project would. Both
// need no network.
import { readFileSync } from "node:fs";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { formatMessage } from "publint/utils";

/** Projects that Tabloom is not for: it has modules alone, and no CommonJS. */
const NOT_FOR = ["node10", "node16-cjs"];

const tarball = readFileSync(process.argv[2]);

const { messages, pkg } = await publint({ pack: { tarball: new Uint8Array(tarball).buffer }, strict: true });
const published = messages.map((message) => formatMessage(message, pkg, { color: false }));

const analysis = await checkPackage(createPackageFromTarballData(tarball));
if (!("problems" in analysis)) throw new Error("the package has no types");
const types = analysis.problems
  .filter((problem) => !("resolutionKind" in problem && NOT_FOR.includes(problem.resolutionKind)))
  .map((problem) => `types: ${JSON.stringify(problem)}`);

for (const problem of [...published, ...types]) console.log(problem);
process.exitCode = published.length + types.length > 0 ? 1 : 0;
