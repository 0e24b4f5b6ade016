// Who means harm gets an error, and takes from nobody else.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { request } from "node:http";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { within } from "../within.mjs";
import { start } from "./server.mjs";

const MIB = 1 << 20;
/** Seconds within which others are answered, whatever somebody does: on a busy machine they take two. */
const SOON = 10;

let server;

before(async () => {
  server = await start();
});

after(() => server?.stop());

/** Status and body of a request on a connection of its own, with headers that `fetch` would not send. */
async function raw(path, headers, url = server.url) {
  return answered(request(`${url}${path}`, { headers, agent: false }).end());
}

async function answered(asked) {
  const [response] = await once(asked, "response");
  let body = "";
  for await (const chunk of response.setEncoding("utf8")) body += chunk;
  return { status: response.statusCode, body };
}

/** All that comes back for these bytes. */
async function exchange(bytes) {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  socket.write(bytes);
  let answer = "";
  for await (const chunk of socket.setEncoding("latin1")) answer += chunk;
  return answer;
}

function post(path, body) {
  return fetch(server.url + path, { method: "POST", headers: { "content-type": "application/json" }, body });
}

/** What comes back for a body in pieces; it is read when all of the body is sent, as most clients do. */
async function slowly(path, type, body) {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname).pause();
  const send = (bytes) =>
    new Promise((sent, failed) => socket.write(bytes, (error) => (error ? failed(error) : sent(null))));
  const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: ${type}\r\n`;
  await send(`${head}Content-Length: ${body.length}\r\n\r\n`);
  for (let at = 0; at < body.length; at += 1 << 18) {
    await setTimeout(50);
    await send(body.slice(at, at + (1 << 18)));
  }
  let answer = "";
  for await (const chunk of socket.setEncoding("latin1")) answer += chunk;
  return answer;
}

/** A request with token ids in its field `name`, of this many bytes. */
const tokens = (name, bytes) => `{"${name}":[0${",0".repeat(bytes / 2)}]}`;

/** Most bytes of memory that the server has had. */
async function peak() {
  const status = await readFile(`/proc/${server.pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)[1]) * 1024;
}

async function answersOthers() {
  assert.equal((await fetch(`${server.url}/health`)).status, 200);
  const body = JSON.stringify({ messages: [{ role: "user", content: "Hi!" }], max_tokens: 2 });
  assert.equal((await post("/v1/chat/completions", body)).status, 200);
}

test("pages whose domain resolves to this machine are not let in", async () => {
  const { port } = new URL(server.url);
  for (const host of ["evil.example", `evil.example:${port}`, "localhost.evil.example", "127.0.0.1@evil.example"]) {
    const { status, body } = await raw("/v1/models", { host });
    assert.equal(status, 403, host);
    assert.equal(JSON.parse(body).error.code, "forbidden_host");
  }
  for (const host of ["localhost", `LOCALHOST:${port}`, `127.0.0.1:${port}`, "127.1.2.3", `[::1]:${port}`]) {
    assert.equal((await raw("/v1/models", { host })).status, 200, host);
  }
  const close = "Connection: close\r\n\r\n";
  for (const head of ["GET http://evil.example/health HTTP/1.1\r\nHost: localhost", "GET /health HTTP/1.1\r\nHost:"]) {
    assert.match(await exchange(`${head}\r\n${close}`), /^HTTP\/1.1 403 /, head);
  }
  const named = await start("--allow-host", "chat.example");
  try {
    assert.equal((await raw("/health", { host: "chat.example:8000" }, named.url)).status, 200);
    assert.equal((await raw("/health", { host: "evil.example" }, named.url)).status, 403);
  } finally {
    await named.stop();
  }
});

test("a malformed chunk is the client's fault", async () => {
  const head = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
  const end = "\r\n0\r\n\r\n";
  for (const body of [
    `zz\r\n{}${end}`,
    `-2\r\n{}${end}`,
    `\r\n{}${end}`,
    `0x2\r\n{}${end}`,
    `fffffffffffffffff\r\n{}${end}`,
    `1\r\n{}${end}`,
    "2\r\n{}0\r\n\r\n",
    `2\n{}${end}`,
    `2;${"a".repeat(1 << 17)}\r\n{}${end}`,
    `2\r\n{}\r\n0\r\nwithout a colon\r\n\r\n`,
  ]) {
    const answer = await exchange(`${head}Transfer-Encoding: chunked\r\n\r\n${body}`);
    assert.match(answer, /^HTTP\/1.1 400 .*"code":"invalid_request"/s, JSON.stringify(body.slice(0, 60)));
  }
  assert.match(await exchange(`${head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`), /^HTTP\/1.1 400 /);
  await answersOthers();
});

test("the largest lists of tokens take little memory, and nobody's turn", async () => {
  await answersOthers();
  const before = await peak();
  const body = tokens("tokens", 63 * MIB);
  const large = Array.from({ length: 4 }, () => post("/detokenize", body).then(({ status }) => status));
  await within("others", answersOthers(), SOON);
  assert.deepEqual(await Promise.all(large), [413, 413, 413, 413]);
  assert.ok((await peak()) - before < 64 * MIB, `${before} bytes became ${await peak()}`);
});

test("two hundred large bodies at once get an answer each, in little memory", async () => {
  const before = await peak();
  const body = Buffer.from(tokens("input", 1.9 * MIB));
  const headers = { "content-type": "application/json", "content-length": body.length };
  const asked = Array.from({ length: 200 }, () =>
    request(`${server.url}/v1/embeddings`, { method: "POST", headers, agent: false }),
  );
  // The heads first: the server waits five seconds for one.
  for (const one of asked) one.flushHeaders();
  await Promise.all(asked.map((one) => once(one, "socket").then(([socket]) => once(socket, "connect"))));
  const large = asked.map((one) => answered(one.end(body)).then(({ status }) => status));
  await answersOthers();
  const statuses = new Set(await Promise.all(large));
  await answersOthers();
  assert.ok(statuses.has(400), "too long for the context");
  assert.deepEqual(
    [...statuses].filter((status) => ![400, 429].includes(status)),
    [],
  );
  assert.ok((await peak()) - before < 600 * MIB, `${before} bytes became ${await peak()}`);
});

test("who is refused before a large body has come reads why", async () => {
  const body = tokens("input", 1.9 * MIB);
  const refused = await slowly("/v1/embeddings", "text/plain", body);
  assert.match(refused, /^HTTP\/1.1 415 .*"code":"unsupported_media_type"/s);

  // Two that promise much and send nothing have all the room.
  const { hostname, port } = new URL(server.url);
  const head = "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  const holding = Array.from({ length: 2 }, () => connect(Number(port), hostname));
  try {
    for (const socket of holding) {
      socket.write(`${head}Expect: 100-continue\r\nContent-Length: ${2 * MIB}\r\n\r\n`);
      const [ready] = await within("room for a body", once(socket, "data"), 60);
      assert.match(String(ready), /^HTTP\/1.1 100 /);
    }
    const late = await within("an answer", slowly("/v1/embeddings", "application/json", body), 60);
    assert.match(late, /^HTTP\/1.1 429 .*"code":"queue_full"/s);
  } finally {
    for (const socket of holding) socket.destroy();
  }
  await answersOthers();
});

test("two thousand connections that never come to the point are closed, one and all", async () => {
  const { hostname, port } = new URL(server.url);
  const words = ["", "PR", "POST /tokenize HTTP/1.1\r\nHost: local"];
  const slow = Array.from({ length: 2000 }, (_, i) => {
    const socket = connect(Number(port), hostname);
    // Refused, or reset.
    socket.on("error", () => {});
    socket.write(words[i % words.length]);
    // Some go on for as long as they may.
    const trickle = i % 4 === 0 && setInterval(() => socket.write("a"), 1000);
    socket.once("close", () => clearInterval(trickle || undefined));
    return socket.resume();
  });
  const closed = slow.map((socket) => new Promise((resolve) => socket.once("close", resolve)));
  // It waits for its turn to be let in.
  const health = await within("health", raw("/health", { host: "localhost" }), 60);
  assert.equal(health.status, 200);
  await within("the last connection to be closed", Promise.all(closed), 60);
  await within("others", answersOthers(), SOON);
});
