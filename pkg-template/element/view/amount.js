import { ALL as TEXTS } from "./later.js";

/**
 * How much of a model is loaded: the bytes of its download, or the share of what comes then.
 *
 * @param {{stage: string, loaded: number, total: number}} progress
 */
export function amountOf({ stage, loaded, total }) {
  if (stage !== "download") {
    return (Math.floor((100 * loaded) / total) / 100).toLocaleString(TEXTS.locale, { style: "percent" });
  }
  const [size, unit, digits] = total < 1e9 ? [1e6, "megabyte", 1] : [1e9, "gigabyte", 2];
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const whole = { ...options, style: /** @type {const} */ ("unit"), unit };
  return `${(loaded / size).toLocaleString(TEXTS.locale, options)} / ${(total / size).toLocaleString(TEXTS.locale, whole)}`;
}

/**
 * Shows how far loading is.
 *
 * @param {Element} status with a place for the stage, for the amount, and the bar
 * @param {{stage: string, loaded: number, total: number}} progress
 */
export function showAmount(status, progress) {
  const { stage, loaded, total } = progress;
  const known = total > 0;
  const part = known ? Math.min(1, loaded / total) : 0;
  const [name, amount] = status.querySelectorAll("span");
  name.textContent = (stage !== "start" && TEXTS[/** @type {"download"} */ (stage)]) || TEXTS.connecting;
  amount.textContent = known ? amountOf(progress) : "";
  const track = /** @type {Element} */ (status.querySelector("[role=progressbar]"));
  track.classList.toggle("unknown", !known);
  const [fill] = track.getElementsByTagName("i");
  fill.style.scale = known ? `${part} 1` : "";
  if (known) track.setAttribute("aria-valuenow", `${Math.floor(100 * part)}`);
  else track.removeAttribute("aria-valuenow");
}
