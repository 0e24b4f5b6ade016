// "Put this on your site": the lines of HTML for the present model, or for another where only this page or this device
// has that.
import { $, write } from "./dom.js";
import { BUILT_IN } from "./loader.js";
import { fill, texts } from "./texts.js";

/** Where a site might have its own model. */
const FOLDER = "/models/my-model/";
/** A small model that everybody can load. */
const FOR_ALL = "smollm2-135m";

/** @param {import("./loader.js").Loader} loader */
export function offerSite(loader) {
  const dialog = $("site");
  const show = () => {
    const { source, current } = loader;
    const present = current?.info.model ?? FOLDER;
    const [model, about] =
      source === BUILT_IN
        ? [FOR_ALL, texts.site.builtIn]
        : present.startsWith("local:")
          ? [FOLDER, fill(texts.site.files, { folder: FOLDER })]
          : [present, ""];
    const element = `<tabloom-chat model="${model.replace(/"/g, "&quot;")}"></tabloom-chat>`;
    write($("site-line"), `<script type="module" src="/tabloom/element.js"></script>\n${element}`);
    write($("site-about"), about);
    write($("site-said"), "");
    dialog.showModal();
  };
  for (const button of document.querySelectorAll(".embed")) button.addEventListener("click", show);
  $("close-site").addEventListener("click", () => dialog.close());
  $("copy-site").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText($("site-line").textContent);
      write($("site-said"), texts.site.copied);
    } catch (error) {
      console.warn(error);
      write($("site-said"), texts.site.notCopied);
    }
  });
}
