const CSS = `
.attachments { order: -2; flex: 0 0 100%; display: flex; flex-wrap: wrap; gap: .35rem; max-block-size: 8rem; overflow-y: auto; scroll-snap-type: y proximity; margin: 0 0 .25rem; padding: .15rem; list-style: none; }
.attachments li { display: flex; flex-wrap: wrap; align-items: center; max-inline-size: 100%; padding-inline-start: .75rem; border: 1px solid var(--line); border-radius: 1.3rem; background: var(--surface); font-size: .875em; }
.attachments li:last-child { scroll-snap-align: end; scroll-margin-block-end: .15rem; }
.attachments b { max-inline-size: min(12rem, 100%); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-weight: 600; }
.attachments small { flex: none; margin-inline: .5rem .15rem; color: var(--muted); font-variant-numeric: tabular-nums; }
.attachments .icon { flex: none; border-radius: 50%; outline-offset: -2px; color: var(--muted); }
.attachments .icon:hover { background: var(--line); }
.notice { white-space: pre-line; }
.dropping::after {
  content: attr(data-drop);
  position: absolute;
  z-index: 2;
  inset: .5rem;
  display: grid;
  place-items: center;
  padding: 1rem;
  border: 2px dashed var(--accent);
  border-radius: var(--tabloom-radius, 1rem);
  background: color-mix(in srgb, var(--background) 97%, transparent);
  font-size: 1.25em;
  text-align: center;
  pointer-events: none;
}
details { margin-block-end: .35rem; }
summary { border-radius: .35rem; cursor: pointer; }
summary b { font-weight: 600; }
summary small { color: var(--muted); }
details pre { max-block-size: 18rem; margin-block-start: .35rem; overflow: auto; scrollbar-width: thin; white-space: pre-wrap; font: .8125em/1.5 var(--mono); }
@media (pointer: coarse) {
  summary { padding-block: .6rem; }
}
@media (forced-colors: active) {
  .attachments li { border-color: CanvasText; }
}
@media print {
  details::details-content { content-visibility: visible; block-size: auto; }
}
`;

/** @type {CSSStyleSheet | undefined} */
let sheet;

/**
 * Gives a shadow tree the style of what is attached.
 *
 * @param {Node} node in it
 */
export function adoptStyle(node) {
  const { adoptedStyleSheets } = /** @type {ShadowRoot} */ (node.getRootNode());
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync?.(CSS);
  }
  if (!adoptedStyleSheets?.includes(sheet)) adoptedStyleSheets?.push(sheet);
}
