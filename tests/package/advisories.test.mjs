// Crates in the package are looked up in a database of advisories. Here it is a server of the test's own.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const script = fileURLToPath(new URL("../../xtask/js/advisories.mjs", import.meta.url));
const CRATES = [
  { name: "sound", version: "1.0.0" },
  { name: "smoking", version: "2.1.0" },
];

/** What the script prints for the crates, and how it ends. */
function checked(address) {
  return new Promise((resolve) => {
    const env = { ...process.env, OSV_ADDRESS: address };
    execFile(process.execPath, [script, JSON.stringify(CRATES)], { env }, (error, printed) => {
      resolve({ printed, code: error?.code ?? 0 });
    });
  });
}

/** Asks a server that knows these advisories, by crate. */
async function checkedBy(known) {
  const server = createServer(async (request, response) => {
    const answer = (body) => response.end(JSON.stringify(body));
    if (request.method === "GET") {
      return answer(Object.values(known).find(({ id }) => request.url === `/v1/vulns/${id}`));
    }
    const { queries } = /** @type {any} */ (await json(request));
    assert.equal(queries[0].package.ecosystem, "crates.io");
    answer({
      results: queries.map(({ package: { name } }) => (known[name] ? { vulns: [{ id: known[name].id }] } : {})),
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  try {
    return await checked(`http://127.0.0.1:${port}`);
  } finally {
    server.close();
  }
}

test("a crate with an advisory fails the run", async () => {
  const affected = [{ database_specific: {} }];
  const { printed, code } = await checkedBy({ smoking: { id: "RUSTSEC-1", affected } });
  assert.deepEqual([printed.trim(), code], ["smoking 2.1.0: RUSTSEC-1", 1]);
});

test("what is for information is told, and no more", async () => {
  const affected = [{ database_specific: { informational: "unmaintained" } }];
  const { printed, code } = await checkedBy({ sound: { id: "RUSTSEC-2", affected } });
  assert.deepEqual([printed.trim(), code], ["sound 1.0.0: RUSTSEC-2, for information", 0]);
});

test("without advisories it says how many crates it asked for", async () => {
  assert.deepEqual(await checkedBy({}), { printed: "no advisory on 2 crates\n", code: 0 });
});

test("where the database cannot be asked, it says that nothing was checked", async () => {
  const { printed, code } = await checked("http://127.0.0.1:9");
  assert.match(printed, /not checked/);
  assert.equal(code, 0);
});
