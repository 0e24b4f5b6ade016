// AbortSignals as lifetimes.

/**
 * A controller that is aborted together with `parent`, or earlier.
 *
 * @param {AbortSignal} parent
 */
export function childOf(parent) {
  const child = new AbortController();
  whenAborted(parent, () => child.abort(parent.reason), child.signal);
  return child;
}

/**
 * Calls `then` when `signal` is aborted, at once if it is already, unless `until` comes first.
 *
 * @param {AbortSignal} signal
 * @param {() => void} then
 * @param {AbortSignal} [until]
 */
export function whenAborted(signal, then, until) {
  if (signal.aborted) then();
  else signal.addEventListener("abort", then, { once: true, signal: until });
}

/**
 * What `promise` gives, or the signal's reason if it is aborted first.
 *
 * @template T
 * @param {Promise<T>} promise
 * @param {AbortSignal} signal
 * @returns {Promise<T>}
 */
export async function unlessAborted(promise, signal) {
  const settled = new AbortController();
  /** @type {Promise<never>} */
  const aborted = new Promise((_, reject) => {
    whenAborted(signal, () => reject(signal.reason), settled.signal);
  });
  try {
    return await Promise.race([aborted, promise]);
  } finally {
    settled.abort();
  }
}
