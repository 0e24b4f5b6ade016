const CACHE = "site-1";

addEventListener("install", () => skipWaiting());

addEventListener("activate", (event) => event.waitUntil(begin()));

async function begin() {
  for (const name of await caches.keys()) {
    if (name !== CACHE && name !== "tabloom") await caches.delete(name);
  }
  await clients.claim();
}

addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  const { origin, pathname } = new URL(url);
  if (method === "GET" && origin === location.origin && !pathname.startsWith("/models/")) {
    event.respondWith(newest(event.request));
  }
});

/** What the server has, or else what it had. */
async function newest(request) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(request, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(request);
    if (kept) return kept;
    throw error;
  }
}
