// What <tabloom-chat> makes of a model's text: the right text in few kinds of elements, whatever the
// text is and wherever it is cut; and nothing in it is run or fetched.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inline } from "../../pkg-template/element/prose/inline.js";
import { linesOf, parse } from "../../pkg-template/element/prose/markdown.js";
import { RENDERERS } from "../../pkg-template/element/prose/renderers.js";
import { launch } from "./browser.mjs";
import { serve } from "./server.mjs";
import { randomFrom } from "./tabs/site/random.mjs";

let server;
let browser;
let page;
let requests;

before(async () => {
  server = await serve({ "": { "empty.html": "<!doctype html><title>Empty</title>" } });
  browser = await launch({ webgpu: false });
  page = await browser.newPage();
  requests = [];
  await page.goto(`${server.url}empty.html`);
  page.on("request", (request) => requests.push(request.url()));
  page.on("dialog", () => requests.push("a dialog"));
  await page.evaluate(prepare, `${server.url}tabloom/element/prose/`);
  requests.length = 0;
});

after(async () => {
  await browser?.close();
  await server?.close();
});

/** Runs in the page. */
async function prepare(folder) {
  const { Rendered } = await import(`${folder}render.js`);
  const { RENDERERS } = await import(`${folder}renderers.js`);
  const NAMES =
    "P H3 H4 H5 H6 HR DIV SPAN BUTTON SVG PATH PRE CODE BLOCKQUOTE UL OL LI TABLE THEAD TBODY TR TH TD A EM STRONG DEL BR SUB SUP".split(
      " ",
    );
  const ATTRIBUTES = "class part tabindex type aria-label aria-hidden viewBox d start href target rel".split(" ");

  globalThis.shown = (source) => {
    const root = document.createElement("div");
    new Rendered(root).show(source, false);
    return root;
  };

  /** What a root holds that it should not. */
  globalThis.faults = (root) => {
    const faults = [];
    for (const element of root.querySelectorAll("*")) {
      const name = element.localName.toUpperCase();
      if (!NAMES.includes(name)) faults.push(name);
      for (const { name: attribute, value } of element.attributes) {
        if (!ATTRIBUTES.includes(attribute)) faults.push(`${name} ${attribute}=${value}`);
        if (attribute === "href" && name !== "A") faults.push(`${name} ${value}`);
      }
      if (name !== "A") continue;
      const { protocol, rel, target } = element;
      const safe = ["http:", "https:", "mailto:"].includes(protocol) && target === "_blank";
      if (!safe || rel !== "noopener noreferrer nofollow") faults.push(element.outerHTML);
      if (element.querySelector("a")) faults.push(`a link in ${element.outerHTML}`);
    }
    return faults;
  };

  const enrich = () => import(`${folder}enrich.js`);
  await enrich();
  /** What asks the page for formulas is imported when the first is there. */
  globalThis.enriched = async () => {
    await enrich();
    await new Promise((resolve) => setTimeout(resolve));
  };

  /** Shows a text piece by piece, cut at the given places; gives what is there at last. */
  globalThis.grown = (source, cuts) => {
    const root = document.createElement("div");
    const rendered = new Rendered(root);
    for (const cut of cuts) {
      rendered.show(source.slice(0, cut), true);
      const found = faults(root);
      if (found.length > 0) throw new Error(`cut at ${cut}: ${found}`);
    }
    rendered.show(source, false);
    return root;
  };
  globalThis.Rendered = Rendered;
  globalThis.RENDERERS = RENDERERS;
}

const EXAMPLE = `Some *emphasis*, **strength** and \`code\`, ~~gone~~.
A second line with ***both*** and a [link](https://example.com/a_(b) "title").

# Title #
Setext is
not known
## Second
1. one
2. two with **bold
   text** on
   - nested
     \`\`\`js
     const a = "b";

     c();
     \`\`\`
   - more

     loose
3. three

* * *
> quoted *text*
> - a list
>
> end

text
| a | b \\| c |
|:--|--:|
| 1 | \`2\` |
| 3 | https://example.com/x. |

~~~
unclosed **code**`;

const HTML = `<p>Some <em>emphasis</em>, <strong>strength</strong> and <code>code</code>, <del>gone</del>.
A second line with <em><strong>both</strong></em> and a <a LINK href="https://example.com/a_(b)">link</a>.</p>
<h3>Title</h3><p>Setext is
not known</p><h4>Second</h4>
<ol><li><p>one</p></li><li><p>two with <strong>bold
text</strong> on</p><ul class="loose"><li><p>nested</p><div CODE>js|const a = "b";

c();</div></li><li><p>more</p><p>loose</p></li></ul></li><li><p>three</p></li></ol>
<hr><blockquote part="quote"><p>quoted <em>text</em></p><ul><li><p>a list</p></li></ul><p>end</p></blockquote>
<p>text</p><div class="scroller" tabindex="0"><table part="table"><thead><tr><th>a</th><th class="end">b | c</th></tr></thead>
<tbody><tr><td>1</td><td class="end"><code>2</code></td></tr><tr><td>3</td><td class="end"><a LINK href="https://example.com/x">https://example.com/x</a>.</td></tr></tbody></table></div>
<div CODE>|unclosed **code**</div>`;

test("Markdown is what it should be", async () => {
  const html = await page.evaluate((source) => {
    const root = shown(source);
    for (const code of root.querySelectorAll(".code")) {
      const [language, text] = [".language", "pre"].map((name) => code.querySelector(name).textContent);
      code.replaceChildren(`${language}|${text}`);
    }
    return root.innerHTML;
  }, EXAMPLE);
  const short = html
    .replaceAll('part="link"', "LINK")
    .replaceAll(' target="_blank" rel="noopener noreferrer nofollow"', "")
    .replaceAll(/part="code-block" class="code"/g, "CODE");
  const plain = (text) => text.replace(/LINK (href="[^"]*")/g, "$1 LINK").replaceAll(/>\s+</g, "><");
  const wanted = HTML.replaceAll("\n<", "<");
  assert.equal(plain(short), plain(wanted));
});

test("what is lowered or raised is shown so; a tag that is left open, or holds another, is text", async () => {
  const html = await page.evaluate(
    () => shown("H<sub>2</sub>O, x<sup>n</sup>, <sup>*a*</sub> <sub><br></sub>").innerHTML,
  );
  const left = "&lt;sup&gt;<em>a</em>&lt;/sub&gt; &lt;sub&gt;<br>&lt;/sub&gt;";
  assert.equal(html, `<p>H<sub>2</sub>O, x<sup>n</sup>, ${left}</p>`);
});

test("a text that is cut anywhere ends as the whole does", async () => {
  const differences = await page.evaluate((source) => {
    const differences = [];
    const whole = shown(source).innerHTML;
    const every = Array.from(source, (_, i) => i);
    if (grown(source, every).innerHTML !== whole) differences.push("letter by letter");
    for (const cut of every) {
      if (grown(source, [cut]).innerHTML !== whole) differences.push(cut);
      const part = source.slice(0, cut);
      const some = every.filter((i) => i < cut && i % 7 === cut % 7);
      if (grown(part, some).innerHTML !== shown(part).innerHTML) differences.push(`up to ${cut}`);
    }
    return differences;
  }, EXAMPLE);
  assert.deepEqual(differences, []);
});

test("what is final stays as it is, and is told once", async () => {
  const { kept, told, touched } = await page.evaluate((source) => {
    const root = document.createElement("div");
    const rendered = new Rendered(root);
    const told = [];
    const firsts = new Set();
    let touched = 0;
    const observer = new MutationObserver(() => {});
    for (let i = 0; i <= source.length; i++) {
      const final = rendered.show(source.slice(0, i), i < source.length);
      told.push(...final.map((node) => node.textContent));
      const [first] = root.children;
      if (told.length > 0 && first) {
        firsts.add(first);
        observer.observe(first, { subtree: true, childList: true, characterData: true, attributes: true });
      }
      touched += observer.takeRecords().length;
    }
    return { kept: firsts.size, told, touched };
  }, "First *block*.\n\nSecond **block**\n\n- third\n- and last\n");
  assert.equal(kept, 1);
  assert.equal(touched, 0);
  assert.deepEqual(told, ["First block.", "Second block", "thirdand last"]);
});

test("emphasis and code that are still open show as what they will be", async () => {
  const texts = await page.evaluate(() =>
    ["a **bold te", "a `code te", "a ***b", "- x\n- a *b", "> **q", "**done** and *", "[a **b"].map((source) => {
      const root = document.createElement("div");
      new Rendered(root).show(source, true);
      return root.innerHTML.replace(/ part="[^"]*"/g, "");
    }),
  );
  assert.deepEqual(texts, [
    "<p>a <strong>bold te</strong></p>",
    "<p>a <code>code te</code></p>",
    "<p>a <em><strong>b</strong></em></p>",
    "<ul><li><p>x</p></li><li><p>a <em>b</em></p></li></ul>",
    "<blockquote><p><strong>q</strong></p></blockquote>",
    "<p><strong>done</strong> and *</p>",
    "<p>[a <strong>b</strong></p>",
  ]);
});

/** What a page is asked to show: formulas, `=` before those that stand by themselves. */
const FORMULAS = [
  ["$x$", "x"],
  ["Let $a_1 * b*c$ and $\\frac{a}{b}$.", "a_1 * b*c", "\\frac{a}{b}"],
  ["\\(a\\), \\[b\\] and $$c$$.", "a", "=b", "=c"],
  ["$$\nx\n- y\n+ z\n$$", "=x\n- y\n+ z"],
  ["It is\n\\[ a \\\\ b \\]\nthen.", "=a \\\\ b"],
  ["- one\n\n  $$\n  x\n  $$\n- $y$", "=x", "y"],
  [
    "So\n\\begin{align*}\n  a &= b \\\\\n# c\n- d\n\\end{align*}\nthen.",
    "=\\begin{align*}\na &= b \\\\\n# c\n- d\n\\end{align*}",
  ],
  ["\\begin{gather} a \\\\ b \\end{gather}  ", "=\\begin{gather} a \\\\ b \\end{gather}"],
  ["- one\n\n  \\begin{equation}\n  x\n  \\end{equation}", "=\\begin{equation}\nx\n\\end{equation}"],
  ["\\begin{align} a \\end{gather}"],
  ["\\begin{align} a \\end{align} and"],
  ["\\begin{align}\na\n\nb\n\\end{align}"],
  ["| $a$ | b |\n|---|---|\n| 1 | \\(c\\) |", "a", "c"],
  ["**$a$** [\\(b\\)](https://x.y)", "a", "b"],
  ["$5 and $10"],
  ["$5–$10, US$5 and A$6, $ 5$ or $5 $"],
  ["`$x$` and \\$x\\$"],
  ["```\n$$x$$\n```"],
  ["$HOME/$USER"],
  ["$$ and \\( and \\["],
  ["$$\nx\n\n$$"],
  ["$$$$"],
];

test("formulas are found where the page shows such, and prices are none", async () => {
  const found = await page.evaluate(
    async (sources) => {
      const found = [];
      for (const source of sources) {
        const asked = [];
        RENDERERS.math = (tex, display) => void asked.push(`${display ? "=" : ""}${tex}`);
        const root = grown(source, []);
        await enriched();
        const plain = shown(source).innerHTML;
        const every = Array.from(source, (_, i) => i);
        RENDERERS.math = () => null;
        const whole = grown(source, every);
        await enriched();
        const same = whole.innerHTML === root.innerHTML && plain === root.innerHTML;
        found.push([source, ...asked, ...(same ? [] : [root.innerHTML])]);
      }
      RENDERERS.math = null;
      return found;
    },
    FORMULAS.map(([source]) => source),
  );
  assert.deepEqual(found, FORMULAS);
});

test("what is done is ticked in a list of tasks", async () => {
  const source = "- [x] done\n- [ ] *open*\n  1. [X] too\n- [x](https://x.y)\n- [y] none\n\n[x] none";
  const texts = await page.evaluate((source) => {
    const every = Array.from(source, (_, i) => i);
    return [...grown(source, every).querySelectorAll("p")].map((node) => node.textContent);
  }, source);
  assert.deepEqual(texts, ["☑ done", "☐ open", "☑ too", "x", "[y] none", "[x] none"]);
});

test("a text that was cut short goes on in its last block", async () => {
  const made = await page.evaluate(() => {
    const root = document.createElement("div");
    const rendered = new Rendered(root);
    const told = [["# One\n\nIt was"], ["# One\n\nIt was, she", true], ["# One\n\nIt was, she said.\n\nTwo"]].map(
      ([source, growing = false]) => rendered.show(source, growing).map((node) => node.textContent),
    );
    return [root.innerHTML, ...told];
  });
  assert.deepEqual(made, [
    "<h3>One</h3><p>It was, she said.</p><p>Two</p>",
    ["One", "It was"],
    [],
    ["It was, she said.", "Two"],
  ]);
});

test("without such a page formulas are text", async () => {
  const texts = await page.evaluate(() => ["$x$ $$y$$", "$$\n- y\n$$", "\\(a\\)"].map((text) => shown(text).innerHTML));
  assert.equal(texts[0], "<p>$x$ $$y$$</p>");
  assert.match(texts[1], /^<p>\$\$<\/p><ul>/);
  assert.equal(texts[2], "<p>(a)</p>");
});

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)><svg onload=alert(1)>",
  "<a href='javascript:alert(1)'>x</a><iframe src=//e.vil></iframe>",
  "[x](javascript:alert(1)) [x]( JaVaScRiPt:alert(1)) [x](java\tscript:alert(1)) [x](<javascript:alert(1)>)",
  "[x](data:text/html,<script>alert(1)</script>) [x](vbscript:x) [x](file:///etc/passwd) [x](blob:x) [x](//e.vil)",
  "[x](java&#115;cript:alert(1)) [x](\\javascript:alert(1)) <javascript:alert(1)> <data:text/html,x>",
  "![x](https://e.vil/pixel.png) ![](https://e.vil/p.png?secret) [![x](https://e.vil/a.png)](https://e.vil/)",
  "![x](javascript:alert(1)) ![x](data:image/svg+xml,<svg onload=alert(1)>)",
  '```"><script>alert(1)</script>\n</code></pre><script>alert(1)</script>\n```',
  '```js onload=alert(1) class="x"\nx\n```',
  "[a](https://e.vil/\" onclick=\"alert(1)) [a](https://e.vil/' onmouseover='alert(1))",
  "[x]: javascript:alert(1)\n[x] <style>*{background:url(//e.vil)}</style> <link rel=prefetch href=//e.vil>",
  "| <img src=x> | [x](javascript:1) |\n|---|---|\n| <script>x</script> | <br onclick=alert(1)> |",
  "[[[[a](https://e.vil/1)](https://e.vil/2)](javascript:3)](https://e.vil/4)",
  '> - 1. > ```\n> <base href=//e.vil>\n[<b>](https://e.vil) <https://e.vil/"><script>>',
];

test("hostile text is text: nothing runs, loads or leads astray", async () => {
  for (const source of HOSTILE) {
    const { found, text, images } = await page.evaluate((source) => {
      const root = shown(source);
      document.body.replaceChildren(root);
      for (const link of root.querySelectorAll("a")) link.dispatchEvent(new Event("mouseover"));
      return { found: faults(root), text: root.textContent, images: document.images.length };
    }, source);
    assert.deepEqual(found, [], source);
    assert.equal(images, 0);
    for (const tag of source.match(/<(script|img|iframe|svg|style|link|base)[^>]*>/g) ?? []) {
      if (!source.includes(`,${tag}`)) assert.ok(text.includes(tag), `${tag} of ${source} in ${text}`);
    }
  }
  const links = await page.evaluate(
    (sources) =>
      sources.flatMap((source) => [...shown(source).querySelectorAll("a")].map((a) => `${a.textContent} ${a.href}`)),
    [
      "![a fox](https://e.vil/fox.png)",
      "![](http://e.vil/)",
      "[w](mailto:a@b.c)",
      "[l](nowhere.html)",
      "[**s**](HTTPS://E.vil)",
    ],
  );
  assert.deepEqual(links, ["a fox https://e.vil/fox.png", "image http://e.vil/", "w mailto:a@b.c", "s https://e.vil/"]);
  await page.waitForTimeout(100);
  assert.deepEqual(requests, []);
});

test("a link whose label names another place says where it leads", async () => {
  const long = `https://e.vil/${"a".repeat(100_000)}`;
  for (const [source, label] of [
    ["[https://bank.com](https://e.vil/a)", "https://bank.com (e.vil)"],
    ["[Bank.com/login](https://bank.com.e.vil)", "Bank.com/login (bank.com.e.vil)"],
    ["[**bank**.`com`](https://e.vil:8000)", "bank.com (e.vil:8000)"],
    ["![https://bank.com](https://e.vil/?leak)", "https://bank.com (e.vil)"],
    ["[us@bank.com](mailto:us@e.vil)", "us@bank.com (us@e.vil)"],
    ["[https://bank.com@e.vil](https://e.vil)", "https://bank.com@e.vil (e.vil)"],
    ["https://b\u0430nk.com/a", "https://b\u0430nk.com/a (xn--bnk-6cd.com)"],
    ["<https://b\u0430nk.com/a>", "https://b\u0430nk.com/a (xn--bnk-6cd.com)"],
    ["[https://bank.com/a](https://bank.com/b)", "https://bank.com/a"],
    ["[bank.com](https://www.bank.com)", "bank.com"],
    ["[us@bank.com](mailto:us@bank.com)", "us@bank.com"],
    ["[the bank. com](https://e.vil)", "the bank. com"],
    ["https://bank.com@e.vil/", null],
    ["[a](https://bank.com:b@e.vil/)", null],
    [long, null],
    [`[a](${long})`, null],
  ]) {
    const shown = await page.evaluate((source) => globalThis.shown(source).querySelector("a")?.textContent, source);
    assert.equal(shown ?? null, label, source.slice(0, 100));
  }
});

/** Random documents whose text is known. */
class Author {
  constructor(seed) {
    this.random = randomFrom(seed);
  }

  below(n) {
    return Math.floor(this.random() * n);
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  many(most, make) {
    return Array.from({ length: 1 + this.below(most) }, make);
  }

  word() {
    return this.many(6, () => this.pick([..."abcdefghijkmnopqrstuvwxyzäß漢😀"])).join("");
  }

  /** @returns {[string, string]} Markdown and its text */
  phrase() {
    const w = this.word();
    return this.pick([
      [w, w],
      [w, w],
      [`*${w}*`, w],
      [`**${w}**`, w],
      [`***${w}***`, w],
      [`_${w}_`, w],
      [`~~${w}~~`, w],
      [`\`${w} <b>*\``, `${w} <b>*`],
      [`\`\`${w}\`x\`\``, `${w}\`x`],
      [`[${w}](https://example.com/${this.below(9)})`, w],
      [`[**${w}** x](javascript:alert(1))`, `${w} x`],
      [`![${w}](https://example.com/x.png)`, w],
      [`\\*${w}\\_\\[`, `*${w}_[`],
      [`<${w}>`, `<${w}>`],
      [`${w} * ${w}`, `${w} * ${w}`],
      ["snake_word_case", "snake_word_case"],
      [`**${w} *${w}* ${w}**`, `${w} ${w} ${w}`],
    ]);
  }

  line() {
    const phrases = [[this.word(), ""], ...this.many(5, () => this.phrase())];
    phrases[0][1] = phrases[0][0];
    return [0, 1].map((side) => phrases.map((phrase) => phrase[side]).join(" "));
  }

  block(depth) {
    const kind = this.pick([
      "text",
      "text",
      "heading",
      "code",
      "table",
      "rule",
      ...(depth < 3 ? ["list", "list", "quote"] : []),
    ]);
    const [source, text] = this.line();
    switch (kind) {
      case "text": {
        const lines = this.many(3, () => this.line());
        return [0, 1].map((side) => lines.map((line) => line[side]).join("\n"));
      }
      case "heading":
        return [`${"#".repeat(1 + this.below(6))} ${source}`, text];
      case "rule":
        return [this.pick(["---", "***", "_ _ _"]), ""];
      case "code": {
        const code = this.many(4, () =>
          this.pick(["**x**", "# y", "- z", "<b>", "", "  indented", "> q", "| a |"]),
        ).join("\n");
        return [`\`\`\`js\n${code}\n\`\`\``, `js${code}`];
      }
      case "table": {
        const columns = 1 + this.below(3);
        const row = () => Array.from({ length: columns }, () => this.line());
        const rows = [row(), ...this.many(3, row)];
        const lines = rows.map((cells) => `| ${cells.map(([source]) => source).join(" | ")} |`);
        lines.splice(1, 0, `|${" --- |".repeat(columns)}`);
        return [
          lines.join("\n"),
          rows
            .flat()
            .map(([, text]) => text)
            .join(""),
        ];
      }
      case "quote": {
        const [source, text] = this.document(depth + 1, 2);
        return [source.replace(/^/gm, "> "), text];
      }
      case "list": {
        const ordered = this.random() < 0.5;
        const items = this.many(3, () => this.document(depth + 1, 2));
        const lines = items.map(([source], i) => {
          const marker = ordered ? `${i + 1}. ` : "- ";
          return marker + source.replaceAll("\n", `\n${" ".repeat(marker.length)}`);
        });
        return [lines.join("\n"), items.map(([, text]) => text).join("")];
      }
    }
  }

  document(depth = 0, most = 5) {
    // In front of a list there is always something, so that two lists are never one.
    const blocks = this.many(most, () => [this.line(), this.block(depth)]).flat();
    return [blocks.map(([source]) => source).join("\n\n"), blocks.map(([, text]) => text).join("")];
  }

  garbage() {
    const words = [
      "*",
      "**",
      "_",
      "`",
      "```",
      "~~~",
      "~~",
      "[",
      "](",
      "](https://e.vil/)",
      "![",
      "(",
      ")",
      "<",
      ">",
      "<b>",
      "<script>",
      "<img src=x onerror=alert(1)>",
      "<br>",
      "<sub>",
      "</sub>",
      "|",
      "|-|\n",
      "-",
      "- ",
      "1. ",
      "12) ",
      "> ",
      "#",
      "## ",
      "\n",
      "\n\n",
      "\r\n",
      "  ",
      "    ",
      "\t",
      "\\",
      "&lt;",
      "https://e.vil/x",
      "javascript:alert(1)",
      "a",
      "b c",
      "é",
      "😀",
      "\0",
      "\u202e",
      "---",
      " :-: ",
      '"',
    ];
    return this.many(60, () => this.pick(words)).join("");
  }
}

test("random documents keep their text, wherever they are cut", async () => {
  const author = new Author(1);
  for (let round = 0; round < 150; round++) {
    const [source, text] = author.document();
    const cuts = author.many(12, () => author.below(source.length)).sort((a, b) => a - b);
    const result = await page.evaluate(
      ([source, cuts]) => {
        const root = shown(source);
        return { text: root.textContent, faults: faults(root), same: grown(source, cuts).innerHTML === root.innerHTML };
      },
      [source, cuts],
    );
    assert.deepEqual(result, { text, faults: [], same: true }, source);
  }
});

test("random garbage becomes nothing else, wherever it is cut", async () => {
  const author = new Author(2);
  for (let round = 0; round < 12; round++) {
    const cases = Array.from({ length: 100 }, () => {
      const source = author.garbage();
      return [source, author.many(12, () => author.below(source.length + 1)).sort((a, b) => a - b)];
    });
    const bad = await page.evaluate(
      (cases) =>
        cases.filter(([source, cuts]) => {
          const root = shown(source);
          return faults(root).length > 0 || grown(source, cuts).innerHTML !== root.innerHTML;
        }),
      cases,
    );
    assert.deepEqual(bad, []);
  }
  assert.deepEqual(requests, []);
});

/** What would take hours if a text of it took the square of its length. */
const REPEATED = [
  "[",
  "]",
  "*",
  "_",
  "`",
  "~",
  "(",
  "<",
  "!",
  "#",
  ">",
  "|",
  "-",
  "\\",
  "\n",
  "h",
  " ",
  "\t",
  "](",
  "[a](",
  "![",
  "[![a](b)",
  '](a "',
  "](<",
  "*`x` ",
  "_a *b ",
  "**a* ",
  "*_",
  "*a_",
  "a*b_ c** ",
  "~~a ",
  "`a``b```c````",
  "https://",
  "<https://",
  "<sub>",
  "<sub>a",
  "> ",
  "- ",
  "1. ",
  "> - ",
  "- a\n",
  "- a\n\n",
  "-\n ",
  "a|b\n-|-\n",
  "|\n-\n",
  "```\n",
  "# ",
  "a\n",
  "[a](https://x.y) ",
  "*[a](https://x.y) ",
  "\r\n",
  "$",
  "$. ",
  "$$",
  "$$\n",
  "\\(",
  "\\[",
  "\\[\n",
  "\\[\n# a\n",
  "\\begin{a}",
  "\\begin{a}\n",
  "\\(a\\) ",
];

test("200 kB of anything are read in linear time", () => {
  const texts = (blocks) =>
    blocks.flatMap((block) => {
      if (block.type === "list") return block.items.flatMap(texts);
      if (block.type === "quote") return texts(block.blocks);
      if (block.type === "table") return [block.head, ...block.rows].flat();
      return "text" in block ? [block.text] : [];
    });
  RENDERERS.math = () => null;
  for (const unit of REPEATED) {
    const source = unit.repeat(Math.ceil(200_000 / unit.length));
    const read = texts(parse(linesOf(source)).blocks);
    for (const text of read) inline(text);
    inline(source, true);
  }
  inline(Array.from({ length: 600 }, (_, i) => "`".repeat(i + 1)).join(" "));
});

test("100 kB of brackets, stars and backticks are shown", async () => {
  const lengths = await page.evaluate(
    (units) =>
      units.map((unit) => {
        const root = shown(unit.repeat(100_000 / unit.length));
        return root.textContent.length;
      }),
    ["[", "*", "`", "[a](", "*`x` "],
  );
  // A fence has a language and no text; rules have neither.
  assert.deepEqual(lengths.slice(0, 1), [100_000]);
  assert.equal(lengths[3], 100_000);
  assert.ok(lengths[4] > 50_000);
});
