// How far another model is loaded while the present one stays, in a line below the page's head.
import { amountOf } from "./tabloom/element/parts.js";
import { $, write } from "./dom.js";
import { fill, texts } from "./texts.js";

/** @param {import("./loader.js").Loader} loader */
export function showSwitching(loader) {
  for (const type of ["change", "progress"]) loader.addEventListener(type, () => show(loader));
  $("cancel-switch").addEventListener("click", () => {
    loader.cancel();
    $("choose").focus();
  });
}

/** @param {import("./loader.js").Loader} loader */
function show({ next, progress }) {
  $("switching").hidden = !next;
  if (!next) return;
  const { stage, loaded = 0, total = 0 } = progress ?? {};
  const { loading, preparing } = texts.switching;
  write($("switching-name"), fill(stage === "compile" ? preparing : loading, { name: next }));
  write($("switching-part"), progress && total > 0 ? amountOf(progress) : "");
  const bar = $("switching-bar");
  if (total > 0) bar.value = loaded / total;
  else bar.removeAttribute("value");
}
