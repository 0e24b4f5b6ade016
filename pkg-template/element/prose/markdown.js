// Blocks of a subset of Markdown, as plain data. Every step is linear in the text, and no line depends on a
// later one, so that in a growing text all blocks but the last are final.
import { RENDERERS } from "./renderers.js";

/**
 * @typedef {{type: "paragraph", text: string}
 *   | {type: "math", text: string}
 *   | {type: "heading", level: number, text: string}
 *   | {type: "code", language: string, text: string}
 *   | {type: "rule"}
 *   | {type: "quote", blocks: Block[]}
 *   | {type: "list", start: number | null, loose: boolean, items: Block[][]}
 *   | {type: "table", align: string[], head: string[], rows: string[][]}} Block
 */

/** How deep containers may be nested; deeper ones are text. */
const MOST_DEPTH = 8;
/** Most columns of a table. */
const MOST_COLUMNS = 64;

const FENCE = /^(`{3,}|~{3,})/;
const HEADING = /^(#{1,6})(?=[ \t]|$)/;
const RULE = /^([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const ITEM = /^(?:[-*+]|(\d{1,9})[.)])(?=[ \t]|$)/;
const DELIMITER = /^:?-+:?$/;
/** Begins a formula that stands by itself: nothing follows its end in the line. */
const MATH = /^(?:\$\$(?!.*\$\$.)|\\\[(?!.*\\\].)|\\begin(\{\w+\*?\})(?!.*\\end\1.))/;

/**
 * The blocks of a text, and the line where each begins.
 *
 * @param {string[]} lines
 * @param {number} [depth]
 * @returns {{blocks: Block[], starts: number[]}}
 */
export function parse(lines, depth = 0) {
  /** @type {Block[]} */
  const blocks = [];
  /** @type {number[]} */
  const starts = [];
  for (let i = 0; i < lines.length; ) {
    if (isBlank(lines[i])) {
      i += 1;
      continue;
    }
    starts.push(i);
    const { block, end, split } = read(lines, i, depth);
    blocks.push(block);
    // The last line of the paragraph is the head of a table.
    if (split) {
      starts.push(end);
      const table = readTable(lines, end);
      blocks.push(table.block);
      i = table.end;
    } else i = end;
  }
  return { blocks, starts };
}

/**
 * @param {string} source
 * @returns {string[]} its lines, with any kind of line ending
 */
export function linesOf(source) {
  return source.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
}

/** @typedef {{block: Block, end: number, split?: boolean}} Read up to the line `end` */

/**
 * @param {string[]} lines
 * @param {number} i
 * @param {number} depth
 * @returns {Read}
 */
function read(lines, i, depth) {
  const kind = opener(lines[i], depth);
  if (kind === "fence") return readCode(lines, i);
  if (kind === "heading") return { block: heading(lines[i]), end: i + 1 };
  if (kind === "rule") return { block: { type: "rule" }, end: i + 1 };
  if (kind === "quote") return readQuote(lines, i, depth);
  if (kind === "item") return readList(lines, i, depth);
  if (kind === "math") return readMath(lines, i);
  return isTable(lines, i) ? readTable(lines, i) : readParagraph(lines, i, depth);
}

/**
 * The block that a line opens, other than a paragraph. Indentation does not make code: models indent
 * carelessly, and write code in fences.
 *
 * @param {string} line
 * @param {number} depth
 */
function opener(line, depth) {
  const text = line.trimStart();
  const fence = FENCE.exec(text);
  if (fence) return fence[1][0] === "~" || !text.includes("`", fence[1].length) ? "fence" : null;
  if (HEADING.test(text)) return "heading";
  if (RULE.test(text)) return "rule";
  if (RENDERERS.math && MATH.test(text.trimEnd())) return "math";
  if (depth >= MOST_DEPTH) return null;
  if (text[0] === ">") return "quote";
  return ITEM.test(text) ? "item" : null;
}

/**
 * Whether a line ends the paragraph before it; a list only does if its first item has text.
 *
 * @param {string} line
 * @param {number} depth
 */
function interrupts(line, depth) {
  const kind = opener(line, depth);
  if (kind !== "item") return kind !== null;
  const text = line.trim();
  const [marker, number] = /** @type {RegExpExecArray} */ (ITEM.exec(text));
  return text.length > marker.length && (number === undefined || Number(number) === 1);
}

/**
 * @param {string[]} lines
 * @param {number} i
 * @param {number} depth
 * @returns {Read}
 */
function readParagraph(lines, i, depth) {
  let end = i + 1;
  while (end < lines.length && !isBlank(lines[end])) {
    if (isTable(lines, end - 1) && end - 1 > i) {
      return { block: paragraph(lines.slice(i, end - 1)), end: end - 1, split: true };
    }
    if (interrupts(lines[end], depth)) break;
    end += 1;
  }
  return { block: paragraph(lines.slice(i, end)), end };
}

/** @param {string[]} lines */
function paragraph(lines) {
  return {
    type: /** @type {const} */ ("paragraph"),
    text: lines
      .map((line) => line.trimStart())
      .join("\n")
      .trimEnd(),
  };
}

/**
 * @param {string} line
 * @returns {Block}
 */
function heading(line) {
  const trimmed = line.trim();
  const level = trimmed.length - trimmed.replace(/^#+/, "").length;
  const text = trimmed.slice(level).trim();
  let end = text.length;
  while (text[end - 1] === "#") end -= 1;
  const closed = end === 0 || text[end - 1] === " " || text[end - 1] === "\t";
  return { type: "heading", level, text: closed ? text.slice(0, end).trimEnd() : text };
}

/**
 * @param {string[]} lines
 * @param {number} i
 * @returns {Read}
 */
function readCode(lines, i) {
  const { columns, text } = indented(lines[i]);
  const [, fence] = /** @type {RegExpExecArray} */ (FENCE.exec(text));
  const language = text.slice(fence.length).trim().split(/\s/, 1)[0];
  const inside = [];
  let end = i + 1;
  for (; end < lines.length; end++) {
    if (closes(lines[end], fence)) {
      end += 1;
      break;
    }
    inside.push(outdent(lines[end], columns));
  }
  return { block: { type: "code", language, text: inside.join("\n") }, end };
}

/**
 * @param {string} line
 * @param {string} fence
 */
function closes(line, fence) {
  const { columns, text } = indented(line);
  const marks = text.trimEnd();
  return columns < 4 && marks.length >= fence.length && marks === fence[0].repeat(marks.length);
}

/**
 * A formula; one that does not end before a blank line is a paragraph.
 *
 * @param {string[]} lines
 * @param {number} i
 * @returns {Read}
 */
function readMath(lines, i) {
  const [open, environment] = /** @type {RegExpExecArray} */ (MATH.exec(lines[i].trim()));
  const close = environment ? "\\end" + environment : open === "$$" ? open : "\\]";
  let [end, closed] = [i, false];
  for (; !closed && end < lines.length && !isBlank(lines[end]); end++) {
    const text = lines[end].trim();
    closed = text.endsWith(close) && (end > i || text.length > 4);
  }
  const { text } = paragraph(lines.slice(i, end));
  return { block: { type: closed ? "math" : "paragraph", text }, end };
}

/**
 * @param {string[]} lines
 * @param {number} i
 * @param {number} depth
 * @returns {Read}
 */
function readQuote(lines, i, depth) {
  const inside = [];
  let end = i;
  for (; end < lines.length && opener(lines[end], depth) === "quote"; end++) {
    const text = lines[end].trimStart().slice(1);
    inside.push(text[0] === " " ? text.slice(1) : text);
  }
  return { block: { type: "quote", blocks: parse(inside, depth + 1).blocks }, end };
}

/**
 * A list: items with the same kind of marker, each with the lines that are indented below it.
 *
 * @param {string[]} lines
 * @param {number} i
 * @param {number} depth
 * @returns {Read}
 */
function readList(lines, i, depth) {
  const kind = kindOf(lines[i]);
  const number = /^\d+/.exec(lines[i].trimStart());
  /** @type {string[][]} */
  const items = [];
  /** @type {string[]} */
  let item = [];
  let [content, base, loose, blanks, end] = [0, 0, false, 0, i];
  for (let at = i; at < lines.length; at++) {
    const line = lines[at];
    if (isBlank(line)) {
      blanks += 1;
      continue;
    }
    const { columns, text } = indented(line);
    const inside = items.length > 0 && columns >= Math.min(content, base + 2);
    if (inside) {
      for (; blanks > 0; blanks--) item.push("");
      item.push(outdent(line, content));
    } else if (opener(line, depth) === "item" && kindOf(line) === kind) {
      loose ||= blanks > 0 && items.length > 0;
      blanks = 0;
      const [marker] = /** @type {RegExpExecArray} */ (ITEM.exec(text));
      const rest = text.slice(marker.length);
      const gap = indented(rest).columns;
      base = columns;
      content = columns + marker.length + (gap > 4 || rest.trim() === "" ? 1 : gap);
      item = [
        rest
          .trimStart()
          .replace(/^\[ \] /, "☐ ")
          .replace(/^\[x\] /i, "☑ "),
      ];
      items.push(item);
    } else if (blanks === 0 && opener(line, depth) === null && !isBlank(item[item.length - 1])) {
      item.push(text);
    } else break;
    end = at + 1;
  }
  const contents = items.map((item) => parse(item, depth + 1).blocks);
  loose ||= contents.some((blocks) => blocks.filter(({ type }) => type === "paragraph").length > 1);
  return { block: { type: "list", start: number && Number(number[0]), loose, items: contents }, end };
}

/**
 * The marker of an item, without its number.
 *
 * @param {string} line
 */
function kindOf(line) {
  return line.trimStart().replace(/^\d+/, "")[0];
}

/**
 * Whether a line and the next are the head of a table.
 *
 * @param {string[]} lines
 * @param {number} i
 */
function isTable(lines, i) {
  if (i + 1 >= lines.length || !lines[i].includes("|") || !/^[ \t]*[|:-]/.test(lines[i + 1])) return false;
  const delimiters = cells(lines[i + 1]);
  return delimiters.every((cell) => DELIMITER.test(cell)) && delimiters.length === cells(lines[i]).length;
}

/**
 * @param {string[]} lines
 * @param {number} i
 * @returns {Read}
 */
function readTable(lines, i) {
  const align = cells(lines[i + 1]).map((cell) => {
    if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "end";
    return "";
  });
  const rows = [];
  let end = i + 2;
  for (; end < lines.length && lines[end].includes("|"); end++) {
    if (opener(lines[end], 0) !== null) break;
    rows.push(cells(lines[end]).slice(0, align.length));
  }
  return { block: { type: "table", align, head: cells(lines[i]), rows }, end };
}

/**
 * The cells of a row, between bars that are not escaped.
 *
 * @param {string} line
 */
function cells(line) {
  const text = line.trim();
  const found = [];
  let cell = "";
  for (let i = text[0] === "|" ? 1 : 0; i < text.length; i++) {
    if (text[i] === "\\" && text[i + 1] === "|") cell += text[++i];
    else if (text[i] !== "|" || found.length === MOST_COLUMNS) cell += text[i];
    else {
      found.push(cell.trim());
      cell = "";
    }
  }
  if (cell.trim() || found.length === 0) found.push(cell.trim());
  return found;
}

/** @param {string} line */
function isBlank(line) {
  return line.trim() === "";
}

/**
 * The indentation of a line, up to so many columns or a tab more, and what comes after it.
 *
 * @param {string} line
 * @param {number} [most]
 */
function indented(line, most = Infinity) {
  let [i, columns] = [0, 0];
  for (; columns < most && (line[i] === " " || line[i] === "\t"); i++) {
    columns += line[i] === " " ? 1 : 4 - (columns % 4);
  }
  return { columns, text: line.slice(i) };
}

/**
 * A line without a part of its indentation.
 *
 * @param {string} line
 * @param {number} most
 */
function outdent(line, most) {
  const { columns, text } = indented(line, most);
  return " ".repeat(Math.max(0, columns - most)) + text;
}
