// What a site keeps in the simulated browser: the Cache API and the origin private file system of a realm. Its promises
// settle once, as all do; what they say may be anything.

/** @typedef {import("./realm.mjs").Realm} Realm */

/** What there may be instead of a cache. */
const CACHES = [null, undefined, 7, "x", [], {}];
/** Addresses of entries, and names of files: any script of the site may write some. */
const MODEL = "https://huggingface.co/org/name/resolve/";
const KEYS = [
  "",
  "?tabloom",
  "?tabloom=x",
  "?tabloom-used",
  "?tabloom-kv",
  "config.json?tabloom",
  "a/b.gguf?tabloom=1",
];
const NAMES = [
  "x",
  "%",
  "?tabloom",
  "x?tabloom-used",
  "x?tabloom-kv",
  "%E0%A4%A?tabloom",
  ...KEYS.map((key) => encodeURIComponent(MODEL + key)),
];
/** What may be in a file. */
const TEXTS = [
  "",
  "null",
  "7",
  "x",
  "{",
  "[]",
  "[null]",
  '{"chunks":null}',
  '{"bytes":"x"}',
  '{"runs":7}',
  '{"runs":[null]}',
  '{"runs":[{"bytes":"x"}]}',
];

/** All that a site keeps: texts by key. */
export class Kept {
  cache = new Map();
  files = new Map();
}

/**
 * The globals of a realm by which it reaches what is kept, and its `navigator.storage`.
 *
 * @param {Realm} realm
 */
export function storage(realm) {
  const { world, browser } = realm;
  const { climate, kept } = browser;

  /** What the browser answers: what `right` gives then, or one of `rubbish`. */
  const answer = (right, rubbish = [undefined]) =>
    new Promise((resolve, reject) => {
      if (climate.strikes("deafStore")) return;
      const late = climate.strikes("lateStore") ? 60_000 * world.random() : 0;
      realm.later(world.delay() + late, () => {
        if (climate.strikes("brokenStore")) return reject(new DOMException("the disk is full", "QuotaExceededError"));
        if (climate.strikes("rubbishStore")) return resolve(world.pick(rubbish));
        try {
          resolve(right());
        } catch (error) {
          reject(error);
        }
      });
    });

  /** Of a text that is read later; `new Response` gives it. */
  const file = (texts, key) => ({ read: () => answer(() => texts.get(key) ?? "", TEXTS) });

  const cache = {
    put: (key, { body }) => answer(() => void kept.cache.set(key, body.text)),
    match: (key) => answer(() => (kept.cache.has(key) ? { body: file(kept.cache, key) } : undefined)),
    keys: () =>
      answer(() => Array.from(kept.cache.keys(), (url) => ({ url })), [[], KEYS.map((key) => ({ url: MODEL + key }))]),
    delete: (key) => answer(() => kept.cache.delete(key)),
  };

  const missing = () => new DOMException("there is none", "NotFoundError");
  const folder = (path) => ({
    kind: "directory",
    getDirectoryHandle: (name) => answer(() => folder(`${path}${name}/`)),
    getFileHandle: (name, { create = false } = {}) =>
      answer(() => {
        if (!create && !kept.files.has(path + name)) throw missing();
        return handle(path + name);
      }),
    removeEntry: (name) =>
      answer(() => {
        if (!kept.files.delete(path + name)) throw missing();
      }),
    async *entries() {
      const inside = [...kept.files.keys()].filter((key) => key.startsWith(path)).map((key) => key.slice(path.length));
      const names = await answer(() => new Set(inside.map((key) => key.split("/")[0])), [[], NAMES]);
      for (const name of names) {
        const isFolder = inside.some((key) => key.startsWith(`${name}/`));
        yield [name, isFolder ? folder(`${path}${name}/`) : handle(path + name)];
      }
    },
  });
  const handle = (key) => ({
    kind: "file",
    getFile: () => answer(() => ({ stream: () => file(kept.files, key) })),
    createWritable: () => {
      let written = "";
      return answer(() => ({
        write: ({ text }) => answer(() => void (written = text)),
        close: () => answer(() => void kept.files.set(key, written)),
        abort: () => answer(() => {}),
      }));
    },
  });

  return {
    navigator: {
      persist: () => answer(() => true),
      estimate: () => answer(() => ({ usage: 1, quota: 2 }), [null, {}]),
      getDirectory: () => answer(() => folder("/"), CACHES),
    },
    globals: {
      caches: { open: () => answer(() => cache, CACHES) },
      Blob: class {
        constructor(pieces) {
          this.text = pieces.map((piece) => new TextDecoder().decode(piece)).join("");
        }
      },
      Response: class {
        constructor(body) {
          this.body = body;
        }

        async text() {
          return this.body ? this.body.read() : "";
        }
      },
    },
  };
}
