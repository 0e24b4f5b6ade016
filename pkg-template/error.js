/**
 * An error of the engine, shaped like the ones of OpenAI's clients.
 *
 * `code` names the cause for programs (`context_length_exceeded`, `no_gpu`,
 * `fetch`, `truncated`, …), `message` says what was found, what was expected
 * and what to do, `param` names the request field to blame, `details` holds
 * the cause's own fields.
 */
export class TabloomError extends Error {
  /**
   * @param {{code: string, message: string, param?: string | null, details?: unknown}} wire
   */
  constructor({ code, message, param = null, details = null }) {
    super(message);
    this.name = "TabloomError";
    /** @type {string} */
    this.code = code;
    /** @type {string | null} */
    this.param = param;
    /** @type {unknown} */
    this.details = details;
  }
}

/**
 * The engine's worker could not be started, or is gone.
 *
 * @param {string} what
 */
export function crashed(what) {
  const message = `the engine's worker failed: ${what}. Reload the page`;
  return new TabloomError({ code: "engine_crashed", message });
}

/**
 * A page cannot have its engine where `host` says.
 *
 * @param {string} host
 * @param {string} reason
 */
export function noHost(host, reason) {
  const message = `this page can have no ${host} engine: ${reason}. Load with host "auto", or check workerUrl`;
  return new TabloomError({ code: "no_host", message, details: { reason } });
}

/** A host that may be alive, but does not answer. */
export class Silence extends TabloomError {
  constructor() {
    const { code, message } = crashed("it does not answer");
    super({ code, message });
  }
}

/** A host that had to be left and has not failed. */
export class Departure extends Error {}
