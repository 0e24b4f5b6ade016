// An end for every wait of a test.

/** Longest wait for what takes a busy machine seconds. */
export const PATIENCE = 90;

/**
 * What a promise gives, unless it takes longer than `seconds`.
 *
 * @template T
 * @param {string} what is awaited
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
export async function within(what, promise, seconds = PATIENCE) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${seconds} s for ${what}`)), seconds * 1000);
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}
