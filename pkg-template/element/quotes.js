// Texts that were attached to a question, as they stand in its content: Markdown, each with its name and in a
// fence, before what was asked of them.

/** @typedef {{name: string, text: string}} Quote */

const QUOTE = /`([^`\n]+)`:\n(`{3,})\n([\s\S]*?)\n\2(?:\n+|$)/y;

/**
 * The content of a question.
 *
 * @param {Quote[]} quotes
 * @param {string} text
 */
export function quote(quotes, text) {
  return [...quotes.map(fenced), text].join("\n\n").trim();
}

/**
 * What a question's content was made of.
 *
 * @param {string} content
 */
export function unquote(content) {
  /** @type {Quote[]} */
  const quotes = [];
  for (let end = 0; ; end = QUOTE.lastIndex) {
    QUOTE.lastIndex = end;
    const found = QUOTE.exec(content);
    if (!found) return { quotes, text: content.slice(end) };
    quotes.push({ name: found[1], text: found[3] });
  }
}

/** @param {Quote} quote */
function fenced({ name, text }) {
  let length = 3;
  for (const [run] of text.matchAll(/`+/g)) length = Math.max(length, run.length + 1);
  const fence = "`".repeat(length);
  return `\`${name.replace(/[`\r\n]/g, "'")}\`:\n${fence}\n${text}\n${fence}`;
}
