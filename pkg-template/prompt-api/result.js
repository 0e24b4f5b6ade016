// What a prompt gives, as it grows.

/** @import { LanguageModelContent as Content } from "../types.js" */

/**
 * An answer as the session's `prompt()` gives it, a text or a list of contents; pieces of it are told as they come.
 */
export class Result {
  #contents;
  #onPiece;
  /** @type {Content[]} */
  #parts = [];

  /**
   * @param {boolean} contents whether the answer is a list
   * @param {(piece: any) => void} onPiece
   */
  constructor(contents, onPiece) {
    this.#contents = contents;
    this.#onPiece = onPiece;
  }

  /** @param {Content} part */
  add(part) {
    const last = this.#parts.at(-1);
    if (last?.type === part.type && typeof last.value === "string") last.value += part.value;
    else this.#parts.push({ ...part });
    this.#onPiece(this.#contents ? part : part.value);
  }

  /** @returns {any} */
  get whole() {
    if (!this.#contents) return this.#parts.map(({ value }) => value).join("");
    return this.#parts.length > 0 ? this.#parts : [{ type: "text", value: "" }];
  }
}
