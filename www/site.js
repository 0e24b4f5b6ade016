// "Put this on your site": the lines of HTML for the present model.
import { $, write } from "./dom.js";
import { BUILT_IN } from "./loader.js";
import { texts } from "./texts.js";

/** @param {import("./loader.js").Loader} loader */
export function offerSite(loader) {
  const dialog = $("site");
  const show = () => {
    const { source, current } = loader;
    const address = source === BUILT_IN ? "/models/my-model/" : (current?.info.model ?? "/models/my-model/");
    const model = address.startsWith("local:") ? "/models/my-model/" : address;
    const element = `<tabloom-chat model="${model.replace(/"/g, "&quot;")}"></tabloom-chat>`;
    write($("site-line"), `<script type="module" src="/tabloom/element.js"></script>\n${element}`);
    write($("site-said"), "");
    dialog.showModal();
  };
  for (const button of document.querySelectorAll(".embed")) button.addEventListener("click", show);
  $("close-site").addEventListener("click", () => dialog.close());
  $("copy-site").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText($("site-line").textContent);
      write($("site-said"), texts.site.copied);
    } catch {
      write($("site-said"), texts.site.notCopied);
    }
  });
}
