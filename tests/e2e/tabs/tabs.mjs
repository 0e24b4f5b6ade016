// What the tests of many tabs share: a server, a browser, its visitors with their tabs, and limits
// on every wait.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { launch } from "../browser.mjs";
import { goldens } from "../package.mjs";
import { policy, serve } from "../server.mjs";
import { PATIENCE, within } from "../../within.mjs";

export { within };

/** The ways to share one engine. */
export const SHARING = ["shared", "leader"];

/** A long answer that transformers gave, and how to ask for it. */
export const STORY = golden(/story/);
/** A short one. */
export const FRANCE = golden(/France/);

/** A request that runs until it is cancelled, as far as tests can tell: 10 s and more. */
export const ENDLESS = { ...STORY.params, ignore_eos: true, max_tokens: 900 };

function golden(question) {
  const { messages, answer } = goldens.find(({ messages }) => question.test(messages[0].content));
  return { params: { messages, temperature: 0 }, answer };
}

/** Asks again and again until the answer is truthy, and returns it. */
export async function until(what, ask, seconds = PATIENCE) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const answer = await within(what, ask(), seconds);
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`waited ${seconds} s for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The files of `site/`. */
const folder = new URL("site/", import.meta.url);
const site = Object.fromEntries(readdirSync(folder).map((file) => [file, readFileSync(new URL(file, folder), "utf8")]));

/**
 * Starts a server with the files of `site/` and those of `folders`.
 *
 * @param {Parameters<typeof serve>[0]} folders
 * @param {Record<string, string>} headers
 */
export function serveSite(folders, headers) {
  const policed = { "content-security-policy": policy, ...headers };
  return serve({ ...folders, "": { ...site, ...folders[""] } }, policed);
}

/**
 * Starts such a server, and a browser.
 *
 * Engines that tests share run on the CPU, which compiles no pipelines, unless the tests look at
 * what is held of the GPU, or make it fail.
 *
 * @param {Parameters<typeof serve>[0]} [folders]
 * @param {{headers?: Record<string, string>, device?: "cpu" | "gpu"}} [options]
 */
export async function open(folders = {}, { headers = {}, device = "cpu" } = {}) {
  const server = await serveSite(folders, headers);
  // Buffers that are merely dropped count as freed once they are collected.
  const browser = await launch({ collect: true });
  return {
    server,
    browser,
    /** Somebody with a browser of their own: shares nothing with other visitors. */
    async visitor() {
      return new Visitor(await browser.newContext(), server.url, device);
    },
    async close() {
      await browser.close();
      await server.close();
    },
  };
}

class Visitor {
  #tabs = 0;

  constructor(context, url, device) {
    this.context = context;
    this.url = url;
    this.device = device;
  }

  /** Opens a tab, which loads nothing yet. */
  async tab(query = {}) {
    const tab = new Tab(this.context, `tab ${++this.#tabs}`, this.url, { device: this.device, ...query });
    await tab.open();
    return tab;
  }

  /** Opens tabs and has each load the model, one after the other: the first one has the host. */
  async tabs(count, options) {
    const tabs = [];
    while (tabs.length < count) {
      tabs.push(await this.tab());
      await tabs.at(-1).load(options);
    }
    return tabs;
  }

  /** Answers that requests get when each runs alone, in an engine of its own. */
  async alone(requests) {
    const tab = await this.tab();
    await tab.load({ host: "private" });
    const answers = [];
    for (const request of requests) answers.push(await tab.ask(request));
    await tab.close();
    return answers;
  }

  close() {
    return this.context.close();
  }
}

/** A tab, or what is left of it. */
class Tab {
  /** @type {import("playwright-core").CDPSession | undefined} */
  devtools;

  constructor(context, name, url, query) {
    this.context = context;
    this.name = name;
    this.address = `${url}tab.html?${new URLSearchParams({ name, ...query })}`;
  }

  async open() {
    this.page = await this.context.newPage();
    await this.arrive(this.page.goto(this.address));
  }

  async reload() {
    await this.arrive(this.page.reload());
  }

  async arrive(going) {
    await within(`${this.name} to open`, going);
    await this.page.waitForFunction(() => globalThis.ready, null, { timeout: PATIENCE * 1000 });
  }

  /** Runs a function in the page. */
  run(what, body, argument) {
    return within(`${this.name}: ${what}`, this.page.evaluate(body, argument));
  }

  /** Loads the model; which worker and rung, the options say. */
  load(options = {}, url = "model/") {
    return this.run("loading", ([url, options]) => load(url, options), [url, options]);
  }

  /** What loading is refused with. */
  refused(options = {}, url = "model/") {
    return this.run("refusal", ([url, options]) => failure(load(url, options)), [url, options]);
  }

  /** The whole answer, as {@link folded} gives it. */
  async ask(params) {
    const body = (params) => engine.chat.completions.create(params);
    const { choices, usage } = await this.run("an answer", body, params);
    return { choices: choices.map(({ message, ...rest }) => choice(message.content, rest)), usage: counts(usage) };
  }

  /** Begins a stream under a name; the request is accepted when this returns. */
  async begin(name, params, options = {}) {
    const body = ([name, params, options]) => begin(name, params, options);
    const error = await this.run(`begin of ${name}`, body, [name, params, options]);
    assert.equal(error, null);
  }

  /** Waits until a stream has given so many pieces of text. */
  pieces(name, count) {
    const ask = () => this.page.evaluate((name) => pieces(name), name);
    return until(`${count} pieces of ${name} in ${this.name}`, async () => (await ask()) >= count);
  }

  /** Waits for the end of a stream and returns what it gave. */
  stream(name) {
    return this.run(
      `end of ${name}`,
      async (name) => {
        const stream = streams[name];
        await stream.reading;
        const { chunks, times, error } = stream;
        return { chunks, times, error };
      },
      name,
    );
  }

  /** The whole answer that a stream gave. */
  async answer(name) {
    const { chunks, error } = await this.stream(name);
    assert.equal(error, null, `${name} in ${this.name} failed: ${error?.message}`);
    return folded(chunks);
  }

  metrics() {
    return this.run("metrics", () => engine.metrics());
  }

  /** Waits until no request runs or waits and no block is held; returns the metrics then. */
  idle() {
    // What is given up in the middle of a step is freed when the step ends.
    return until(
      `${this.name} to see an idle engine`,
      async () => {
        const metrics = await this.metrics();
        const { num_requests_running, num_requests_waiting, kv_cache_usage_perc } = metrics;
        return num_requests_running + num_requests_waiting + kv_cache_usage_perc === 0 && metrics;
      },
      10,
    );
  }

  /** The rung in use. */
  rung() {
    return this.run("rung", () => engine.host);
  }

  /** The workers that live, with what they hold of the GPU. */
  hosts() {
    return this.run("hosts", () => hosts());
  }

  /** Tells every worker to do something. */
  command(command) {
    return this.run(command, (command) => globalThis.command(command), command);
  }

  /** Shows the page, or hides it behind another. */
  show(visibility) {
    return this.run(visibility, (visibility) => show(visibility), visibility);
  }

  async close() {
    await within(`${this.name} to close`, this.page.close());
  }

  async navigate() {
    await within(`${this.name} to navigate`, this.page.goto("about:blank"));
  }

  /** Ends the tab's process. */
  async crash() {
    const crashed = this.page.waitForEvent("crash", { timeout: PATIENCE * 1000 });
    const devtools = await this.context.newCDPSession(this.page);
    // Never answered: who could is gone.
    devtools.send("Page.crash").catch(() => {});
    await crashed;
  }

  async freeze() {
    await this.#lifecycle("frozen");
  }

  async thaw() {
    await this.#lifecycle("active");
  }

  async #lifecycle(state) {
    this.devtools ??= await this.context.newCDPSession(this.page);
    await within(`${this.name} to be ${state}`, this.devtools.send("Page.setWebLifecycleState", { state }));
  }
}

/** The whole answer that chunks make up; fails where they do not make up one. */
function folded(chunks) {
  const same = (of, what) => assert.equal(new Set(chunks.map(of)).size, 1, `more than one ${what}`);
  same(({ id }) => id, "id");
  same(({ created }) => created, "date");
  same(({ model }) => model, "model");
  const choices = [];
  for (const { index, delta, finish_reason, logprobs } of chunks.flatMap(({ choices }) => choices)) {
    const known = choices[index];
    if (!known) assert.equal(delta.role, "assistant", "an answer begins with its role");
    else assert.equal(delta.role, undefined, "a second role");
    const { content, finish_reason: end, logprobs: before } = known ?? choice("", {});
    assert.equal(end, null, "a piece after the end");
    const all = logprobs ? [...(before?.content ?? []), ...logprobs.content] : before?.content;
    const rest = { finish_reason, logprobs: all ? { content: all, refusal: null } : null };
    choices[index] = choice(content + (delta.content ?? ""), rest);
  }
  for (const { finish_reason } of choices) assert.notEqual(finish_reason, null, "an answer without end");
  const usages = chunks.map(({ usage }) => usage).filter(Boolean);
  assert.equal(usages.length, 1, "usage is reported once");
  assert.equal(chunks.at(-1).usage, usages[0], "usage comes last");
  return { choices, usage: counts(usages[0]) };
}

function choice(content, { finish_reason = null, logprobs = null }) {
  return { content, finish_reason, logprobs };
}

/** Usage without what depends on others: how much was found in the cache. */
function counts({ prompt_tokens, completion_tokens, total_tokens }) {
  return { prompt_tokens, completion_tokens, total_tokens };
}

/** The text of an answer with one choice. */
export const text = ({ choices: [{ content }] }) => content;
