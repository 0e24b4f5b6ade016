// The origin private file system as a store. Dedicated workers (rungs `leader` and `private`) have synchronous
// access, several times faster than asynchronous access and the Cache API.

/** @import { Store } from "./types.js" */

/** Longest name of a file; systems allow 255 bytes. */
const LONGEST = 200;
/** A file that Chromium writes until it takes the place of another. */
const TEMPORARY = /\.crswap$/;
/** Bytes per read. */
const PIECE = 2 * 2 ** 20;

/**
 * Entries as files; a long key is split into folders.
 *
 * @implements {Store}
 */
export class FileStore {
  #root;

  /**
   * @param {FileSystemDirectoryHandle} root
   * @param {() => Promise<number | undefined>} room
   */
  constructor(root, room) {
    this.#root = root;
    this.room = room;
  }

  /** @param {string} key */
  async get(key) {
    try {
      const { folder, name } = await this.#find(key);
      const handle = await folder.getFileHandle(name);
      const file = isSynchronous(handle) && (await open(handle));
      return file ? read(file) : (await handle.getFile()).stream();
    } catch {
      return null;
    }
  }

  /**
   * @param {string} key
   * @param {Uint8Array<ArrayBuffer>[]} bytes
   */
  async put(key, bytes) {
    try {
      const { folder, name } = await this.#find(key, { create: true });
      const handle = await folder.getFileHandle(name, { create: true });
      await (isSynchronous(handle) ? write(handle, bytes) : replace(handle, bytes));
      return true;
    } catch {
      return false;
    }
  }

  /** @param {string} key */
  async delete(key) {
    try {
      const { folder, name } = await this.#find(key);
      await folder.removeEntry(name);
    } catch {
      // The file does not exist, or is being read.
    }
  }

  async keys() {
    const files = await list(this.#root, "").catch(() => []);
    return files.filter(({ name }) => !TEMPORARY.test(name)).flatMap(({ key }) => decoded(key));
  }

  async sweep() {
    const files = await list(this.#root, "").catch(() => []);
    for (const { folder, name } of files) {
      // The browser refuses to delete that of a writer that lives.
      if (TEMPORARY.test(name)) await folder.removeEntry(name).catch(() => {});
    }
  }

  /**
   * @param {string} key
   * @param {{create?: boolean}} [options]
   */
  async #find(key, options) {
    const names = encodeURIComponent(key).match(new RegExp(`.{1,${LONGEST}}`, "g")) ?? [];
    const name = names.pop() ?? "";
    let folder = this.#root;
    // No file's name contains a plus, so no folder has the name of a file.
    for (const part of names) folder = await folder.getDirectoryHandle(`${part}+`, options);
    return { folder, name };
  }
}

/**
 * The key that a file's name stands for; none where another script has named it.
 *
 * @param {string} name
 */
function decoded(name) {
  try {
    return [decodeURIComponent(name)];
  } catch {
    return [];
  }
}

/** @param {any} handle */
function isSynchronous(handle) {
  return "createSyncAccessHandle" in handle;
}

/**
 * Opens a file for synchronous reads; null where another worker has it open alone.
 *
 * @param {any} handle
 * @returns {Promise<any>}
 */
function open(handle) {
  return handle.createSyncAccessHandle({ mode: "read-only" }).catch(() => null);
}

/**
 * A file's bytes, as a stream that reads on demand.
 *
 * @param {any} file
 * @returns {ReadableStream<Uint8Array>}
 */
function read(file) {
  let at = 0;
  const next = (/** @type {Uint8Array} */ into) => {
    let count = 0;
    try {
      count = file.read(into, { at });
    } finally {
      if (count === 0) file.close();
    }
    at += count;
    return count;
  };
  const cancel = () => file.close();
  try {
    return new ReadableStream({
      type: "bytes",
      autoAllocateChunkSize: PIECE,
      pull(stream) {
        const { byobRequest } = /** @type {{ byobRequest: any }} */ (stream);
        const count = next(byobRequest.view);
        if (count === 0) stream.close();
        byobRequest.respond(count);
      },
      cancel,
    });
  } catch {
    // Safari before 26.4 has no streams of bytes.
    const pull = (/** @type {ReadableStreamDefaultController<Uint8Array>} */ stream) => {
      const piece = new Uint8Array(PIECE);
      const count = next(piece);
      if (count === 0) stream.close();
      else stream.enqueue(piece.subarray(0, count));
    };
    return new ReadableStream({ pull, cancel }, { highWaterMark: 0 });
  }
}

/**
 * Writes a file. If a chunk is cut off, its digest will not match; a record, which mostly grows, is written at once.
 *
 * @param {any} handle
 * @param {Uint8Array<ArrayBuffer>[]} bytes
 */
async function write(handle, bytes) {
  const file = await handle.createSyncAccessHandle();
  try {
    let at = 0;
    for (const piece of bytes) at += file.write(piece, { at });
    file.truncate(at);
    file.flush();
  } finally {
    file.close();
  }
}

/**
 * Writes a file that gets its name when it is whole.
 *
 * @param {FileSystemFileHandle} handle
 * @param {Uint8Array<ArrayBuffer>[]} bytes
 */
async function replace(handle, bytes) {
  const file = await handle.createWritable();
  try {
    await file.write(new Blob(bytes));
  } catch (error) {
    await file.abort();
    throw error;
  }
  await file.close();
}

/**
 * All files below a folder, each with its part of the key.
 *
 * @param {FileSystemDirectoryHandle} folder
 * @param {string} before the folder's part of the key
 * @returns {Promise<{folder: FileSystemDirectoryHandle, name: string, key: string}[]>}
 */
async function list(folder, before) {
  const files = [];
  for await (const [name, handle] of folder.entries()) {
    const key = before + name.replace("+", "");
    if (handle.kind === "directory") {
      const inner = /** @type {FileSystemDirectoryHandle} */ (handle);
      files.push(...(await list(inner, key)));
    } else files.push({ folder, name, key });
  }
  return files;
}
