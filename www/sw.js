// Keeps the page's own files and answers with them, so that the page opens without a network. The build
// puts FILES before this: the path of each file with its SHA-256. Models are not among them: the engine
// keeps those itself.

/* global FILES */
const PREFIX = "tabloom-page-";
const scope = self.registration.scope;
/** The name of the cache changes with any file. */
const cacheName = digest(new TextEncoder().encode(JSON.stringify(FILES))).then((hash) => PREFIX + hash.slice(0, 16));
/** The files by address; the page itself has two addresses. */
const known = new Map(Object.keys(FILES).map((path) => [new URL(path, scope).href, path]));
known.set(scope, "index.html");

self.addEventListener("install", (event) => event.waitUntil(install()));
self.addEventListener("activate", (event) => event.waitUntil(begin()));
self.addEventListener("message", ({ data }) => data === "take over" && self.skipWaiting());
self.addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  const path = known.get(url.split(/[?#]/)[0]);
  // Everything else is fetched as if there were no service worker.
  if (method === "GET" && path !== undefined) event.respondWith(answer(path, event.request));
});

/** Keeps all files, or none where one is not what was built. */
async function install() {
  const cache = await caches.open(await cacheName);
  const before = await earlier();
  const keep = async ([path, hash]) => {
    const key = `${new URL(path, scope)}?sha256=${hash}`;
    // A file of an earlier version is not fetched again.
    const response = (await match(before, key)) ?? (await fetched(path, hash));
    await cache.put(key, response);
  };
  try {
    await Promise.all(Object.entries(FILES).map(keep));
  } catch (error) {
    await caches.delete(await cacheName);
    throw error;
  }
}

/** A file as the server has it now. */
async function fetched(path, hash) {
  const response = await fetch(new URL(path, scope), { cache: "no-cache" });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  const found = await digest(await response.clone().arrayBuffer());
  if (found !== hash) throw new Error(`${path} is not what was built`);
  return response;
}

async function answer(path, request) {
  const cache = await caches.open(await cacheName);
  const kept = await cache.match(`${new URL(path, scope)}?sha256=${FILES[path]}`);
  return kept ?? fetch(request);
}

/** Answers pages at once, and the engine's worker too, which may outlive the page that started it. */
async function begin() {
  await self.clients.claim();
  const own = await cacheName;
  for (const name of await caches.keys()) {
    if (name.startsWith(PREFIX) && name !== own) await caches.delete(name);
  }
}

/** The caches of earlier versions. */
async function earlier() {
  const own = await cacheName;
  const names = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== own);
  return Promise.all(names.map((name) => caches.open(name)));
}

async function match(all, key) {
  for (const cache of all) {
    const found = await cache.match(key);
    if (found) return found;
  }
  return undefined;
}

async function digest(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
