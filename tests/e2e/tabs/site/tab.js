// A page of the site under test: what the tests call by way of `page.evaluate`.

const { setInterval } = globalThis;
let heartbeat = true;
globalThis.setInterval = /** @type {any} */ ((tick, period) => setInterval(() => heartbeat && tick(), period));
/** Whether intervals tick: by these a page pings its host. */
const setHeartbeat = (beats) => (heartbeat = beats);

const query = new URLSearchParams(location.search);
const folder = query.get("package") ?? "tabloom/";
const { Engine, TabloomError } = await import(`${new URL(`${folder}index.js`, document.baseURI)}`);

const policy = globalThis.trustedTypes?.createPolicy("worker", {
  createScriptURL: (file) => `${new URL(file, document.baseURI)}`,
});

/** The worker's address, as pages that require Trusted Types must give it. */
const worker = (file) => policy?.createScriptURL(file) ?? new URL(file, document.baseURI);

/** Milliseconds on the clock that pages, workers and the tests have in common. */
const now = () => performance.timeOrigin + performance.now();

const plain = (error) => ({
  typed: error instanceof TabloomError,
  name: error?.name,
  code: error?.code,
  message: error?.message ?? `${error}`,
  details: error?.details,
});

/** What a promise is rejected with. */
const failure = (promise) => promise.then(() => "no failure", plain);

/** Loads a model into `globalThis.engine`; the worker is the observed one unless named. */
async function load(url, { workerFile = "observed.js", ...options } = {}) {
  const device = query.get("device");
  globalThis.engine = await Engine.load(url, { workerUrl: worker(workerFile), device, ...options });
  return { host: engine.host, info: engine.info };
}

/** Streams by name: what came, and when. */
const streams = {};

/** Begins a stream and reads it unless `held`. */
function begin(name, params, /** @type {{held?: boolean, signal?: AbortSignal}} */ { held = false, signal } = {}) {
  const stream = { chunks: [], times: [], error: null };
  streams[name] = stream;
  const stream_options = { include_usage: true };
  const options = { signal };
  const asked = engine.chat.completions.create({ ...params, stream: true, stream_options }, options);
  stream.read = async () => {
    try {
      for await (const chunk of await asked) {
        stream.chunks.push(chunk);
        stream.times.push(now());
      }
    } catch (error) {
      stream.error = plain(error);
    }
  };
  asked.catch(() => {});
  if (!held) stream.reading = stream.read();
  return asked.then(() => null, plain);
}

/** Pieces of text that a stream has given so far. */
const pieces = (name) =>
  streams[name].chunks.filter((chunk) => chunk.choices.some(({ delta }) => delta.content)).length;

/** Asks for the engine's metrics again and again until `stop()` gives them all, with their times. */
function poll() {
  const samples = [];
  let stopped = false;
  const polling = (async () => {
    while (!stopped) {
      const sent = now();
      const metrics = await engine.metrics();
      samples.push({ sent, answered: now(), metrics });
    }
  })();
  return async () => {
    stopped = true;
    await polling;
    return samples;
  };
}

const probe = new BroadcastChannel("probe");

/** The workers that live. */
async function workers() {
  const { held } = await navigator.locks.query();
  const names = held.map(({ name }) => name).filter((name) => name.startsWith("probe "));
  return names.map((name) => name.slice("probe ".length));
}

/** The states of the workers that live. */
async function hosts() {
  return Promise.all((await workers()).map(state));
}

/** A worker's state, or null if it is gone or hangs. */
function state(id) {
  return new Promise((resolve) => {
    const finish = (value) => {
      probe.removeEventListener("message", listen);
      clearTimeout(limit);
      resolve(value);
    };
    const listen = ({ data }) => data.from === id && finish(data.state);
    const limit = setTimeout(finish, 10_000, null);
    probe.addEventListener("message", listen);
    probe.postMessage({ to: id, command: "state" });
  });
}

/** Tells every worker to do something. */
async function command(command) {
  for (const id of await workers()) probe.postMessage({ to: id, command });
}

/** Has the page seem hidden or visible, as when the visitor changes tabs. */
function show(visibilityState) {
  const property = (value) => ({ value, configurable: true });
  Object.defineProperties(document, {
    visibilityState: property(visibilityState),
    hidden: property(visibilityState === "hidden"),
  });
  document.dispatchEvent(new Event("visibilitychange"));
}

// Held as long as this page lives: who is granted it learns that the page is gone, when the browser
// notices.
const presence = `page ${query.get("name")}`;
await /** @type {Promise<void>} */ (
  new Promise((resolve) => {
    navigator.locks.request(presence, () => {
      resolve();
      return new Promise(() => {});
    });
  })
);

/** Whether this page is the leader. */
async function leads() {
  const { held } = await navigator.locks.query();
  const page = held.find(({ name }) => name === presence)?.clientId;
  return held.some(({ name, clientId }) => name.endsWith(" leader") && clientId === page);
}

Object.assign(globalThis, {
  Engine,
  load,
  failure,
  plain,
  worker,
  now,
  setHeartbeat,
  streams,
  begin,
  pieces,
  poll,
  hosts,
  leads,
  command,
  show,
});
globalThis.ready = true;

export {};
