// Turns of calls that may be the cause of hosts' deaths: each is asked alone.
import { childOf, whenAborted } from "../abort.js";
import { hold } from "../locks.js";

/** The lock of the call that has its turn. */
const SUSPECT = "tabloom suspect";

/** Milliseconds after which another call may be asked all the same: the page that has the lock may be frozen. */
const TURN = 300_000;

/**
 * Waits until a call over which hosts have died may be asked: one such call of all pages of the site at a time, so
 * that none fails for another.
 *
 * @param {AbortSignal} over the call's end
 * @param {{connection: import("./connection.js").Connection, life: AbortController}} host
 * @returns {Promise<() => void>} ends the turn, which ends with the call and the host, too
 */
export async function turn(over, { connection, life }) {
  const turn = childOf(life.signal);
  const { signal } = turn;
  const end = () => turn.abort();
  whenAborted(over, end, signal);
  const timer = setTimeout(end, TURN);
  whenAborted(signal, () => clearTimeout(timer));
  // Where locks are denied no other page has this host.
  await hold(SUSPECT, signal).catch(() => {});
  // The call before may have stopped the host, and its page noticed that first.
  await connection.request({ type: "metrics" });
  return end;
}
