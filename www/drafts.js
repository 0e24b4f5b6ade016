// Marks the draft tokens in an answer. The text itself stays as it is: the browser paints the marks over it.

/** Most characters of Markdown that are skipped in the source before a character of the text. */
const REACH = 16;

const marks = typeof Highlight === "function" ? new Highlight() : null;
if (marks) CSS.highlights.set("drafted", marks);

/** The draft tokens of one answer. */
export class Drafts {
  /** How they are marked; for the shadow tree that answers are in. */
  static style() {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`
      ::highlight(drafted) { background: var(--drafted); color: var(--text); }
      @media (forced-colors: active) { ::highlight(drafted) { background: Mark; color: MarkText; } }
    `);
    return sheet;
  }

  /** @type {[number, number][]} from where to where in the source */
  #spans = [];
  /** @type {StaticRange[]} */
  #ranges = [];

  /**
   * Notes that a part of the source was drafted.
   *
   * @param {number} from
   * @param {number} to
   */
  add(from, to) {
    const last = this.#spans.at(-1);
    if (last?.[1] === from) last[1] = to;
    else this.#spans.push([from, to]);
  }

  /**
   * Marks them in an element that shows the source, which is Markdown.
   *
   * @param {Element} element
   * @param {string} source
   */
  show(element, source) {
    if (!marks || this.#spans.length === 0) return;
    this.forget();
    this.#ranges = this.#find(element, source);
    for (const range of this.#ranges) marks.add(range);
  }

  /** Removes the marks. */
  forget() {
    for (const range of this.#ranges) marks?.delete(range);
    this.#ranges = [];
  }

  /**
   * @param {Element} element
   * @param {string} source
   */
  #find(element, source) {
    const ranges = [];
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    // The text is the source without its Markdown marks, so its characters come in the same order.
    let [at, span] = [0, 0];
    while (walker.nextNode()) {
      const node = /** @type {Text} */ (walker.currentNode);
      let start = -1;
      for (let i = 0; i <= node.length; i++) {
        const found = i < node.length ? source.indexOf(node.data[i], at) : -1;
        const known = found >= 0 && found - at <= REACH;
        if (known) at = found + 1;
        while (span < this.#spans.length && this.#spans[span][1] < at) span++;
        const [from, to] = this.#spans[span] ?? [Infinity, Infinity];
        const drafted = known && from < at && at <= to;
        if (drafted && start < 0) start = i;
        if (!drafted && start >= 0) {
          ranges.push(range(node, start, i));
          start = -1;
        }
      }
    }
    return ranges;
  }
}

/**
 * @param {Text} node
 * @param {number} from
 * @param {number} to
 */
function range(node, from, to) {
  return new StaticRange({ startContainer: node, startOffset: from, endContainer: node, endOffset: to });
}
