// Markdown as DOM nodes, made one by one: no text is ever parsed as HTML, and nothing in it is fetched.
import { html, icon, morph } from "../dom.js";
import { COPY } from "../icons.js";
import { inline } from "./inline.js";
import { linesOf, parse } from "./markdown.js";
import { RENDERERS } from "./renderers.js";
import { TEXTS } from "../texts.js";

/** @import { Inline } from "./inline.js" */
/** @import { Block } from "./markdown.js" */

/** A growing text in an element. Final blocks are not touched again. */
export class Rendered {
  #parent;
  #source = "";
  /** Up to where blocks are final, in the source and in the element. */
  #final = { length: 0, blocks: 0 };

  /** @param {Element} parent */
  constructor(parent) {
    this.#parent = parent;
  }

  /**
   * Shows the text, which continues the one that is shown; if it is `growing`, there is more to come.
   *
   * @param {string} source
   * @param {boolean} growing
   * @returns {Element[]} the blocks that have become final
   */
  show(source, growing) {
    if (!source.startsWith(this.#source)) this.#final = { length: 0, blocks: 0 };
    this.#source = source;
    const { length, blocks: before } = this.#final;
    const lines = linesOf(source.slice(length));
    morph(this.#parent, nodesOf(lines, source, growing), before);
    // An incomplete line may still become any block, and the last block longer: of a text that was cut short, too.
    const { starts } = parse(growing ? lines.slice(0, -1) : lines);
    const count = starts.length - 1;
    if (count > 0) {
      let end = length;
      for (let i = 0; i < starts[count]; i++) end = source.indexOf("\n", end) + 1;
      this.#final = { length: end, blocks: before + count };
    }
    const finished = [...this.#parent.children].slice(before, growing ? this.#final.blocks : undefined);
    if (RENDERERS.code || RENDERERS.math) import("./enrich.js").then(({ enrich }) => finished.forEach(enrich));
    return finished;
  }
}

/**
 * The blocks of the last lines of a source.
 *
 * @param {string[]} lines
 * @param {string} source
 * @param {boolean} growing
 */
function nodesOf(lines, source, growing) {
  const { blocks } = parse(lines);
  // Whichever level a text begins with: it is the highest.
  const [{ length: top }] = /^#+/m.exec(source) ?? "#";
  for (const block of blocks) if (block.type === "heading") block.level -= top - 1;
  return blocks.map(last(growing, blockNode));
}

/**
 * @param {Block} block
 * @param {boolean} growing
 * @returns {Element}
 */
function blockNode(block, growing) {
  switch (block.type) {
    case "paragraph":
      return html("p", {}, ...inlineNodes(inline(block.text, growing)));
    case "heading":
      return headingNode(block.level, inlineNodes(inline(block.text, growing)));
    case "math":
      return html("p", { class: "math", part: "math" }, block.text);
    case "rule":
      return html("hr");
    case "code":
      return codeNode(block.language, block.text);
    case "quote":
      return html("blockquote", { part: "quote" }, ...block.blocks.map(last(growing, blockNode)));
    case "list":
      return listNode(block, growing);
    case "table":
      return tableNode(block);
  }
}

/**
 * A heading, of a lower level than those of the page.
 *
 * @param {number} level
 * @param {(Node | string)[]} inside
 */
function headingNode(level, inside) {
  const name = /** @type {"h3" | "h4" | "h5" | "h6"} */ (`h${Math.max(3, Math.min(level + 2, 6))}`);
  return html(name, {}, ...inside);
}

/**
 * Makes nodes of items; in a growing block the last of them is growing.
 *
 * @template T
 * @param {boolean} growing
 * @param {(item: T, growing: boolean) => Node} node
 * @returns {(item: T, i: number, items: T[]) => Node}
 */
function last(growing, node) {
  return (item, i, items) => node(item, growing && i === items.length - 1);
}

/**
 * @param {string} language
 * @param {string} text
 */
function codeNode(language, text) {
  const copy = html("button", { type: "button", part: "copy-code", class: "icon" }, icon(COPY));
  copy.setAttribute("aria-label", TEXTS.copyCode);
  const bar = html("div", { class: "bar" }, html("span", { class: "language" }, language), copy);
  const code = html("pre", { tabindex: "0" }, html("code", {}, text));
  return html("div", { part: "code-block", class: "code" }, bar, code);
}

/**
 * @param {Extract<Block, {type: "list"}>} list
 * @param {boolean} growing
 */
function listNode({ start, loose, items }, growing) {
  const node = start === null ? html("ul") : html("ol");
  if (start !== null && start !== 1) node.setAttribute("start", `${start}`);
  if (loose) node.className = "loose";
  node.append(
    ...items.map(last(growing, (blocks, growing) => html("li", {}, ...blocks.map(last(growing, blockNode))))),
  );
  return node;
}

/** @param {Extract<Block, {type: "table"}>} table */
function tableNode({ align, head, rows }) {
  /**
   * @param {"th" | "td"} name
   * @param {string[]} cells
   */
  const row = (name, cells) => {
    const nodes = cells.map((cell, i) => {
      const node = html(name, {}, ...inlineNodes(inline(cell)));
      if (align[i]) node.className = align[i];
      return node;
    });
    return html("tr", {}, ...nodes);
  };
  const body = html("tbody", {}, ...rows.map((cells) => row("td", cells)));
  const table = html("table", { part: "table" }, html("thead", {}, row("th", head)), body);
  return html("div", { class: "scroller", tabindex: "0" }, table);
}

/**
 * @param {Inline[]} pieces
 * @returns {(Node | string)[]}
 */
function inlineNodes(pieces) {
  return pieces.map((piece) => {
    if (typeof piece === "string") return piece;
    if (piece.type === "break") return html("br");
    if (piece.type === "code") return html("code", {}, piece.text);
    if (piece.type === "math") return html("span", { class: "math", part: "math" }, piece.text);
    if (piece.type !== "link") return html(piece.type, {}, ...inlineNodes(piece.inside));
    const attributes = { href: piece.href, target: "_blank", rel: "noopener noreferrer nofollow" };
    return html("a", { part: "link", ...attributes }, ...inlineNodes(piece.inside));
  });
}
