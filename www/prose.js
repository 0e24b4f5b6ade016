import { PROSE } from "./tabloom/element/parts.js";

/** Gives the page's messages the style of the package's element. */
export function adoptProse() {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(PROSE);
  document.adoptedStyleSheets.push(sheet);
}
