// The page's side and the worker's script in a simulated browser (simulation/), where anything may go wrong at
// any time: every call ends once, with the whole answer or an error that says why; nobody leads beside another;
// and whoever leaves leaves nothing behind.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { PLANTED } from "./simulation/planted.mjs";

/** Each state of the package has seeds of its own, always the same. */
const sources = new URL("../../pkg-template/", import.meta.url);
const scripts = readdirSync(sources, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".js"));
const state = createHash("sha256");
for (const file of scripts.sort()) state.update(readFileSync(new URL(file, sources)));
const SEED = Number(process.env.TABLOOM_SEED ?? state.digest().readUInt32LE() >>> 1);
const RUNS = 2000;
/** Runs within which a planted fault is found. */
const SOON = 400;
/** What happened last is what matters. */
const LINES = 60;

const program = fileURLToPath(new URL("simulation/run.mjs", import.meta.url));

/** Runs seeds until one fails. */
async function run(...request) {
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...request.map(String)], {
    maxBuffer: 2 ** 28,
  });
  return JSON.parse(stdout);
}

test(`${RUNS} runs (seed ${SEED})`, async () => {
  const halves = await Promise.all([run(SEED, RUNS / 2), run(SEED + RUNS / 2, RUNS / 2)]);
  const failure = halves.map(({ failure }) => failure).find(Boolean);
  if (!failure) return;
  const { seed, broken, log } = failure;
  const again = `TABLOOM_SEED=${seed} cargo xtask test --file tests/e2e/client-faults.test.mjs`;
  assert.fail(`${broken}\n\n${log.slice(-LINES).join("\n")}\n\nThe same again: ${again}`);
});

test("a seed gives the same run again", async () => {
  const [once, again] = await Promise.all([run(SEED, 20), run(SEED, 20)]);
  assert.equal(once.digest, again.digest);
});

describe("a planted fault is found:", { concurrency: 2 }, () => {
  for (const [name, { seed = 1 }] of Object.entries(PLANTED)) {
    test(name, async () => {
      const { runs, failure } = await run(seed, SOON, name);
      assert.ok(failure, `not in ${runs} runs`);
    });
  }
});
