/**
 * The style of messages and of Markdown. The page sets the colours `--accent`, `--text`, `--muted`, `--line`,
 * `--surface` and `--bubble`, and the font of code, `--mono`.
 */
export const PROSE = `
.message { display: flex; flex-direction: column; }
.message + .message { margin-block-start: 1rem; }
.user { align-items: flex-end; }
.user .text {
  max-inline-size: 85%;
  padding: .6rem 1rem;
  border: 1px solid transparent;
  border-radius: 1.15rem;
  border-end-end-radius: .35rem;
  background: var(--bubble);
  white-space: pre-wrap;
}
.text { overflow-wrap: anywhere; min-inline-size: 0; }
.note { margin: .5rem 0 0; color: var(--muted); font-size: .875em; }
.actions { display: flex; gap: .125rem; margin: .25rem -.4rem 0; color: var(--muted); }
.user .actions { margin-inline: 0; }
.forgotten { margin: 1.25rem 0 .25rem; padding-block-start: .5rem; border-block-start: 1px dashed var(--line); color: var(--muted); font-size: .875em; text-align: center; }
.versions { display: flex; align-items: center; font-size: .8em; font-variant-numeric: tabular-nums; }
.versions .icon { inline-size: 1.5rem; }
.versions:dir(rtl) svg { scale: -1 1; }
.edited .text { border-color: var(--accent); }
.busy .recent .actions { visibility: hidden; }
@media (hover: hover) {
  .message:not(.recent) .actions { opacity: 0; }
  .message:is(:hover, :focus-within) .actions { opacity: 1; }
}

.assistant .text > * { margin: 0; }
.assistant .text :where(* + :is(p, ul, ol, blockquote, .code, .scroller, h3, h4, h5, h6, hr)) { margin-block-start: .85em; }
.text :where(p, ul, ol, blockquote, pre, h3, h4, h5, h6, hr) { margin: 0; }
.text :is(h3, h4, h5, h6) { line-height: 1.35; font-weight: 650; letter-spacing: -.005em; }
.assistant .text * + :is(h3, h4) { margin-block-start: 1.3em; }
.text h3 { font-size: 1.3em; }
.text h4 { font-size: 1.15em; }
.text :is(h5, h6) { font-size: 1em; }
.text :is(ul, ol) { padding-inline-start: 1.6em; }
.text li + li { margin-block-start: .3em; }
.assistant .text li > :is(ul, ol) { margin-block-start: .3em; }
.text .loose > li + li { margin-block-start: .85em; }
.assistant .text .loose > li > :is(ul, ol) { margin-block-start: .85em; }
.text li::marker { color: var(--muted); }
.text blockquote { padding-inline-start: 1em; border-inline-start: 3px solid var(--line); color: var(--muted); }
.text hr { border: 0; border-block-start: 1px solid var(--line); }
.text a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: .2em; }
.text code { font: .875em/1.55 var(--mono); }
.text :not(pre) > code { padding: .15em .35em; border-radius: .35em; background: var(--surface); }
.code { border: 1px solid var(--line); border-radius: .75rem; background: var(--surface); overflow: hidden; }
.bar { display: flex; align-items: center; justify-content: space-between; padding: .25rem .4rem 0 1rem; color: var(--muted); font-size: .8em; }
.code pre { margin: 0; padding: .35rem 1rem .9rem; overflow-x: auto; tab-size: 4; direction: ltr; text-align: left; scrollbar-width: thin; border-radius: .75rem; }
p.math { overflow: auto hidden; }
.scroller { overflow-x: auto; scrollbar-width: thin; border: 1px solid var(--line); border-radius: .75rem; }
.text table { border-collapse: collapse; min-inline-size: 100%; font-size: .94em; }
.text :is(th, td) { padding: .5rem .9rem; text-align: start; vertical-align: top; overflow-wrap: normal; }
.text th { background: var(--surface); font-weight: 600; }
.text tbody tr { border-block-start: 1px solid var(--line); }
.text .center { text-align: center; }
.text .end { text-align: end; }

.dots { display: flex; gap: .3rem; padding-block: .6rem; }
.dots i { inline-size: .45rem; block-size: .45rem; border-radius: 50%; background: var(--muted); opacity: .5; }
@media (prefers-reduced-motion: no-preference) {
  .dots i { animation: pulse 1.2s ease-in-out infinite; }
  .dots i:nth-child(2) { animation-delay: .15s; }
  .dots i:nth-child(3) { animation-delay: .3s; }
  .actions { transition: opacity .15s; }
  .message { animation: appear .2s ease-out; }
}
@keyframes pulse { 50% { opacity: 1; translate: 0 -.15rem; } }
@keyframes appear { from { opacity: 0; translate: 0 .3rem; } }
`;
