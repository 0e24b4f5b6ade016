// Registers the service worker that keeps the page's own files, so that it opens without a network, and
// reports when a newer version of them is there; offers to install the page.
import { $ } from "./dom.js";
import { script } from "./trusted.js";

/** Registers the service worker, where browsers have such. */
export async function keepOffline() {
  const { serviceWorker } = navigator;
  if (!serviceWorker) return;
  try {
    const registration = await serviceWorker.register(script("service"), { updateViaCache: "none" });
    if (registration.waiting) offer(registration);
    registration.addEventListener("updatefound", () => watch(registration));
  } catch (error) {
    // Denied, or no network: the page works without it.
    console.warn(error);
  }
}

/** Offers to install the page, where the browser says that it can be and is not. */
export function offerInstall() {
  addEventListener("beforeinstallprompt", (/** @type {any} */ event) => {
    event.preventDefault();
    $("install").hidden = false;
    $("install").onclick = () => {
      // A browser asks once; it reports if it may be asked again.
      $("install").hidden = true;
      event.prompt();
    };
  });
  addEventListener("appinstalled", () => ($("install").hidden = true));
}

/** @param {ServiceWorkerRegistration} registration */
function watch(registration) {
  const { installing } = registration;
  installing?.addEventListener("statechange", () => {
    // The first service worker takes over from none.
    if (installing.state === "installed" && registration.active) offer(registration);
  });
}

/** @param {ServiceWorkerRegistration} registration with a newer version that waits */
function offer(registration) {
  $("update").hidden = false;
  $("reload").addEventListener("click", () => {
    navigator.serviceWorker.addEventListener("controllerchange", () => location.reload(), { once: true });
    registration.waiting?.postMessage("take over");
  });
}
