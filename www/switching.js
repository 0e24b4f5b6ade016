// How far another model is loaded while the present one stays, in a line below the page's head.
import { $, write } from "./dom.js";
import { formatBytes } from "./format.js";
import { fill, number, texts } from "./texts.js";

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
  const { loading, preparing, part } = texts.switching;
  write($("switching-name"), fill(stage === "compile" ? preparing : loading, { name: next }));
  const done = stage === "compile" ? number(loaded / total, { style: "percent" }) : fill(part, bytes(loaded, total));
  write($("switching-part"), total > 0 ? done : "");
  const bar = $("switching-bar");
  if (total > 0) bar.value = loaded / total;
  else bar.removeAttribute("value");
}

/**
 * @param {number} loaded
 * @param {number} total
 */
function bytes(loaded, total) {
  return { loaded: formatBytes(loaded), total: formatBytes(total) };
}
