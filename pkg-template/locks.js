// Web Locks are free at once when their holder is gone, whether it was closed, crashed or terminated.
import { whenAborted } from "./abort.js";

/** Whether this context may use locks: sandboxed frames, and those of other sites, may not. */
export async function available() {
  try {
    await navigator.locks.query();
    return true;
  } catch {
    return false;
  }
}

/**
 * Waits for a lock and holds it until `signal` is aborted, or for ever; resolves when it has the lock. An engine that
 * is released holds it for a second more: the host might notice that the page is gone before it hears what to free.
 *
 * @param {string} name
 * @param {AbortSignal} [signal]
 * @param {() => void} [robbed] called when another script of the site has taken the lock away
 * @returns {Promise<void>}
 */
export function hold(name, signal, robbed = () => {}) {
  return new Promise((held, denied) => {
    let failed = denied;
    const holding = () => {
      held();
      failed = robbed;
      return new Promise((release) => {
        const end = () => (signal?.reason?.details ? setTimeout(release, 1000) : release(null));
        if (signal) whenAborted(signal, end);
      });
    };
    navigator.locks.request(name, { signal }, holding).catch((error) => failed(error));
  });
}

/**
 * Resolves when a lock is free: its holder is gone.
 *
 * @param {string} name
 * @param {{mode?: LockMode, signal?: AbortSignal}} [options] waiters in mode `shared` do not
 *   block each other
 * @returns {Promise<void>}
 */
export async function whenFree(name, options = {}) {
  await navigator.locks.request(name, options, () => {});
}
