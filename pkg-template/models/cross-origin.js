// Cross-Origin Storage (https://wicg.github.io/cross-origin-storage/): files that all sites of a browser share, by
// their SHA-256. It may refuse anything, or be broken: nothing here waits for ever, and what fails is not there.

/** Weights of models. Other files are small, and many are a site's own. */
export const WEIGHTS = /\.(?:safetensors|gguf|bin|pt)$/i;

/** Milliseconds for a file and for each read of it, and for each step of a write. */
const [PATIENCE, WRITING] = [10_000, 60_000];

/** Whether it has not answered in time: it is not asked again. */
let silent = false;

/**
 * The file, if the browser lets this site have it.
 *
 * @param {string} sha256
 * @returns {Promise<Blob | null>}
 */
export async function find(sha256) {
  try {
    const file = await inTime(
      request(sha256).then((handle) => handle.getFile()),
      PATIENCE,
    );
    return file instanceof Blob ? file : null;
  } catch {
    return null;
  }
}

/**
 * Whether there is the file, as {@link find} would give it.
 *
 * @param {string} sha256
 */
export async function has(sha256) {
  try {
    return Boolean(await inTime(request(sha256), PATIENCE));
  } catch {
    return false;
  }
}

/**
 * The bytes of a file that was found; `failed` is called when they do not come.
 *
 * @param {Blob} file
 * @param {() => void} failed
 * @returns {ReadableStream<Uint8Array>}
 */
export function read(file, failed) {
  const reader = file.stream().getReader();
  let over = false;
  return new ReadableStream({
    type: "bytes",
    async pull(controller) {
      try {
        const { value, done } = await inTime(reader.read(), PATIENCE);
        if (over) return;
        if (!done) return controller.enqueue(value);
        controller.close();
        controller.byobRequest?.respond(0);
      } catch (error) {
        if (!over) failed();
        throw error;
      }
    },
    cancel(reason) {
      over = true;
      return reader.cancel(reason);
    },
  });
}

/**
 * Writes a file for all sites; false where the browser refuses, as it does where the bytes have another SHA-256.
 *
 * @param {string} sha256
 * @param {AsyncIterable<Blob>} pieces
 */
export async function write(sha256, pieces) {
  /** @type {FileSystemWritableFileStream | undefined} */
  let file;
  try {
    const handle = await inTime(request(sha256, { create: true, origins: "*" }), WRITING);
    file = await inTime(handle.createWritable(), WRITING);
    for await (const piece of pieces) await inTime(file.write(piece), WRITING);
    await inTime(file.close(), WRITING);
    return true;
  } catch {
    drop(file);
    return false;
  }
}

/** @param {FileSystemWritableFileStream | undefined} file */
async function drop(file) {
  try {
    await file?.abort();
  } catch {
    // It is gone already.
  }
}

/**
 * @param {string} value
 * @param {{create: true, origins: "*"}} [options]
 * @returns {Promise<FileSystemFileHandle>}
 */
async function request(value, options) {
  if (silent) throw new Error("Cross-Origin Storage did not answer before");
  const { crossOriginStorage } = /** @type {any} */ (navigator);
  return crossOriginStorage.requestFileHandle({ algorithm: "SHA-256", value }, options);
}

/**
 * @template T
 * @param {Promise<T>} answer
 * @param {number} patience
 */
async function inTime(answer, patience) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {Promise<never>} */
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => {
      silent = true;
      reject(new Error("Cross-Origin Storage does not answer"));
    }, patience);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
