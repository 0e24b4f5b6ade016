/** @import { ErrorCode } from "./types.js" */

/**
 * An error of the engine, in the shape of OpenAI's clients' errors.
 *
 * `code` names the cause for programs (`context_length_exceeded`, `no_gpu`, `fetch`, `truncated`, …), `message`
 * says what was found, what was expected and what to do, `param` names the field of the request that is
 * wrong, `details` has the cause's own fields.
 */
export class TabloomError extends Error {
  /**
   * @param {{code: ErrorCode, message: string, param?: string | null, details?: unknown}} wire
   */
  constructor({ code, message, param = null, details = null }) {
    super(message);
    this.name = "TabloomError";
    /** @type {ErrorCode} */
    this.code = code;
    /** @type {string | null} */
    this.param = param;
    /** @type {unknown} */
    this.details = details;
  }
}

/**
 * An argument is refused.
 *
 * @param {string} param
 * @param {string} problem what was found, and what was expected
 */
export function invalid(param, problem) {
  return new TabloomError({ code: "invalid_request", message: `${param}: ${problem}`, param });
}

/**
 * What kind of object a value is, of whatever frame; empty where it cannot be read.
 *
 * @param {unknown} value
 */
export function kindOf(value) {
  try {
    return Object.prototype.toString.call(value).slice(8, -1);
  } catch {
    return "";
  }
}

/**
 * The engine's worker did not start, or is gone.
 *
 * @param {string} what
 */
export function crashed(what) {
  const message = `the engine's worker failed: ${what}. Reload the page`;
  return new TabloomError({ code: "engine_crashed", message });
}

/**
 * The engine cannot run where `host` says.
 *
 * @param {string} host
 * @param {string} reason
 * @param {string} [advice]
 */
export function noHost(host, reason, advice = 'Load with host "auto", or check workerUrl') {
  const message = `this page can have no ${host} engine: ${reason}. ${advice}`;
  return new TabloomError({ code: "no_host", message, details: { reason } });
}

/** A host that may be alive, but does not answer. */
export class Silence extends TabloomError {
  constructor() {
    super(crashed("it does not answer"));
  }
}

/** A host that is gone without a word. It died, unless it turns out that the browser has moved it. */
export class Gone extends TabloomError {
  moved = false;

  constructor() {
    super(crashed("it is gone"));
  }
}

/** The host is gone without a failure: its tab or this page was left. */
export class Departure extends Error {}
