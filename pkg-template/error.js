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
