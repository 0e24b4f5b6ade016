import { unlessAborted } from "../abort.js";
import { Silence } from "../error.js";

/** Milliseconds for an answer. While a worker's script is being loaded it has {@link LOADING} times as long. */
const [PATIENCE, LOADING] = [10_000, 6];

/**
 * Waits for an answer of a worker or the browser; ends `life` with {@link Silence} if none comes.
 *
 * @template T
 * @param {Promise<T>} answer
 * @param {AbortController} life
 * @param {() => boolean} [loading] whether the worker's script is being loaded
 */
export async function within(answer, life, loading = () => false) {
  let waits = 0;
  const timer = setInterval(() => {
    waits += 1;
    if (waits === LOADING || !loading()) life.abort(new Silence());
  }, PATIENCE);
  try {
    return await unlessAborted(answer, life.signal);
  } finally {
    clearInterval(timer);
  }
}
