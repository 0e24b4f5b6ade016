// The chat in the terminal, as somebody types into it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const program = process.env.TABLOOM_CHAT;
if (!program) throw new Error("TABLOOM_CHAT is missing; run `cargo xtask test --only serve`");

const goldens = JSON.parse(readFileSync(new URL("../goldens/embedded.json", import.meta.url), "utf8"));

/** What the program prints and says when these lines are typed. */
function type(lines, ...more) {
  const input = lines.map((line) => `${line}\n`).join("");
  const options = { input, encoding: /** @type {const} */ ("utf8"), timeout: 120_000 };
  const { stdout, stderr, status } = spawnSync(program, ["--device", "cpu", "--temperature", "0", ...more], options);
  return { stdout, stderr, status };
}

test("it answers as the reference does, and begins anew at an empty line", () => {
  const asked = goldens.filter(({ messages }) => messages.length === 1);
  assert.ok(asked.length > 1);
  const lines = asked.flatMap(({ messages }) => [messages[0].content, ""]);
  const { stdout, stderr, status } = type(lines);
  assert.equal(status, 0, stderr);
  assert.equal(stdout, asked.map(({ answer }) => `${answer}\n`).join(""));
  assert.match(stderr, /on the CPU/);
});

test("it remembers what was said", () => {
  const chat = goldens.find(({ messages }) => messages.length === 3);
  const questions = chat.messages.filter(({ role }) => role === "user").map(({ content }) => content);
  const { stdout, stderr } = type(questions);
  const [, said] = chat.messages;
  assert.equal(stdout, `${said.content}\n${chat.answer}\n`, stderr);
});

test("it says what is wrong with a model", () => {
  const { stderr, status } = type([], "--model", "nowhere");
  assert.notEqual(status, 0);
  assert.match(stderr, /cannot load nowhere/);
});
