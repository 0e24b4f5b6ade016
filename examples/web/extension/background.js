// The service worker. Browsers stop it when nothing has happened for a while, and it may start no
// workers; so the engine belongs to an offscreen document, which stays.

let opening;

async function open() {
  if (await chrome.offscreen.hasDocument()) return;
  opening ??= chrome.offscreen.createDocument({
    url: "offscreen.html",
    reasons: ["WORKERS"],
    justification: "A worker runs the language model.",
  });
  await opening.finally(() => (opening = undefined));
}

// Whoever asks, a popup or a content script, is answered by the offscreen document.
chrome.runtime.onMessage.addListener(({ to, question }, _, respond) => {
  if (to !== "background") return;
  open()
    .then(() => chrome.runtime.sendMessage({ to: "engine", question }))
    .then(respond, (error) => respond({ error: error.message }));
  return true; // It answers later.
});
