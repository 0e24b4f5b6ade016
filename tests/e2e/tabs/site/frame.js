// A frame that loads the model when told to.
import { Engine } from "./tabloom/index.js";
import { VERSION } from "./tabloom/version.js";

globalThis.chat = async (params, options) => {
  globalThis.engine = await Engine.load("model/", { device: "cpu", ...options });
  const { choices } = await engine.chat.completions.create(params);
  return { host: engine.host, text: choices[0].message.content };
};

globalThis.refused = (options) =>
  Engine.load("model/", { device: "cpu", ...options }).then(
    () => "no failure",
    ({ name, code, message }) => ({ name, code, message }),
  );

/**
 * Looks for hosts and stores of another origin: speaks in the lobby, starts its worker by name, steals locks, reads
 * what is stored. Gives a function for what it has heard until then, and the names that it has found; `hosts` are the
 * locks of those that have greeted it.
 *
 * @param {string[]} locks that somebody else holds
 * @param {string} worker the address of their worker
 */
globalThis.intrude = async (locks, worker) => {
  const heard = [];
  const lobby = new BroadcastChannel(`tabloom ${VERSION} lobby`);
  const channel = new BroadcastChannel("an intruder");
  for (const { name } of [lobby, channel]) new BroadcastChannel(name).onmessage = ({ data }) => heard.push(data);
  globalThis.heard = () => heard.filter(({ type }) => type === "here" || type === "leads" || type === "up");
  for (const epoch of [0, Date.now(), Number.MAX_SAFE_INTEGER]) {
    for (const type of ["ask", "down"]) lobby.postMessage({ type, epoch });
    lobby.postMessage({ type: "join", channel: channel.name, epoch });
  }
  const found = async (look) => {
    try {
      return await look();
    } catch {
      // The browser denies it.
      return [];
    }
  };
  const steal = (name) => navigator.locks.request(name, { steal: true }, () => {});
  const greeting = (script) =>
    found(
      () =>
        new Promise((resolve, reject) => {
          const options = { type: "module", name: `tabloom ${VERSION}`, extendedLifetime: true };
          const shared = new SharedWorker(script, /** @type {WorkerOptions} */ (options));
          shared.onerror = reject;
          shared.port.onmessage = ({ data }) => resolve([data.host]);
          setTimeout(reject, 5000);
        }),
    );
  const list = async (entries) => {
    const names = [];
    for await (const name of entries) names.push(name);
    return names;
  };
  return {
    hosts: (await Promise.all([worker, new URL("observed.js", location.href)].map(greeting))).flat(),
    locks: await found(async () => {
      const { held } = await navigator.locks.query();
      await Promise.all(locks.map(steal));
      return held.map(({ name }) => name);
    }),
    caches: await found(() => caches.keys()),
    files: await found(async () => list((await navigator.storage.getDirectory()).keys())),
  };
};
