// WebKitGTK, whose engine is Safari's, as the tests start it. Playwright cannot drive it: here is, in
// Playwright's shape, as much as the tests that run in it ask of a browser.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { freePort } from "../free-port.mjs";
import { Session, whenReady } from "./webdriver.mjs";

/** WebKitGTK's driver, where tests are to run in WebKitGTK. */
export const WEBKIT = process.env.TABLOOM_WEBKIT;

/** Why some tests do not run in it. */
export const BEYOND_WEBKIT = {
  disk: "what a driver starts keeps nothing on disk, and has no origin private file system",
  pieces: "it hands over what has arrived in pieces of any size, so it does not say where parts begin",
};

/** What Safari has and WebKitGTK 2.50 leaves off. */
const FEATURES = ["StorageAPI", "StorageAPIEstimate"];

/** Keys, in WebDriver's codes. */
const KEYS = { Enter: "\uE007" };

/** Longest wait for a page, and for a promise in it, which may be that of a whole test. */
const [PATIENCE, LONG_PATIENCE] = [90_000, 300_000];

/**
 * Starts WebKitGTK, on a display of its own.
 *
 * @returns {Promise<import("playwright-core").Browser>}
 */
export async function launchWebkit() {
  const screen = ["-screen", "0", "1280x1024x24", "-nolisten", "tcp"];
  const display = spawn("Xvfb", ["-displayfd", "1", ...screen], { stdio: ["ignore", "pipe", "ignore"] });
  const signal = AbortSignal.timeout(PATIENCE);
  const [number] = await once(createInterface(display.stdout), "line", { signal });
  return /** @type {any} */ (new Browser(display, `:${number}`));
}

/** Contexts of it are browsers of their own, which share nothing. */
class Browser {
  /** @type {Context[]} */
  #contexts = [];
  #display;
  #name;

  constructor(display, name) {
    this.#display = display;
    this.#name = name;
  }

  async newContext() {
    const context = await Context.open(this.#name);
    this.#contexts.push(context);
    return context;
  }

  async newPage() {
    return (await this.newContext()).newPage();
  }

  async close() {
    for (const context of this.#contexts) await context.close();
    this.#display.kill();
  }
}

class Context {
  #driver;
  #session;

  constructor(driver, session) {
    this.#driver = driver;
    this.#session = session;
  }

  static async open(display) {
    const port = await freePort();
    const env = { ...process.env, DISPLAY: display };
    const driver = spawn(WEBKIT, [`--port=${port}`], { env, stdio: "ignore" });
    const address = `http://127.0.0.1:${port}`;
    const args = ["--automation", `--features=${FEATURES.join()}`];
    try {
      await whenReady(address);
      // It begins with a window, which nothing closes: the browser would end with its last one.
      return new Context(driver, await Session.open(address, { "webkitgtk:browserOptions": { args } }));
    } catch (error) {
      driver.kill();
      throw error;
    }
  }

  async newPage() {
    return new Page(this, this.#session, await this.#session.newWindow());
  }

  /** Closes the browser, once. */
  async close() {
    const session = this.#session;
    this.#session = null;
    try {
      await session?.close();
    } finally {
      this.#driver.kill();
    }
  }
}

class Page {
  #context;
  #session;
  #window;
  #calls = 0;

  constructor(context, session, window) {
    this.#context = context;
    this.#session = session;
    this.#window = window;
  }

  context() {
    return this.#context;
  }

  goto(url) {
    return this.#session.go(this.#window, url);
  }

  reload() {
    return this.#session.reload(this.#window);
  }

  close() {
    return this.#session.closeWindow(this.#window);
  }

  /**
   * What a function in the page gives, as JSON has it. Other commands go on while a promise of it is awaited:
   * a script begins it, others ask whether it has settled.
   */
  async evaluate(body, argument) {
    const id = `${++this.#calls}`;
    await this.run(
      `const [id, argument] = arguments;
      const calls = (globalThis.evaluated ??= {});
      const plain = (value) => ({ value: value === undefined ? null : JSON.stringify(value) });
      const failed = (error) => ({ error: \`\${error}\\n\${error?.stack ?? ""}\` });
      const asked = async () => (${body})(argument === null ? undefined : JSON.parse(argument));
      calls[id] = null;
      asked().then(plain).catch(failed).then((outcome) => (calls[id] = outcome));`,
      id,
      argument === undefined ? null : JSON.stringify(argument),
    );
    const settled = `return globalThis.evaluated ? evaluated[arguments[0]] : { error: "the page has gone elsewhere" };`;
    const outcome = await this.until("a promise to settle", () => this.run(settled, id), LONG_PATIENCE);
    if (outcome.error) throw new Error(`in the page: ${outcome.error}`);
    return outcome.value === null ? undefined : JSON.parse(outcome.value);
  }

  waitForFunction(body, argument, { timeout = PATIENCE } = {}) {
    const holds = `async (argument) => Boolean(await (${body})(argument))`;
    return this.until(`${body}`, () => this.evaluate(holds, argument), timeout);
  }

  locator(selector, options) {
    return new Locator(this, selector, options);
  }

  /** Runs the body of a function in the page; gives what it returns, elements too. */
  run(script, ...args) {
    return this.#session.run(this.#window, script, args);
  }

  click(element) {
    return this.#session.click(this.#window, element);
  }

  type(element, text) {
    return this.#session.type(this.#window, element, text);
  }

  /** Asks until the answer is truthy. */
  async until(what, ask, patience = PATIENCE) {
    for (const end = Date.now() + patience; ; ) {
      const answer = await ask();
      if (answer) return answer;
      if (Date.now() > end) throw new Error(`waited ${patience / 1000} s for ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** An element of a page, maybe in a shadow tree, by a selector of compounds and descendants, and its text. */
class Locator {
  #page;
  /** What {@link find} is given. */
  #what;

  constructor(page, selector, { hasText = /(?:)/ } = {}, which = 0) {
    this.#page = page;
    this.#what = [selector, hasText.source, which];
  }

  first() {
    return this;
  }

  last() {
    const [selector, text] = this.#what;
    return new Locator(this.#page, selector, { hasText: new RegExp(text) }, -1);
  }

  /** Waits until it is shown, or there. */
  waitFor({ state = "visible" } = {}) {
    return this.#page.until(`${this.#what}`, () => this.#find("Boolean(found)", state));
  }

  isVisible() {
    return this.#find("Boolean(found)", "visible");
  }

  click() {
    return this.#act((element) => this.#page.click(element));
  }

  fill(text) {
    return this.#act(async (element) => {
      await this.#page.run("arguments[0].value = ''", element);
      await this.#page.type(element, text);
    });
  }

  press(key) {
    return this.#act((element) => this.#page.type(element, KEYS[key]));
  }

  async textContent() {
    const ask = () => this.#find("found && { text: found.textContent }", "attached");
    return (await this.#page.until(`${this.#what}`, ask)).text;
  }

  /** Does something to the element once it is shown and not about to change. */
  #act(action) {
    return this.#page.until(`${this.#what}`, async () => {
      const element = await this.#find("found", "visible");
      if (!element) return false;
      try {
        await action(element);
        return true;
      } catch (error) {
        if (/^(stale element reference|element (not interactable|click intercepted))/.test(error.message)) return false;
        throw error;
      }
    });
  }

  /** What is asked of the element that is found. */
  #find(asked, state) {
    return this.#page.run(`const found = (${find})(...arguments); return ${asked};`, ...this.#what, state);
  }
}

/** Runs in the page: the first or the last element that a {@link Locator} means, or null. */
function find(selector, text, which, state) {
  const compounds = selector.split(/ (?![^(]*\))/).reverse();
  const inside = (root) =>
    [...root.querySelectorAll("*")].flatMap((element) => [
      element,
      ...(element.shadowRoot ? inside(element.shadowRoot) : []),
    ]);
  const around = (element) => {
    const parent = element.parentElement ?? element.getRootNode().host;
    return parent ? [parent, ...around(parent)] : [];
  };
  const fits = (element, /** @type {string[]} */ [compound, ...rest]) =>
    element.matches(compound) && (rest.length === 0 || around(element).some((outer) => fits(outer, rest)));
  return (
    inside(document)
      .filter((element) => fits(element, compounds) && new RegExp(text).test(element.textContent.trim()))
      .filter((element) => state === "attached" || element.getClientRects().length > 0)
      .at(which) ?? null
  );
}
