// Starts `examples/serve` with the built-in model on the CPU.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const program = process.env.TABLOOM_SERVE;
if (!program) throw new Error("TABLOOM_SERVE is missing; run `cargo xtask test --only serve`");

/**
 * A server on a port of its own.
 *
 * @param {...string} more arguments
 */
export async function start(...more) {
  const child = spawn(program, ["--device", "cpu", "--port", "0", ...more], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit").then(([code]) => code);
  const lines = createInterface({ input: child.stdout });
  const first = await Promise.race([once(lines, "line").then(([line]) => line), ended]);
  const url = /^listening on (http:\S+)$/.exec(first)?.[1];
  if (!url) throw new Error(`found ${first}, expected the address of the server`);
  return {
    url,
    pid: child.pid,
    ended,
    kill: (signal) => child.kill(signal),
    async stop() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/**
 * The value of a sample of the metrics.
 *
 * @param {string} url
 * @param {RegExp} name
 */
export async function sample(url, name) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split("\n").find((line) => name.test(line));
  return Number(line?.split(" ").at(-1));
}
