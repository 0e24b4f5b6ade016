// Schemas as zod writes them: answers that are held to one are valid to the type that it came from.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { z } from "zod";
import { start } from "./server.mjs";

const tree = z.object({
  value: z.int(),
  get next() {
    return tree.nullable();
  },
});

const TYPES = {
  record: z.record(z.string(), z.number()),
  "record of an enumeration": z.record(z.enum(["a", "b"]), z.boolean()),
  "partial record": z.partialRecord(z.enum(["a", "b"]), z.boolean()),
  json: z.json(),
  "starts with": z.string().startsWith("ab"),
  "ends with": z.string().endsWith("b"),
  includes: z.string().includes("b"),
  "regular expression": z.string().regex(/^[a-z]{2,4}$/),
  "lower case": z.string().lowercase().max(5),
  length: z.string().length(3),
  template: z.templateLiteral(["a", z.number()]),
  cuid: z.cuid(),
  cuid2: z.cuid2().max(24),
  nanoid: z.nanoid(),
  ulid: z.ulid(),
  ksuid: z.ksuid(),
  xid: z.xid(),
  guid: z.guid(),
  uuid: z.uuid(),
  e164: z.e164(),
  emoji: z.emoji(),
  base64: z.base64(),
  base64url: z.base64url(),
  hexadecimal: z.hex(),
  hash: z.hash("sha256"),
  duration: z.iso.duration(),
  "date and time": z.iso.datetime(),
  date: z.iso.date(),
  time: z.iso.time(),
  hostname: z.hostname(),
  email: z.email(),
  url: z.url(),
  ipv4: z.ipv4(),
  ipv6: z.ipv6(),
  cidrv4: z.cidrv4(),
  cidrv6: z.cidrv6(),
  int: z.int(),
  int32: z.int32(),
  float32: z.float32(),
  positive: z.number().positive(),
  multiple: z.number().multipleOf(0.5),
  tuple: z.tuple([z.boolean(), z.number()]),
  union: z.union([z.boolean(), z.number()]),
  "discriminated union": z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("a") }),
    z.object({ kind: z.literal("b"), value: z.boolean() }),
  ]),
  optional: z.object({ a: z.boolean().optional(), b: z.boolean().nullable(), c: z.boolean().default(true) }),
  literals: z.literal([1, "a", true]),
  recursive: tree,
  array: z.array(z.boolean()).min(1).max(3),
  strict: z.strictObject({ a: z.boolean() }),
  loose: z.looseObject({ a: z.boolean() }),
  "catch all": z.object({ a: z.boolean() }).catchall(z.number()),
  intersection: z.intersection(z.object({ a: z.boolean() }), z.object({ b: z.boolean() })),
};

let server;

before(async () => {
  server = await start();
});

after(() => server?.stop());

/** Asks for an answer of the type; gives the answer's text, and whether it ended by itself. */
async function answer(type, seed) {
  const schema = z.toJSONSchema(z.object({ it: type }));
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      messages: [{ role: "user", content: "Give an example." }],
      seed,
      max_completion_tokens: 150,
      response_format: { type: "json_schema", json_schema: { name: "example", schema } },
    }),
  });
  const { choices, error } = await response.json();
  assert.equal(error, undefined, error?.message);
  const [{ message, finish_reason }] = choices;
  return { text: message.content, isWhole: finish_reason === "stop" };
}

test("what is held to a type of zod's is valid to it", async () => {
  const whole = new Set();
  const ask = async ([name, type]) => {
    for (let seed = 1; seed <= 3; seed++) {
      const { text, isWhole } = await answer(type, seed).catch((error) => {
        throw new Error(`${name}: ${error.message}`);
      });
      // The built-in model may write a text without end.
      if (!isWhole) continue;
      whole.add(name);
      const { error } = z.object({ it: type }).safeParse(JSON.parse(text));
      assert.equal(error, undefined, `${name}, seed ${seed}: ${text}: ${error?.message}`);
    }
  };
  await Promise.all(Object.entries(TYPES).map(ask));
  const count = Object.keys(TYPES).length;
  assert.ok(whole.size > 0.7 * count, `${whole.size} of ${count} types had a whole answer`);
  // Whose patterns have something that the compiler lacks, or are zod's alone.
  const told = ["cuid2", "nanoid", "ulid", "e164", "duration", "hostname"];
  assert.deepEqual(
    told.filter((name) => !whole.has(name)),
    [],
  );
});

test("what no answer can be held to is refused by its place", async () => {
  await assert.rejects(answer(z.jwt(), 1), /properties\.it\.format: found "jwt"/);
});
