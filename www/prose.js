import { PROSE } from "./tabloom/element/parts.js";

/** Has the page show messages as the package's element does. */
export function adoptProse() {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(PROSE);
  document.adoptedStyleSheets.push(sheet);
}
