// A browser's Cross-Origin Storage as the test has it: https://wicg.github.io/cross-origin-storage/. Pages and workers
// of all sites get the API; what it stores is here.
import { createHash } from "node:crypto";

/** Runs in pages and workers before other scripts. Servers answer below `cos/` for the browser. */
export const API = `(${install})();`;

function install() {
  const network = fetch;
  const errors = { 403: "NotAllowedError", 404: "NotFoundError", 422: "DataError", 507: "QuotaExceededError" };

  async function ask(task, value, body) {
    const query = new URLSearchParams({ task, value, origin: location.origin });
    const response = await network(`/cos/storage?${query}`, { method: "POST", body });
    if (!response.ok) throw new DOMException(`${task} ${value}`, errors[response.status]);
    return response;
  }

  /** @param {boolean} mayRead of a file that was not created by this handle */
  function handle(value, mayRead, scope = "") {
    return {
      kind: "file",
      name: value,
      async getFile() {
        if (!mayRead) throw new DOMException(value, "NotAllowedError");
        const response = await ask("read", value);
        const file = new File([await response.blob()], value);
        if (response.headers.has("x-stalls")) file.slice = () => /** @type {any} */ (new Stalled());
        return file;
      },
      async createWritable() {
        const pieces = [];
        return {
          async write(piece) {
            await ask("write", value);
            pieces.push(piece);
          },
          async close() {
            await ask(`close${scope}`, value, new Blob(pieces));
            mayRead = true;
          },
          async abort() {
            await ask("abort", value);
          },
        };
      },
    };
  }

  class Stalled {
    stream() {
      return new ReadableStream({ pull: () => new Promise(() => {}) });
    }
  }

  const crossOriginStorage = {
    async requestFileHandle({ algorithm, value }, { create = false, origins = undefined } = {}) {
      if (algorithm !== "SHA-256" || !/^[0-9a-f]{64}$/.test(value)) throw new TypeError("no SHA-256");
      await ask(create ? "create" : "find", value);
      return handle(value, !create, origins);
    },
  };
  Object.defineProperty(navigator, "crossOriginStorage", { value: crossOriginStorage });
}

/** What the API of all sites stores. */
export class SharedStorage {
  /** @type {Map<string, {bytes: Buffer | null, writers: number, isGlobal: boolean, storers: Set<string>}>} by SHA-256 */
  files = new Map();
  /** @type {string[]} what was asked of it */
  asked = [];
  /** @type {Record<string, number | "never" | ((bytes: Buffer) => Buffer) | "stalls">} what becomes of a task: a status,
   *   no answer, other bytes, or bytes that do not come */
  acts = {};

  /** For a server's folder `cos/`. */
  get folder() {
    return { storage: (response) => this.#answer(response) };
  }

  async #answer(response) {
    const pieces = [];
    for await (const piece of response.req) pieces.push(piece);
    const { searchParams } = new URL(response.req.url, "http://localhost");
    const [task, value, origin] = ["task", "value", "origin"].map((name) => searchParams.get(name));
    this.asked.push(task);
    const act = this.acts[task];
    if (act === "never") return;
    const status = typeof act === "number" ? act : this.#do(task, value, origin, Buffer.concat(pieces));
    const bytes = task === "read" && status === 200 ? this.files.get(value).bytes : Buffer.alloc(0);
    response.writeHead(status, act === "stalls" ? { "x-stalls": "1" } : {});
    response.end(typeof act === "function" ? act(bytes) : bytes);
  }

  /** Gives an HTTP status. */
  #do(task, value, origin, bytes) {
    const file = this.files.get(value);
    switch (task) {
      case "find":
        if (file && !file.bytes) return 403;
        return file && (file.isGlobal || file.storers.has(origin)) ? 200 : 404;
      case "create":
        this.files.set(value, file ?? { bytes: null, writers: 0, isGlobal: false, storers: new Set() });
        this.files.get(value).writers += 1;
        return 200;
      case "close":
      case "close*": {
        file.writers -= 1;
        if (createHash("sha256").update(bytes).digest("hex") !== value) return this.#sweep(value, 422);
        file.bytes = bytes;
        file.storers.add(origin);
        file.isGlobal ||= task === "close*";
        return 200;
      }
      case "abort":
        if (file) file.writers -= 1;
        return this.#sweep(value, 200);
      default:
        return 200;
    }
  }

  /** Deletes a file that nobody has written, and nobody is writing. */
  #sweep(value, status) {
    const file = this.files.get(value);
    if (file && !file.bytes && file.writers <= 0) this.files.delete(value);
    return status;
  }
}
