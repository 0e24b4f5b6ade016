// The package on a server of another origin, as from a CDN: with nothing of it on the site, and with a
// worker's script of the site's own that imports the other's.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "./browser.mjs";
import { goldens } from "./package.mjs";
import { serve } from "./server.mjs";

const [FRANCE] = goldens;
const STORY = goldens.find((golden) => /story/.test(golden.messages[0].content));
const ANYONE = { "access-control-allow-origin": "*" };

let cdn;
let site;

before(async () => {
  cdn = await serve({}, ANYONE);
  const origin = cdn.url.slice(0, -1);
  const policy = [
    "default-src 'none'",
    `script-src 'self' ${origin} 'wasm-unsafe-eval'`,
    `worker-src 'self' data: ${origin}`,
    `connect-src 'self' ${origin}`,
    "style-src 'unsafe-inline'",
    "img-src data:",
    "require-trusted-types-for 'script'",
    "trusted-types tabloom own",
  ].join("; ");
  const page = (script) => `<!doctype html><link rel="icon" href="data:,">${script}`;
  site = await serve(
    {
      "": {
        "page.html": page(`<script type="module" src="/page.js"></script>`),
        "page.js": `
          import { Engine } from "${cdn.url}tabloom/index.js";
          const policy = trustedTypes.createPolicy("own", { createScriptURL: (url) => url });
          Object.assign(globalThis, { Engine, policy });`,
        "chat.html": page(`<script type="module" src="${cdn.url}tabloom/element.js"></script>
          <tabloom-chat model="${cdn.url}model/" device="cpu"></tabloom-chat>`),
        "tabloom-worker.js": `import "${cdn.url}tabloom/worker.js";`,
      },
    },
    { "content-security-policy": policy },
  );
});

after(async () => {
  await cdn?.close();
  await site?.close();
});

/** Opens pages of the site in a browser; nothing may go wrong on them, and all of the package is the CDN's. */
async function visit(options, use) {
  const browser = await launch(options);
  const problems = [];
  site.requests.length = 0;
  try {
    const context = await browser.newContext();
    await use(async (file) => {
      const page = await context.newPage();
      page.setDefaultTimeout(60_000);
      page.on("pageerror", (error) => problems.push(`${error}`));
      page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
      await page.goto(`${site.url}${file}`);
      return page;
    });
  } finally {
    await browser.close();
  }
  assert.deepEqual(problems, []);
  assert.deepEqual(
    site.requests.filter((path) => path.startsWith("tabloom/")),
    [],
  );
}

/** Loads the model and asks; gives the answer and how it came about. */
async function chat(page, { messages }, options = {}) {
  await page.waitForFunction(() => globalThis.Engine);
  return page.evaluate(
    async ([model, messages, { workerUrl, ...options }]) => {
      if (workerUrl) options.workerUrl = policy.createScriptURL(workerUrl);
      globalThis.engine = await Engine.load(model, options);
      const { choices } = await engine.chat.completions.create({ messages, temperature: 0 });
      const {
        info: { device, stored },
        host,
      } = engine;
      const {
        host: { tabs },
      } = await engine.metrics();
      return { answer: choices[0].message.content, device, stored, host, tabs: tabs.length };
    },
    [`${cdn.url}model/`, messages, options],
  );
}

const refused = (page, host) =>
  page.evaluate(async (host) => {
    const error = await Engine.load("model/", { host }).catch((error) => error);
    return `${error.code} ${error.message}`;
  }, host);

test("a worker without storage and locks answers, in each tab its own", () =>
  visit({ opaque: true }, async (open) => {
    const page = await open("page.html");
    const { answer } = FRANCE;
    assert.deepEqual(await chat(page, FRANCE), { answer, device: "gpu", stored: false, host: "private", tabs: 1 });
    assert.match(await refused(page, "shared"), /^no_host .*another origin.*workerUrl/);
    assert.match(await refused(page, "leader"), /^no_host .*Web Locks.*workerUrl/);

    const chatting = await open("chat.html");
    const input = chatting.getByRole("textbox", { name: "Your message" });
    await input.fill(FRANCE.messages[0].content);
    await input.press("Enter");
    await input.press("Enter");
    await chatting.locator("[part~=assistant]", { hasText: answer }).waitFor();
  }));

/** Whether such a worker has the site's origin, which older releases give it. */
const isOfTheSite = (page) =>
  page.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const worker = new Worker(policy.createScriptURL("data:text/javascript,postMessage(self.origin)"));
        worker.onmessage = ({ data }) => resolve(data === origin);
        worker.onerror = reject;
      }),
  );

for (const [what, browser, options] of /** @type {[string, {opaque?: boolean}, {workerUrl?: string}][]} */ ([
  ["where such a worker is the site's, tabs share the leader's, else each has its own", {}, {}],
  [
    "a script of the site's own that imports the other can be shared",
    { opaque: true },
    { workerUrl: "/tabloom-worker.js" },
  ],
])) {
  test(what, () =>
    visit(browser, async (open) => {
      for (const [tabs, golden] of [
        [1, FRANCE],
        [2, STORY],
      ]) {
        const page = await open("page.html");
        const { answer, ...told } = await chat(page, golden, { ...options, device: "cpu" });
        assert.equal(answer, golden.answer);
        const among = { device: "cpu", stored: true, host: options.workerUrl ? "shared" : "leader", tabs };
        const alone = { device: "cpu", stored: false, host: "private", tabs: 1 };
        assert.deepEqual(told, options.workerUrl || (await isOfTheSite(page)) ? among : alone);
      }
    }),
  );
}
