// What calls of tools look like where the page carries them out: as Chrome names them. They hold no more than
// they are given; sessions check them.

/** A call that the model makes. */
export class LanguageModelToolCall {
  /** @param {{callId: string, name: string, arguments?: object}} call */
  constructor({ callId, name, arguments: given = {} }) {
    /** @readonly names the call in its response */
    this.callId = callId;
    /** @readonly the tool's */
    this.name = name;
    /** @readonly */
    this.arguments = given;
  }

  get [Symbol.toStringTag]() {
    return "LanguageModelToolCall";
  }
}

/** What a tool gave. */
export class LanguageModelToolSuccess {
  /** @param {{callId: string, name: string, result: Iterable<{type: "text" | "object", value: unknown}>}} success */
  constructor({ callId, name, result }) {
    /** @readonly */
    this.callId = callId;
    /** @readonly */
    this.name = name;
    /** @readonly */
    this.result = Object.freeze([...result]);
  }

  get [Symbol.toStringTag]() {
    return "LanguageModelToolSuccess";
  }
}

/** Why a tool gave nothing. */
export class LanguageModelToolError {
  /** @param {{callId: string, name: string, errorMessage: string}} error */
  constructor({ callId, name, errorMessage }) {
    /** @readonly */
    this.callId = callId;
    /** @readonly */
    this.name = name;
    /** @readonly */
    this.errorMessage = errorMessage;
  }

  get [Symbol.toStringTag]() {
    return "LanguageModelToolError";
  }
}
