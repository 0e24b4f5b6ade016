import { unquote } from "./quotes.js";

/** Most characters of a title. */
const MOST = 60;

/**
 * What a question asks, in a line, or else the names of what is attached.
 *
 * @param {string} content
 */
export function titleOf(content) {
  const { quotes, text } = unquote(content);
  const title = text || quotes.map(({ name }) => name).join(", ");
  return title.length > MOST ? `${title.slice(0, MOST - 1)}…` : title;
}
