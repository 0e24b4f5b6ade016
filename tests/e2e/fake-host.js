// Stands in for the WebAssembly module: a host that speaks the protocol without a model. Its answers
// count up, and what happens to it while it answers is up to the test, which it asks for each call.

/** Reports to the test what happens; gives what is to happen next. */
async function report(what) {
  const response = await fetch(new URL("/fate", import.meta.url), {
    method: "POST",
    body: JSON.stringify({ boot, ...what }),
  });
  return response.json();
}

const boot = Math.random();

export default async function init() {
  const { fate } = await report({ type: "boot", scope: globalThis.constructor.name });
  if (fate === "stall") await new Promise(() => {});
  if (fate) throw new Error(fate);
}

/** Ways to end. */
const FATES = {
  trap: () =>
    setTimeout(() => {
      throw new WebAssembly.RuntimeError("unreachable");
    }),
  reject: () => void Promise.reject(new WebAssembly.RuntimeError("memory access out of bounds")),
  close: () => close(),
  // The browser does so to the tab's workers with the tab.
  freeze: () => Atomics.wait(new Int32Array(new WebAssembly.Memory(ONE_PAGE).buffer), 0, 0),
};

const ONE_PAGE = { initial: 1, maximum: 1, shared: true };

export class Host {
  #environment;
  #tabs = new Set();
  /** Takes the next message when this resolves. @type {Promise<unknown>} */
  #ready = Promise.resolve();

  constructor(environment) {
    this.#environment = environment;
  }

  async connect(port) {
    // The host may be busy before it listens.
    await new Promise((resolve) => setTimeout(resolve));
    const tab = { port, calls: new Map(), model: null, known: false, name: null };
    this.#tabs.add(tab);
    port.onmessage = async ({ data }) => {
      await this.#ready;
      this.#take(tab, data);
    };
  }

  async #take(tab, message) {
    const { port, calls } = tab;
    const { type, id } = message;
    const send = (answer) => port.postMessage({ id, ...answer });
    const fail = (code) => send({ type: "error", error: { code, message: `${code}, says the host` } });
    if (type === "hello") {
      Object.assign(tab, { known: true, name: message.tab });
      const { fate, pause } = await report(message);
      await new Promise((resolve) => setTimeout(resolve, pause));
      if (fate === "version_mismatch") {
        tab.known = false;
        return fail(fate);
      }
      if (message.tab) this.#environment.whenGone(message.tab).then(() => this.#leave(tab));
      const { version, protocol } = message;
      return send({ type: "value", value: { version, protocol, host: this.#environment.name } });
    }
    if (!tab.known) return fail("handshake");
    if (type === "bye") return this.#leave(tab, message.free);
    if (type === "ping") return send({ type: "value", value: null });
    if (type === "visible") return report(message);
    if (type === "credit") {
      report(message);
      return calls.get(id)?.grant(message.chunks);
    }
    if (type === "cancel") {
      report(message);
      return calls.delete(id);
    }
    const { fate, at = 0, count = 4, pieces, pause, info, usage, busy, block } = await report(message);
    // A long step.
    if (busy) await (this.#ready = Promise.all([this.#ready, new Promise((over) => setTimeout(over, busy))]));
    if (type === "load") {
      for (const loaded of [1, 2]) {
        const step = { stage: "download", file: "weights", loaded, total: 2, rate: 1 };
        send({ type: "progress", progress: step });
      }
      if (fate) return this.#meet(fate, fail);
      tab.model = { lost: false };
      return send({ type: "value", value: { model: message.url, device: "gpu", ...info } });
    }
    if (tab.model.lost) return fail("closed");
    if (type === "metrics") return send({ type: "value", value: { tabs: this.#tabs.size } });
    if (type === "embed") {
      if (fate) return this.#meet(fate, fail);
      return send({ type: "value", value: { asked: message.request } });
    }
    const fall = () => this.#meet(fate, fail);
    await chat(
      tab,
      message,
      { count: pieces?.length ?? count, at, fall: fate && fall, pieces, pause, usage, block },
      send,
    );
  }

  #leave(tab, free) {
    if (!this.#tabs.delete(tab)) return;
    tab.calls.clear();
    tab.port.close();
    report({ type: "left", tab: tab.name, free });
  }

  #meet(fate, fail) {
    if (fate === "stick") this.#ready = new Promise(() => {});
    else if (fate === "device_lost") {
      for (const tab of this.#tabs) if (tab.model) tab.model.lost = true;
      fail(fate);
    } else if (fate in FATES) FATES[fate]();
    else fail(fate);
  }
}

/**
 * Answers with the numbers below `count`, or with `pieces`, each a token, as quickly as it can or with a
 * `pause` between them; meets its fate before token `at`. Steps `block` the worker's loop, as on the processor.
 */
async function chat(tab, message, { count, at, fall, pieces, pause = 0, usage: counts, block = 0 }, send) {
  const { id, request, moment, resume } = message;
  const { n = 1, stream, stream_options } = request;
  const head = { id: `chat-${moment.entropy}`, created: moment.now };
  if (!stream) {
    if (fall) return fall();
    const content = Array.from({ length: count }, (_, i) => `${i} `).join("");
    return send({ type: "value", value: { ...head, choices: [{ index: 0, message: { content } }] } });
  }
  let credit = message.credit;
  let more = () => {};
  const call = {
    grant(chunks) {
      credit += chunks;
      more();
    },
  };
  tab.calls.set(id, call);
  const chunk = async (choices, tokens = [], ended = null, rest = {}) => {
    while (credit === 0) await /** @type {Promise<void>} */ (new Promise((resolve) => (more = resolve)));
    if (tab.calls.get(id) !== call) return;
    for (const end = performance.now() + block; performance.now() < end; );
    credit -= 1;
    send({ type: "chunk", value: { ...head, choices, ...rest }, tokens, ended });
    sent += 1;
    await new Promise((resolve) => setTimeout(resolve, began + sent * pause - performance.now()));
  };
  let sent = 0;
  const began = performance.now();
  send({ type: "accepted" });
  const state = resume ?? Array.from({ length: n }, () => ({ tokens: [], started: false, ended: null }));
  for (const [index, { started }] of state.entries()) {
    if (!started) await chunk([{ index, delta: { role: "assistant" }, finish_reason: null }]);
  }
  for (let i = 0; i <= count; i++) {
    for (const [index, { tokens, ended }] of state.entries()) {
      if (i < tokens.length || ended !== null) continue;
      if (index === 0 && i === at && fall) return fall();
      const last = i === count;
      const delta = last ? {} : { content: pieces?.[i] ?? `${i} ` };
      const finish_reason = last ? "stop" : null;
      await chunk([{ index, delta, finish_reason }], last ? [] : [i], last ? count : null);
    }
  }
  if (fall && at > count) return fall();
  const usage = { completion_tokens: n * count, ...counts };
  if (stream_options?.include_usage) await chunk([], [], null, { usage });
  if (tab.calls.delete(id)) send({ type: "end" });
}
