// Faults that the simulation has to find: what each of them changes in the package, and for a rare one the first seed
// to try, which finds it as the sources are now.

/** @type {Record<string, import("./bundle.mjs").Change & {seed?: number}>} */
export const PLANTED = {
  "a call that has ended is not forgotten": {
    file: "host/session.js",
    find: "if (LAST.includes(answer.type)) this.#forget(call);",
    replace: "",
  },
  "calls are not asked again of the next host": {
    file: "host/session.js",
    find: "for (const call of this.#calls.keys()) this.#post(call, host);",
    replace: "",
  },
  "an abort is ignored": {
    file: "host/session.js",
    find: 'signal?.addEventListener("abort", abort, { signal: over.signal });',
    replace: "",
  },
  "open calls survive the engine": {
    file: "host/session.js",
    find: "this.#closed.abort(error);\n    this.#failAll(error);",
    replace: "this.#closed.abort(error);",
  },
  "a token comes twice after a host was lost": {
    file: "calls.js",
    find: "choice.tokens.push(...tokens);",
    replace: "if (choice.tokens.length < 3) choice.tokens.push(...tokens);",
  },
  "a stream begins anew after a host was lost": {
    file: "calls.js",
    find: "resume: this.#resume()",
    replace: "resume: null",
  },
  "a chunk that nobody awaits is lost": {
    file: "stream.js",
    find: "this.#items.push(item);",
    replace: "if (this.#items.length < 20) this.#items.push(item);",
  },
  "a reader gives no credit": {
    file: "calls.js",
    find: 'this.#session.notify(this, { type: "credit", chunks: this.#taken });',
    replace: "",
  },
  "a lock that is free goes unnoticed": {
    file: "connection.js",
    find: 'if (host) whenFree(host, { mode: "shared", signal }).then(gone, () => {});',
    replace: "",
  },
  "a port stays open": { file: "greeting.js", find: "port.close();", replace: "" },
  "a heartbeat never ends": { file: "page.js", find: "whenAborted(signal, stop);", replace: "" },
  "silence goes unnoticed": { file: "heartbeat.js", find: "silent += 1;\n      stuck += 1;", replace: "" },
  "a host that is stuck counts as alive": {
    file: "heartbeat.js",
    find: 'if (type !== "alive") stuck = 0;',
    replace: "stuck = 0;",
  },
  "a greeting is awaited for ever": {
    file: "greeting.js",
    find: "if (waits === LOADING || !host.loads) life.abort(new Silence());",
    replace: "",
  },
  "a store that hangs keeps the page waiting": {
    file: "index.js",
    find: "await unlessAborted(noting, AbortSignal.timeout(NOTING)).catch(() => {});",
    replace: "await noting;",
  },
  "a name waits for a store that hangs": {
    file: "entries.js",
    find: "(await answered(keys, [])) ?? []",
    replace: "(await keys) ?? []",
  },
  "a list waits for a store that hangs": {
    file: "inventory.js",
    find: "answered(listed(kind), [])",
    replace: "listed(kind)",
  },
  "a record is believed": { file: "inventory.js", find: "array(runs).reduce", replace: "runs.reduce" },
  "a file's name is believed": {
    file: "opfs.js",
    find: "flatMap(({ key }) => decoded(key))",
    replace: "map(({ key }) => decodeURIComponent(key))",
  },
  "a key is believed": { file: "entries.js", find: "return Boolean(new URL(address));", replace: "return true;" },
  "a server that does not answer keeps a load waiting": {
    file: "hub.js",
    find: 'const timer = setTimeout(() => life.abort(unread(address, "it does not answer")), PATIENCE);',
    replace: "const timer = undefined;",
  },
  "what a server says wrong has no code": {
    file: "hub.js",
    find: "throw error instanceof TabloomError ? error : unread(address, error.message);",
    replace: "throw error;",
  },
  "a page waits for its lock for ever": {
    seed: 67,
    file: "connection.js",
    find: "if (tab) await within(hold(tab, signal, robbed), life, { freezes });",
    replace: "if (tab) await hold(tab, signal, robbed);",
  },
  "a page falls over rubbish": { file: "guard.js", find: "= message ?? {}", replace: "= message" },
  "a malformed answer ends a call": {
    seed: 49,
    file: "guard.js",
    find: "if (!isAnswer(event.data)) event.stopImmediatePropagation();",
    replace: "",
  },
  "a message that was lost is not missed": {
    seed: 37,
    file: "json.js",
    find: "if (number === heard + 1) {",
    replace: "if (number) {",
  },
  "a page does not mind who speaks in its name": {
    seed: 126,
    file: "guard.js",
    find: 'if (greeted && asked) life.abort(crashed("another script speaks for this page"));',
    replace: "",
  },
  "a page whose lock was taken waits": {
    file: "connection.js",
    find: 'life.abort(new Departure("the page\'s lock was stolen"))',
    replace: "{}",
  },
  "a worker whose lock was taken tells its old name": {
    seed: 24,
    file: "worker.js",
    find: "(lock = takeLock())",
    replace: "{}",
  },
  "a page is connected twice": { file: "worker.js", find: " && !known(data.channel)", replace: "" },
  "a page does not ask for the leader's": {
    file: "leader.js",
    find: "answered = askWhenShown(port, () => lobby.postMessage(ask), life);",
    replace: "",
  },
  "a lock that is granted twice has two lead": {
    seed: 260,
    file: "candidate.js",
    find: "(leading ??= this.#lead(signal))",
    replace: "this.#lead(signal)",
  },
  "a leader's epoch may be anything": {
    file: "candidate.js",
    find: "return epochs.filter((epoch) => Number.isSafeInteger(epoch) && epoch < Date.now() + LATEST);",
    replace: "return epochs;",
  },
  "a candidate that resigns keeps its lock": {
    file: "candidate.js",
    find: 'this.#candidacy?.abort(new Departure("the leader has left"));',
    replace: "",
  },
  "a leader that is robbed goes on": {
    file: "candidate.js",
    find: "if (signal.aborted) return;\n    candidacy.abort();",
    replace: "if (signal.aborted) return;",
  },
  "a candidate that has resigned takes the lead": {
    seed: 198,
    file: "candidate.js",
    find: "if (!lock || former?.signal.aborted) return;",
    replace: "if (!lock) return;",
  },
  "a leader is never replaced": {
    file: "leader.js",
    find: "if (life.signal.reason instanceof Silence && visible()) this.#candidate.seize();",
    replace: "",
  },
  "nobody asks a new leader": { file: "leader.js", find: "if (waiting) join();\n          else if", replace: "if" },
  "a lobby stays open": { file: "leader.js", find: "lobby.close();\n      waiting?.close();", replace: "" },
  "a worker outlives its engine": {
    file: "private.js",
    find: "whenAborted(life.signal, () => worker.terminate());",
    replace: "",
  },
  "a released engine's lock is free before the host has heard of it": {
    file: "locks.js",
    find: "signal?.reason?.details ? setTimeout(release, 1000) : release(null)",
    replace: "release(null)",
  },
  "a released engine does not say what to free": {
    file: "greeting.js",
    find: "free: reason?.details?.free",
    replace: "",
  },
  "a page that is left keeps its host": {
    file: "page.js",
    find: 'globalThis.addEventListener("pagehide", left, { signal });',
    replace: "",
  },
  "a page listens for ever": {
    file: "page.js",
    find: 'globalThis.document?.addEventListener("visibilitychange", () => then(visible()), { signal });',
    replace: 'globalThis.document?.addEventListener("visibilitychange", () => then(visible()));',
  },
  "a worker does not say that it failed": {
    seed: 319,
    file: "worker.js",
    find: "for (const port of ports) notify(port, error);",
    replace: "",
  },
  "a worker keeps ports that never spoke": {
    seed: 29,
    file: "worker.js",
    find: 'const silence = setTimeout(() => leave("the page was silent"), PATIENCE);',
    replace: "const silence = undefined;",
  },
};
