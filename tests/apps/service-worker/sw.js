const CACHE = "site-1";

addEventListener("install", (event) => event.waitUntil(keep()));
addEventListener("activate", (event) => event.waitUntil(begin()));
addEventListener("fetch", (event) => {
  // Models are the engine's affair.
  if (!new URL(event.request.url).pathname.startsWith("/models/")) event.respondWith(answer(event.request));
});

async function keep() {
  const cache = await caches.open(CACHE);
  await cache.addAll(FILES);
  await skipWaiting();
}

async function begin() {
  for (const name of await caches.keys()) {
    if (name !== CACHE && name !== "tabloom") await caches.delete(name);
  }
  await clients.claim();
}

async function answer(request) {
  const cache = await caches.open(CACHE);
  return (await cache.match(request, { ignoreSearch: true })) ?? fetch(request);
}
