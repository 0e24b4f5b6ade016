// Weights that the browser has for all sites, in Cross-Origin Storage: they are read from there, in place of the
// network and of a copy of the site's own. The engine checks them as it checks what comes from anywhere.
import { encoded } from "../models/address.js";
import { WEIGHTS, find, read } from "../models/cross-origin.js";
import { entries } from "../models/entries.js";
import { modelOf } from "../models/entries.js";
import { openStore } from "../models/store.js";

/** @import { Notice } from "../host/messages.js" */
/** @import { Store } from "../models/types.js" */

/** The address of Hugging Face's list of a repository's files. */
const LISTING = /^(.+\/)api\/models\/([^/]+\/[^/]+)\/tree\/([^?]+)$/;
/** What follows the mark in the key of a chunk, and the bytes of one. */
const CHUNK = /^=(\d+)$/;
const CHUNK_BYTES = 32 * 2 ** 20;

/** The browser's: the worker's is replaced. */
const network = globalThis.fetch;

/** What the models of a worker have in common with those of other sites. */
export class SharedWeights {
  /** Addresses of the models that are shared. */
  #models = new Set();
  /** @type {Map<string, string>} SHA-256 of weights by their plain addresses */
  #known = new Map();
  /** @type {Map<string, Promise<Blob | null>>} by SHA-256, those that were looked for since a load began */
  #files = new Map();

  /**
   * Says of models, before they are loaded, whether they are shared.
   *
   * @param {Extract<Notice, {type: "share"}>} notice
   */
  async share({ models, on, integrity }) {
    this.#files.clear();
    for (const model of models) {
      if (on) this.#models.add(model);
      else this.#models.delete(model);
    }
    const { href, search } = new URL(models[0]);
    const folder = href.slice(0, href.length - search.length).replace(/[^/]*$/, "");
    for (const [file, { sha256 }] of Object.entries(integrity?.files ?? {})) {
      this.#learn(folder + encoded(file) + search, sha256);
    }
  }

  /**
   * Offers the files of models that have been loaded to other sites.
   *
   * @param {Extract<Notice, {type: "offer"}>} notice
   */
  async offer({ models, store }) {
    const { offer } = await import("../models/offer.js");
    for (const model of models) await offer(store, model);
  }

  /**
   * `fetch`, which asks no server for weights that the browser has.
   *
   * @type {typeof fetch}
   */
  fetch = async (request, options) => {
    const address = typeof request === "string" ? request : "";
    const listing = LISTING.exec(address);
    if (listing) return this.#list(listing, await network(request, options));
    const file = await this.#find(address);
    const range = new Headers(options?.headers).get("range");
    return file ? answer(file, range, () => this.#leave(address)) : network(request, options);
  };

  /**
   * The site's store, in which weights that the browser has are as if they were kept.
   *
   * @param {string} kind
   * @returns {Promise<Pick<Store, "get" | "put" | "delete" | "room"> | null>}
   */
  openStore = async (kind) => {
    const store = await openStore(kind);
    return (
      store && {
        get: async (key) => {
          const own = await store.get(key);
          const [{ address, rest }] = entries([key]);
          if (rest === "") return own && this.#recall(address, own);
          return own ?? this.#chunk(address, rest);
        },
        put: async (key, bytes) => {
          const [{ address, rest }] = entries([key]);
          const is = CHUNK.test(rest) && (await this.#find(address)) !== null;
          return is || store.put(key, bytes);
        },
        delete: (key) => store.delete(key),
        room: () => store.room(),
      }
    );
  };

  /**
   * Learns what is listed.
   *
   * @param {string[]} listing its address and the parts of that
   * @param {Response} response
   */
  async #list([, hub, repository, path], response) {
    if (!response.ok) return response;
    const text = await response.text();
    const folder = `${hub}${repository}/resolve/${path}`.replace(/\/*$/, "/");
    for (const { path, lfs } of parsed(text) ?? []) {
      const file = `${path}`.split("/").pop() ?? "";
      if (lfs) this.#learn(folder + encoded(file), lfs.oid);
    }
    return new Response(text);
  }

  /**
   * Learns what the record of a file says, and gives it.
   *
   * @param {string} address
   * @param {ReadableStream} record
   */
  async #recall(address, record) {
    const text = await new Response(record).text().catch(() => "");
    const { sha256 } = parsed(text) ?? {};
    if (sha256) this.#learn(address, sha256);
    return new Response(text).body;
  }

  /**
   * @param {string} address of a file
   * @param {string} sha256
   */
  #learn(address, sha256) {
    if (!WEIGHTS.test(address.split("?")[0]) || !/^[\da-f]{64}$/i.test(sha256)) return;
    this.#known.set(plain(address), sha256.toLowerCase());
  }

  /**
   * The file at an address, if the browser has it.
   *
   * @param {string} address
   */
  async #find(address) {
    const sha256 = this.#known.get(plain(address));
    if (!sha256 || !this.#models.has(modelOf(address))) return null;
    const found = this.#files.get(sha256) ?? find(sha256);
    this.#files.set(sha256, found);
    return found;
  }

  /**
   * @param {string} address of a file
   * @param {string} rest of the key of one of its entries
   */
  async #chunk(address, rest) {
    const [, index] = CHUNK.exec(rest) ?? [];
    const file = index ? await this.#find(address) : null;
    const start = Number(index) * CHUNK_BYTES;
    return file && read(file.slice(start, start + CHUNK_BYTES), () => this.#leave(address));
  }

  /**
   * Has a file come from the server for the rest of the load: its bytes do not come.
   *
   * @param {string} address
   */
  #leave(address) {
    const sha256 = this.#known.get(plain(address));
    if (sha256) this.#files.set(sha256, Promise.resolve(null));
  }
}

/**
 * A file, or the range of it that is asked for, as a server would send it.
 *
 * @param {Blob} file
 * @param {string | null} range
 * @param {() => void} failed
 */
function answer(file, range, failed) {
  const [, first = "0", last = ""] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? [];
  const start = Number(first);
  const end = Math.min(file.size, last ? Number(last) + 1 : file.size);
  if (start > 0 && start >= end) return new Response("", { status: 416 });
  const headers = new Headers({ "content-length": `${end - start}` });
  if (range) headers.set("content-range", `bytes ${start}-${end - 1}/${file.size}`);
  return new Response(read(file.slice(start, end), failed), { status: range ? 206 : 200, headers });
}

/**
 * An address as it is read: each server encodes it as it likes.
 *
 * @param {string} address
 */
function plain(address) {
  try {
    return decodeURIComponent(address);
  } catch {
    return address;
  }
}

/**
 * @param {string} text
 * @returns {any} undefined where it is no JSON
 */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
