// Talks to a host by hand, and says what no page should.
import { number } from "./tabloom/json.js";
import { PROTOCOL, VERSION } from "./tabloom/version.js";

/** A port to the host of a rung, and everything that it has answered. */
export async function connect(rung, workerUrl) {
  const answers = [];
  const port = rung === "shared" ? sharedPort(workerUrl) : leaderPort();
  /** @type {Promise<void>} */
  const greeted = new Promise((resolve) => {
    port.onmessage = ({ data }) => {
      answers.push(data);
      if (data.type !== "here") return;
      if ("join" in port) port.postMessage({ type: "join", host: data.host });
      resolve();
    };
  });
  if ("join" in port) port.join();
  await greeted;
  answers.length = 0;
  return { port, answers };
}

function sharedPort(workerUrl) {
  const options = { type: "module", name: `tabloom ${VERSION}`, extendedLifetime: true };
  return new SharedWorker(workerUrl, /** @type {WorkerOptions} */ (options)).port;
}

function leaderPort() {
  const port = new BroadcastChannel(`tabloom ${crypto.randomUUID()}`);
  number(port, "asked", "said", () => {});
  const lobby = new BroadcastChannel(`tabloom ${VERSION} lobby`);
  return Object.assign(port, { join: () => lobby.postMessage({ type: "join", channel: port.name, epoch: 0 }) });
}

/** What a page says first. */
export function hello(id) {
  return { type: "hello", id, version: VERSION, protocol: PROTOCOL, tab: null, visible: true, isolation: "shared" };
}

/** Answers to one call, once the last of them is there. */
export async function call({ port, answers }, message) {
  port.postMessage(message);
  const mine = () => answers.filter(({ id }) => id === message.id);
  const over = () => mine().some(({ type }) => ["value", "end", "error"].includes(type));
  while (!over()) await new Promise((resolve) => setTimeout(resolve, 5));
  return mine();
}

/**
 * Has the one page with an engine join its leader again, and listens in until its calls were asked again: gives
 * its channel, the lobby, the leader's epoch, and the numbers of the last messages.
 */
export async function listenIn() {
  const lobby = new BroadcastChannel(`tabloom ${VERSION} lobby`);
  const { held } = await navigator.locks.query();
  const after = (start) => held.find(({ name }) => name.startsWith(start)).name.slice(start.length);
  const epoch = Number(after(`tabloom ${VERSION} leader since `));
  const heard = (channel, type) =>
    /** @type {Promise<any>} */ (
      new Promise((resolve) => {
        channel.onmessage = ({ data }) => data.type === type && resolve(data);
      })
    );
  const join = heard(lobby, "join");
  navigator.locks.request(`tabloom tab ${after("tabloom tab ")}`, { steal: true }, () => {});
  const channel = new BroadcastChannel((await join).channel);
  const last = { asked: 0, said: 0 };
  await new Promise((resolve) => {
    channel.onmessage = ({ data }) => {
      for (const side of Object.keys(last)) last[side] = data[side] ?? last[side];
      if (data.type === "chunk") resolve(null);
    };
  });
  return { channel, lobby, epoch, last };
}

/** What is no answer of a host, though it looks like one. */
export const UNSOUND = [
  { type: "failed" },
  { type: "error" },
  { type: "error", error: {} },
  { type: "progress" },
  { type: "ping" },
  { type: "chunk" },
  { type: "chunk", value: { choices: [null] }, tokens: [] },
  { type: "chunk", value: { choices: [{ index: 2 ** 31 }] }, tokens: [] },
  { type: "chunk", value: { choices: [{ index: "length" }] }, tokens: [] },
];

const cyclic = { type: "ping", id: 1 };
cyclic.self = cyclic;
let deep = [];
for (let depth = 0; depth < 1000; depth++) deep = [deep];

/** What has no place in a message, or not in that one. */
export const STRANGE = [
  null,
  undefined,
  true,
  false,
  0,
  -0,
  -1,
  1.5,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  2 ** 53 + 2,
  -(2 ** 63),
  2 ** 64,
  NaN,
  Infinity,
  -Infinity,
  1e308,
  5e-324,
  10n,
  -(10n ** 40n),
  "",
  "x",
  "\0",
  "\ud800",
  "__proto__",
  "constructor",
  "load",
  "x".repeat(100_000),
  [],
  {},
  [[]],
  [null],
  [NaN],
  Array(10_000),
  { length: -1 },
  { toString: 1 },
  new Date(0),
  new Date(NaN),
  /x/u,
  new Map([[1, {}]]),
  new Set([1]),
  new Uint8Array(1000),
  new ArrayBuffer(8),
  new Float64Array([NaN]),
  new Error("x"),
  new Blob(["x"]),
  new DOMException("x"),
  Object(1n),
  cyclic,
  deep,
];

/** Calls as they should be; `url` names a model that is not there. */
const CALLS = (id, url, params) => [
  hello(id),
  { type: "load", id, url, options: { device: "auto", kv: "f16", quantize: "keep" } },
  { type: "load", id, url: "local:0/a.gguf", options: {}, files: new Map([["a.gguf", new Blob(["x"])]]) },
  { type: "chat", id, request: { ...params, max_tokens: 1 }, moment: { now: 1, entropy: 1 }, credit: 1, resume: null },
  {
    type: "chat",
    id,
    request: { ...params, max_tokens: 1, stream: true },
    moment: { now: 1, entropy: 1 },
    credit: 1,
    resume: [{ tokens: [5], started: true, ended: null }],
  },
  { type: "embed", id, request: { input: ["a"] } },
  { type: "credit", id, chunks: 1 },
  { type: "cancel", id },
  { type: "visible", visible: false },
  { type: "metrics", id },
  { type: "ping", id },
];

/** Every place in a message that can hold something else. */
function places(value, found = []) {
  for (const key of Object.keys(value)) {
    found.push([value, key]);
    if (typeof value[key] === "object" && value[key] !== null) places(value[key], found);
  }
  return found;
}

/** A message with something wrong in one to three places, and what goes along with it. */
export function malformed(random, id, url, params) {
  const pick = (list) => list[Math.floor(random() * list.length)];
  if (random() < 0.1) return pick(STRANGE);
  const message = structuredClone(pick(CALLS(id, url, params)));
  const found = places(message);
  for (let changes = Math.ceil(random() * 3); changes > 0; changes--) {
    const [within, key] = pick(found);
    const dice = random();
    if (dice < 0.2) delete within[key];
    else if (dice < 0.3) within[pick(["extra", "type", "id", "__proto__ ", "0"])] = pick(STRANGE);
    else within[key] = pick(STRANGE);
  }
  return message;
}
