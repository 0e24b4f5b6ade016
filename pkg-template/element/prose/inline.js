// Inline Markdown: emphasis, code, links and formulas, as plain data, in linear time.
import { RENDERERS } from "./renderers.js";

/**
 * @typedef {string | Span} Inline
 * @typedef {{type: "em" | "strong" | "del" | "sub" | "sup", inside: Inline[]}
 *   | {type: "code", text: string}
 *   | {type: "math", text: string}
 *   | {type: "break"}
 *   | {type: "link", href: string, inside: Inline[]}} Span
 */

/** Schemes that links may have: none of them runs a script. */
const SCHEMES = ["http:", "https:", "mailto:"];
/** Longest address of a link. */
const LONGEST = 2000;
/** A label that looks like an address, and the host in it. */
const ADDRESS = /^\s*(?:[a-z]+:\/*)?([^\s/?#]+\.[^\s/?#]+)(?:[/?#]\S*)?\s*$/i;
/** How deep parentheses may be nested in an address. */
const MOST_PARENTHESES = 8;
/** How many delimiters and brackets may be open at once. */
const MOST_OPEN = 32;

const PUNCTUATION = /[\p{P}\p{S}]/u;
const ESCAPABLE = /[!-/:-@[-`{-~]/;
const BREAK = /<br[ \t]*\/?>/iy;
const SCRIPT = /<(su[bp])>([^<]+)<\/\1>/y;
const ANGLED = /<([a-z]+:[^\s<>]*)>/iy;
const BARE = /https?:\/\/[^\s<>`[\]]+/iy;
/** Formulas, of bounded length so that each is found in bounded time. Dollars of prices make none. */
const FORMULA =
  /\$\$.{1,500}?\$\$|\\\(.{1,500}?\\\)|\\\[.{1,500}?\\\]|(?<![\p{L}\p{N}])\$(?!\s)(?:[^$\\]|\\.){1,500}(?<!\s)\$(?![\p{L}\p{N}])/suy;
const OPEN_FORMULA = /(?:\$\$|\\(?:[([]|begin)).+/sy;
const TITLE = /[ \t]+(?:"[^"\n]*"|'[^'\n]*')/y;

/**
 * A run of delimiters, or a bracket, that may open a span; until that is closed it is text.
 *
 * @typedef {object} Open
 * @property {string} mark
 * @property {number} count characters of the run that are left
 * @property {number} length of the run
 * @property {boolean} closes whether it could also close a span
 */

/**
 * Parses a text. If it is still `growing`, emphasis, code and formulas that are open at its end count as
 * closed there.
 *
 * @param {string} text
 * @param {boolean} [growing]
 * @returns {Inline[]}
 */
export function inline(text, growing = false) {
  return new Reader(text, growing).read();
}

/**
 * The address, if a link may have it, or null.
 *
 * @param {string} address
 */
function safe(address) {
  try {
    const url = new URL(address);
    // What stands before an @ looks like the host.
    const misleads = url.username || url.password || address.length > LONGEST;
    return SCHEMES.includes(url.protocol) && !misleads ? url.href : null;
  } catch {
    return null;
  }
}

class Reader {
  #text;
  #growing;
  #at = 0;
  /** @type {(Inline | Open)[]} */
  #pieces = [];
  /** @type {Open[]} those of them that may still be closed, the last of which opened last */
  #open = [];
  /** @type {Map<number, number[]> | null} where runs of backticks begin, by length, the last first */
  #ticks = null;

  /**
   * @param {string} text
   * @param {boolean} growing
   */
  constructor(text, growing) {
    this.#text = text;
    this.#growing = growing;
  }

  read() {
    const text = this.#text;
    const special = /[\\`*_~[\]!<\nh$]/gi;
    for (;;) {
      const start = (special.lastIndex = this.#at);
      const found = special.exec(text);
      this.#put(text.slice(start, found?.index));
      if (!found) break;
      this.#at = found.index;
      if (!this.#take(found[0])) this.#put(text[this.#at++]);
    }
    for (let open; this.#growing && (open = this.#open.pop()); ) {
      const begun = this.#pieces[this.#pieces.length - 1] !== open;
      while (begun && !open.mark.endsWith("[") && open.count > 0) this.#wrap(open, open.count);
    }
    return settled(this.#pieces);
  }

  /**
   * Reads the span that a character begins, if any.
   *
   * @param {string} character
   */
  #take(character) {
    switch (character) {
      case "\\":
        return this.#formula() || this.#escape();
      case "$":
        return this.#formula();
      case "`":
        return this.#code();
      case "*":
      case "_":
      case "~":
        return this.#delimiters(character);
      case "!":
        return this.#text[this.#at + 1] === "[" && this.#bracket("![");
      case "[":
        return this.#bracket("[");
      case "]":
        return this.#link();
      case "<":
        return this.#angle();
      case "\n":
        return this.#line();
      default:
        return this.#bare();
    }
  }

  /** @param {Inline} piece */
  #put(piece) {
    add(this.#pieces, piece);
  }

  /** @param {Open} open */
  #push(open) {
    this.#pieces.push(open);
    // The oldest becomes text, so that nesting and searches are bounded.
    if (this.#open.push(open) > MOST_OPEN) this.#open.shift();
  }

  /**
   * The pieces since a delimiter; later delimiters that are open become text.
   *
   * @param {Open} open
   */
  #since(open) {
    this.#open.length = this.#open.lastIndexOf(open) + 1;
    return settled(this.#pieces.splice(this.#pieces.lastIndexOf(open) + 1));
  }

  /**
   * Makes emphasis of the pieces since a run of delimiters.
   *
   * @param {Open} open
   * @param {number} count
   */
  #wrap(open, count) {
    const used = Math.min(2, count);
    const type = open.mark === "~" ? "del" : used === 2 ? "strong" : "em";
    this.#pieces.push({ type, inside: this.#since(open) });
    open.count -= used;
  }

  #escape() {
    const next = this.#text[this.#at + 1];
    if (next === undefined || !ESCAPABLE.test(next)) return false;
    this.#at += 2;
    this.#put(next);
    return true;
  }

  /** A formula, where the page shows such. */
  #formula() {
    if (!RENDERERS.math) return false;
    FORMULA.lastIndex = OPEN_FORMULA.lastIndex = this.#at;
    const found = FORMULA.exec(this.#text) ?? (this.#growing && OPEN_FORMULA.exec(this.#text));
    if (!found) return false;
    this.#put({ type: "math", text: found[0] });
    this.#at += found[0].length;
    return true;
  }

  #code() {
    const text = this.#text;
    const length = runAt(text, this.#at);
    const start = this.#at + length;
    const later = this.#runs().get(length) ?? [];
    while (later.length > 0 && later[later.length - 1] < start) later.pop();
    const close = later[later.length - 1];
    const unclosed = close === undefined;
    this.#at = start;
    if (unclosed && !(this.#growing && start < text.length)) {
      this.#put("`".repeat(length));
      return true;
    }
    const code = text.slice(start, close).replaceAll("\n", " ");
    const padded = code.startsWith(" ") && code.endsWith(" ") && code.trim() !== "";
    this.#put({ type: "code", text: padded ? code.slice(1, -1) : code });
    this.#at = unclosed ? text.length : close + length;
    return true;
  }

  #runs() {
    if (this.#ticks) return this.#ticks;
    this.#ticks = new Map();
    for (const { 0: run, index } of this.#text.matchAll(/`+/g)) {
      const same = this.#ticks.get(run.length);
      if (same) same.push(index);
      else this.#ticks.set(run.length, [index]);
    }
    for (const same of this.#ticks.values()) same.reverse();
    return this.#ticks;
  }

  /** @param {string} mark */
  #delimiters(mark) {
    const text = this.#text;
    const length = runAt(text, this.#at);
    const [before, after] = [characterBefore(text, this.#at), characterAt(text, this.#at + length)];
    this.#at += length;
    const [left, right] = [flanks(after, before), flanks(before, after)];
    const loose = mark !== "_";
    const known = mark === "~" ? length === 2 : length <= 3;
    const opens = known && left && (loose || !right || PUNCTUATION.test(before));
    const closes = known && right && (loose || !left || PUNCTUATION.test(after));
    let count = length;
    while (closes && count > 0) {
      const open = this.#open.findLast((open) => open.mark === mark && matches(open, opens, length));
      if (!open) break;
      const used = Math.min(2, count, open.count);
      this.#wrap(open, used);
      count -= used;
      if (open.count === 0) this.#open.pop();
    }
    if (count > 0 && opens) this.#push({ mark, count, length, closes });
    else this.#put(mark.repeat(count));
    return true;
  }

  /** @param {"[" | "!["} mark */
  #bracket(mark) {
    this.#at += mark.length;
    this.#push({ mark, count: 1, length: 1, closes: false });
    return true;
  }

  /** Closes a bracket, which is a link if an address follows. */
  #link() {
    const open = this.#open.findLast(({ mark }) => mark.endsWith("["));
    if (!open) return false;
    const target = this.#target(this.#at + 1);
    if (!target) {
      this.#open.splice(this.#open.lastIndexOf(open), 1);
      return false;
    }
    const image = open.mark === "![";
    const inside = this.#since(open).flatMap(unlinked);
    this.#pieces.pop();
    // Links contain no links, and images, which are links here, no images.
    this.#open = this.#open.filter((open) => (image ? open.mark !== "![" : !open.mark.endsWith("[")));
    if (inside.length === 0) inside.push(image ? "image" : target.address);
    const href = safe(target.address);
    if (href) this.#anchor(href, inside);
    else for (const piece of inside) this.#put(piece);
    this.#at = target.end;
    return true;
  }

  /** @param {number} start where an address in parentheses may begin */
  #target(start) {
    const text = this.#text;
    if (text[start] !== "(") return null;
    let i = start + 1;
    while (text[i] === " ") i += 1;
    const from = i;
    let address;
    if (text[i] === "<") {
      for (i += 1; text[i] !== ">"; i++) if (text[i] === undefined || /[<\n]/.test(text[i])) return null;
      address = text.slice(from + 1, i++);
    } else {
      let depth = 0;
      for (; text[i] !== undefined && !/\s/.test(text[i]); i++) {
        if (text[i] === "\\") i += 1;
        else if (text[i] === "(" && ++depth > MOST_PARENTHESES) return null;
        else if (text[i] === ")" && --depth < 0) break;
      }
      address = text.slice(from, i).replace(/\\([!-/:-@[-`{-~])/g, "$1");
    }
    TITLE.lastIndex = i;
    i += TITLE.exec(text)?.[0].length ?? 0;
    while (text[i] === " ") i += 1;
    return text[i] === ")" ? { address, end: i + 1 } : null;
  }

  #angle() {
    const text = this.#text;
    BREAK.lastIndex = SCRIPT.lastIndex = ANGLED.lastIndex = this.#at;
    const rule = BREAK.exec(text) ?? SCRIPT.exec(text);
    if (rule) {
      const [{ length }, type, raised] = rule;
      this.#put(raised ? { type: /** @type {"sup"} */ (type), inside: [raised] } : { type: "break" });
      this.#at += length;
      return true;
    }
    const angled = ANGLED.exec(text);
    const href = angled && safe(angled[1]);
    if (!href) return false;
    this.#anchor(href, [angled[1]]);
    this.#at += angled[0].length;
    return true;
  }

  /** Two spaces at the end of a line are a line break. */
  #line() {
    const last = this.#pieces[this.#pieces.length - 1];
    if (typeof last !== "string" || !this.#text.endsWith("  ", this.#at)) return false;
    this.#pieces[this.#pieces.length - 1] = last.trimEnd();
    this.#put({ type: "break" });
    this.#at += 1;
    return true;
  }

  /** A bare address. */
  #bare() {
    const text = this.#text;
    if (/[\p{L}\p{N}]/u.test(characterBefore(text, this.#at))) return false;
    BARE.lastIndex = this.#at;
    const found = BARE.exec(text);
    if (!found) return false;
    const address = trimmed(found[0]);
    const href = safe(address);
    this.#at += address.length;
    if (href) this.#anchor(href, [address]);
    else this.#put(address);
    return true;
  }

  /**
   * Adds a link, and its host where its label names another.
   *
   * @param {string} href
   * @param {Inline[]} inside
   */
  #anchor(href, inside) {
    const { host, pathname } = new URL(href);
    const [, named] = ADDRESS.exec(inside.map(plain).join("")) ?? [];
    if (named && !`.${host || pathname}`.endsWith(`.${named.toLowerCase()}`)) inside.push(` (${host || pathname})`);
    this.#put({ type: "link", href, inside });
  }
}

/**
 * Whether a run of delimiters closes another, by CommonMark's rule of three: in `*a**b*` the inner stars are
 * text.
 *
 * @param {Open} open
 * @param {boolean} opens whether the run could also open a span
 * @param {number} length
 */
function matches(open, opens, length) {
  const ambiguous = open.closes || opens;
  return !ambiguous || (open.length + length) % 3 !== 0 || (open.length % 3 === 0 && length % 3 === 0);
}

/**
 * The pieces, with open delimiters as text.
 *
 * @param {(Inline | Open)[]} pieces
 */
function settled(pieces) {
  /** @type {Inline[]} */
  const settled = [];
  for (const piece of pieces) {
    add(settled, typeof piece === "object" && "mark" in piece ? piece.mark.repeat(piece.count) : piece);
  }
  return settled;
}

/**
 * Adds a piece; texts that follow each other are one.
 *
 * @param {(Inline | Open)[]} pieces
 * @param {Inline} piece
 */
function add(pieces, piece) {
  const last = pieces[pieces.length - 1];
  if (piece === "") return;
  if (typeof piece !== "string" || typeof last !== "string") pieces.push(piece);
  else pieces[pieces.length - 1] = last + piece;
}

/**
 * Length of the run of one character.
 *
 * @param {string} text
 * @param {number} i
 */
function runAt(text, i) {
  let end = i + 1;
  while (text[end] === text[i]) end += 1;
  return end - i;
}

/**
 * A bare address without the punctuation and brackets after it.
 *
 * @param {string} address
 */
function trimmed(address) {
  let end = address.length;
  let parentheses = 0;
  for (const character of address) parentheses += Number(character === "(") - Number(character === ")");
  for (; end > 0; end--) {
    const last = address[end - 1];
    if (last === ")" && parentheses < 0) parentheses += 1;
    else if (!/[?!.,:;*_~'"\]|]/.test(last)) break;
  }
  return address.slice(0, end);
}

/**
 * The pieces that a link may contain.
 *
 * @param {Inline} piece
 * @returns {Inline[]}
 */
function unlinked(piece) {
  if (typeof piece === "string" || !("inside" in piece)) return [piece];
  const inside = piece.inside.flatMap(unlinked);
  return piece.type === "link" ? inside : [{ ...piece, inside }];
}

/**
 * The text of a piece.
 *
 * @param {Inline} piece
 * @returns {string}
 */
function plain(piece) {
  if (typeof piece === "string") return piece;
  return "inside" in piece ? piece.inside.map(plain).join("") : "text" in piece ? piece.text : " ";
}

/**
 * Whether a run of delimiters is flanking, in CommonMark's sense, on one side.
 *
 * @param {string} near
 * @param {string} far
 */
function flanks(near, far) {
  if (/^\s?$/.test(near)) return false;
  return !PUNCTUATION.test(near) || /^\s?$/.test(far) || PUNCTUATION.test(far);
}

/**
 * @param {string} text
 * @param {number} i
 */
function characterAt(text, i) {
  return [...text.slice(i, i + 2)][0] ?? "";
}

/**
 * @param {string} text
 * @param {number} i
 */
function characterBefore(text, i) {
  return [...text.slice(Math.max(0, i - 2), i)].pop() ?? "";
}
