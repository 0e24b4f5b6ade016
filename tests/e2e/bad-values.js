// What pages pass by mistake, or to do harm: values of every kind, each made anew, and the places where they are put.
// The page imports it.

const throwing = () => {
  throw new Error("gone");
};
const proxied = () => new Proxy({}, { get: throwing, ownKeys: throwing, has: throwing });
const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};
const nested = (levels, wrap) => {
  let value = wrap(1);
  for (let level = 0; level < levels; level++) value = wrap(value);
  return value;
};
/** Has another value when it is read again. */
const fickle = () => {
  let asked = 0;
  return {
    get content() {
      asked += 1;
      return asked > 1 ? throwing() : "a";
    },
  };
};

/**
 * By name what makes a value. `elsewhere` is the global object of another frame.
 *
 * @type {Record<string, (elsewhere: any) => unknown>}
 */
export const VALUES = {
  undefined: () => undefined,
  null: () => null,
  true: () => true,
  NaN: () => Number.NaN,
  Infinity: () => Number.POSITIVE_INFINITY,
  "-0": () => -0,
  "a number far below zero": () => -1e308,
  fraction: () => 0.5,
  bigint: () => 5n,
  symbol: () => Symbol("a"),
  function: () => () => {},
  class: () => class A {},
  "boxed text": () => Object("a"),
  "boxed NaN": () => Object(Number.NaN),
  date: () => new Date(0),
  "invalid date": () => new Date(Number.NaN),
  regexp: () => /a/u,
  map: () => new Map([["a", 1]]),
  set: () => new Set(["a"]),
  "weak map": () => new WeakMap(),
  promise: () => Promise.resolve("a"),
  error: () => new Error("gone"),
  "typed array": () => new Uint8Array(2),
  buffer: () => new ArrayBuffer(2),
  blob: () => new Blob(["a"]),
  url: () => new URL("https://a.example/"),
  signal: () => new AbortController().signal,
  generator: () => (function* () {})(),
  "empty text": () => "",
  "half a character": () => "a\ud800",
  "half a character in a name": () => ({ "a\ud800": 1 }),
  "a long text": () => "a".repeat(50_000_000),
  "an empty object": () => ({}),
  "an empty list": () => [],
  "a list in lists": () => [[[1]]],
  "a name of prototypes": () => JSON.parse('{"__proto__": {"a": 1}, "constructor": 1}'),
  "a proxy that throws": proxied,
  "a revoked proxy": revoked,
  "a getter that throws": () => Object.defineProperty({}, "a", { enumerable: true, get: throwing }),
  "a getter that throws nothing": () => ({
    get a() {
      throw undefined;
    },
  }),
  "a getter that throws a symbol": () => ({
    get a() {
      throw Symbol("a");
    },
  }),
  "a getter that throws once it was read": fickle,
  "an error without a message": () => ({
    get a() {
      throw Object.defineProperty({}, "message", { get: throwing });
    },
  }),
  "a list with a getter that throws": () => Object.defineProperty([1, 2], 1, { enumerable: true, get: throwing }),
  "an object within itself": () => {
    const value = /** @type {any} */ ({ a: [] });
    value.a.push(value);
    return value;
  },
  "a list within itself": () => {
    const value = /** @type {any[]} */ ([]);
    value.push(value);
    return value;
  },
  "a deep object": () => nested(10_000, (value) => ({ a: value })),
  "a deep list": () => nested(10_000, (value) => [value]),
  "a small object that is huge as JSON": () => nested(40, (value) => [value, value]),
  "a list with holes": () => {
    const list = [1, 2, 3];
    delete list[1];
    return list;
  },
  "a list of holes": () => new Array(2 ** 32 - 1),
  "a list of another class": () => class extends Array {}.of("a"),
  "an object of another frame": (elsewhere) => elsewhere.JSON.parse('{"a": [1]}'),
  "a list of another frame": (elsewhere) => elsewhere.JSON.parse('["a"]'),
  "a map of another frame": (elsewhere) => new elsewhere.Map(),
  "another frame's error": (elsewhere) => ({
    get a() {
      throw new elsewhere.Error("gone");
    },
  }),
  "an instance": () =>
    new (class A {
      a = 1;
      #b = 2;
      get b() {
        return this.#b;
      }
    })(),
  "without a prototype": () => Object.assign(Object.create(null), { a: 1 }),
  "what cannot be a text": () => ({ toString: throwing, valueOf: throwing, [Symbol.toPrimitive]: throwing }),
  "a name of its own": () => ({ [Symbol.toStringTag]: "AbortSignal", aborted: true }),
  "toJSON that throws": () => ({ toJSON: throwing }),
  "toJSON that gives nothing": () => ({ toJSON: () => undefined }),
  "toJSON that gives a function": () => ({ toJSON: () => throwing }),
  "toJSON that gives itself": () => {
    const value = { toJSON: () => value, a: 1 };
    return value;
  },
  "toJSON that is none": () => ({ toJSON: 5 }),
};

/** Those that take a second. */
export const HEAVY = ["a long text", "a small object that is huge as JSON", "a list of holes"];

/** Those that are JSON, so that pages send them. */
export const SENT = [
  "undefined",
  "null",
  "true",
  "-0",
  "a number far below zero",
  "fraction",
  "empty text",
  "half a character",
  "an empty object",
  "an empty list",
  "a name of prototypes",
];

/** What JSON has of a value; undefined where it has nothing, throws where it cannot. */
export function asJson(value) {
  const text = JSON.stringify(value, (_, it) => (typeof it === "number" && !Number.isFinite(it) ? `${it}` : it));
  return text === undefined ? undefined : JSON.parse(text.replace(/\\ud8../g, "\ufffd"));
}

/**
 * A copy of `template` with a value in a place, such as `messages[0].content`.
 *
 * @param {object} template
 * @param {string} place
 * @param {unknown} value
 */
export function put(template, place, value) {
  const copy = structuredClone(template);
  const names = place.match(/[^.[\]]+/g) ?? [];
  const last = names.pop() ?? "";
  let holder = /** @type {any} */ (copy);
  for (const name of names) holder = holder[name];
  holder[last] = value;
  return copy;
}

/** What an error says of itself, if that can be read. */
function told(error) {
  try {
    const { name, code, param, message } = error ?? {};
    return { name, code, param, message: `${message}` };
  } catch {
    return { name: "what cannot be read" };
  }
}

/**
 * Calls with each of the values. Gives the names of those that were taken, and what is wrong with how others were
 * refused: by no typed error, by one that names no place or another, or that is as long as what it is about.
 *
 * @param {(value: unknown, name: string) => Promise<unknown>} call
 * @param {string} place begins what an error names
 * @param {{heard?: () => number, among?: (name: string) => boolean}} [options] `heard`: what must not grow where a value
 *   is refused; `among`: which values, by default those that do not take a second
 */
export async function tried(call, place, { heard = () => 0, among = (name) => !HEAVY.includes(name) } = {}) {
  const frame = document.body.appendChild(document.createElement("iframe"));
  const taken = [];
  const wrong = [];
  for (const [name, make] of Object.entries(VALUES)) {
    if (!among(name)) continue;
    const before = heard();
    try {
      await call(make(frame.contentWindow), name);
      taken.push(name);
    } catch (/** @type {any} */ error) {
      const { name: type, code, param, message } = told(error);
      const isTyped = type === "TabloomError" && code === "invalid_request";
      const isNamed = isTyped && param?.startsWith(place) && message.startsWith(`${param}: `);
      if (!isNamed || message.length > 1000) wrong.push(`${name}: ${type} ${code} ${param} ${message?.slice(0, 200)}`);
      else if (heard() > before) wrong.push(`${name}: heard of, though refused`);
    }
  }
  frame.remove();
  return { taken, wrong };
}
