// Runs of the simulation, in a process of their own, which hears of every error that nobody catches.
// `node run.mjs FIRST COUNT [FAULT]`: seeds from FIRST on, until one fails, perhaps with a planted fault; prints
// what came of it as JSON.
import { createHash } from "node:crypto";
import { scripts } from "./bundle.mjs";
import { PLANTED } from "./planted.mjs";
import { visit } from "./visit.mjs";

const [first, count] = process.argv.slice(2, 4).map(Number);
const planted = process.argv[4] ? [PLANTED[process.argv[4]]] : [];
const later = { file: "version.js", find: '"0.1.0"', replace: '"0.2.0"' };
const versions = [
  { name: "0.1.0", ...(await scripts(planted)) },
  { name: "0.2.0", ...(await scripts([...planted, later])) },
];
const digest = createHash("sha256");
const sum = { runs: 0, calls: 0, seconds: 0, failure: null };
for (let seed = first; seed < first + count && !sum.failure; seed++) {
  const { broken, log, seconds, calls } = await visit(seed, versions);
  sum.runs += 1;
  sum.calls += calls;
  sum.seconds += seconds;
  for (const line of log) digest.update(line);
  if (broken) sum.failure = { seed, broken, log };
}
console.log(JSON.stringify({ ...sum, digest: digest.digest("hex") }));
