const CSS = `
:host {
  display: block;
  block-size: 36rem;
  max-block-size: 100dvh;
  min-block-size: 16rem;
  text-align: start;
}
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; }

.chat {
  --accent: var(--tabloom-accent, #2f5d50);
  --accent-text: var(--tabloom-accent-text, #fff);
  --background: var(--tabloom-background, #fff);
  --text: var(--tabloom-text, #1f2624);
  --muted: var(--tabloom-muted, #5f6966);
  --line: var(--tabloom-line, #e3e5e2);
  --surface: var(--tabloom-surface, #f4f5f2);
  --bubble: var(--tabloom-bubble, #e8efeb);
  --alert: var(--tabloom-alert, #9a3324);
  --mono: var(--tabloom-font-mono, ui-monospace, Menlo, Consolas, monospace);
  position: relative;
  display: flex;
  flex-direction: column;
  block-size: 100%;
  overflow: hidden;
  container-type: inline-size;
  border: 1px solid var(--line);
  border-radius: var(--tabloom-radius, 1rem);
  background: var(--background);
  color: var(--text);
  font: var(--tabloom-font-size, 1rem)/1.6 var(--tabloom-font, system-ui, sans-serif);
  -webkit-text-size-adjust: 100%;
}
@supports (color: light-dark(red, red)) {
  .chat {
    --accent: var(--tabloom-accent, light-dark(#2f5d50, #8fd0bb));
    --accent-text: var(--tabloom-accent-text, light-dark(#fff, #10201b));
    --background: var(--tabloom-background, light-dark(#fff, #171a1a));
    --text: var(--tabloom-text, light-dark(#1f2624, #e8ebe9));
    --muted: var(--tabloom-muted, light-dark(#5f6966, #9ba5a1));
    --line: var(--tabloom-line, light-dark(#e3e5e2, #2d3332));
    --surface: var(--tabloom-surface, light-dark(#f4f5f2, #1f2423));
    --bubble: var(--tabloom-bubble, light-dark(#e8efeb, #26322e));
    --alert: var(--tabloom-alert, light-dark(#9a3324, #ffb0a0));
  }
}
.frame { position: relative; flex: 1; overflow: hidden; }
.log {
  block-size: 100%;
  overflow-y: auto;
  overscroll-behavior: contain;
  scrollbar-width: thin;
  scrollbar-color: var(--line) transparent;
  padding: 1.75rem max(1.5rem, 50cqi - 21rem) 1.5rem;
}

.empty {
  min-block-size: 100%;
  display: flex;
  flex-direction: column;
  align-items: center;
  justify-content: center;
  gap: .4rem;
  text-align: center;
}
.empty svg { inline-size: 2.5rem; block-size: 2.5rem; color: var(--accent); stroke-width: 1.4; margin-block-end: .6rem; }
.empty p { margin: 0; max-inline-size: 21rem; color: var(--muted); text-wrap: balance; }
.empty .title { color: var(--text); font-size: 1.25em; font-weight: 600; }
.start { margin-block-start: 1.25rem; }

/* Messages, and the Markdown in them. */
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
.text { overflow-wrap: anywhere; }
.note { margin: .5rem 0 0; color: var(--muted); font-size: .875em; }
.actions { display: flex; flex-wrap: wrap; gap: .125rem; margin: .25rem -.4rem 0; color: var(--muted); }
.user .actions { margin-inline: 0; }
.forgotten { margin: 1.25rem 0 .25rem; padding-block-start: .5rem; border-block-start: 1px dashed var(--line); color: var(--muted); font-size: .875em; text-align: center; }
.versions { display: flex; align-items: center; font-size: .8em; font-variant-numeric: tabular-nums; }
.versions .icon { inline-size: 1.5rem; }
.versions:dir(rtl) svg { scale: -1 1; }
.edited .text { border-color: var(--accent); }
.busy .recent .actions { visibility: hidden; }
@media (hover: hover) {
  .message:not(.recent, :hover, :focus-within) .actions > .icon { opacity: 0; }
}

.assistant .text :where(* + :is(p, ul, ol, blockquote, .code, .scroller, h3, h4, h5, h6, hr)) { margin-block-start: .85em; }
.text :where(p, ul, ol, blockquote, pre, h3, h4, h5, h6, hr) { margin: 0; }
.text :is(h3, h4, h5, h6) { line-height: 1.35; font-weight: 650; }
.assistant .text * + :is(h3, h4) { margin-block-start: 1.3em; }
.text h3 { font-size: 1.3em; }
.text h4 { font-size: 1.15em; }
.text :is(h5, h6) { font-size: 1em; }
.text :is(ul, ol) { padding-inline-start: 1.6em; }
.text li + li { margin-block-start: .3em; }
.assistant .text li > :is(ul, ol) { margin-block-start: .3em; }
.text .loose > li + li { margin-block-start: .85em; }
.assistant .text .loose > li > :is(ul, ol) { margin-block-start: .85em; }
.text blockquote { padding-inline-start: 1em; border-inline-start: 3px solid var(--line); color: var(--muted); }
.text hr { border: 0; border-block-start: 1px solid var(--line); }
.text a { color: var(--accent); text-underline-offset: .2em; }
.text code { font: .875em/1.55 var(--mono); }
.text :not(pre) > code { padding: .15em .35em; border-radius: .35em; background: var(--surface); }
.code { border: 1px solid var(--line); border-radius: .75rem; background: var(--surface); overflow: hidden; }
.bar { display: flex; align-items: center; justify-content: space-between; padding: .25rem .4rem 0 1rem; color: var(--muted); font-size: .8em; }
.code pre { --background: var(--surface); margin: 0; padding: .35rem 1rem .9rem; tab-size: 4; direction: ltr; text-align: left; }
p.math { overflow: auto hidden; }
/* A shade at each edge beyond which there is more; at the ends what scrolls along covers it. */
.scroller { border: 1px solid var(--line); }
.scroller, .code pre {
  overflow-x: auto;
  scrollbar-width: thin;
  border-radius: .75rem;
  background:
    linear-gradient(90deg, var(--background) 1rem, transparent 3rem calc(100% - 3rem), var(--background) calc(100% - 1rem)) local,
    linear-gradient(90deg, #8886, transparent 1rem calc(100% - 1rem), #8886);
}
.text table { border-collapse: collapse; inline-size: max-content; min-inline-size: 100%; font-size: .94em; }
.text :is(th, td) { padding: .5rem .9rem; text-align: start; vertical-align: top; max-inline-size: min(13.5rem, 42cqi); }
.text th { background: var(--surface); }
.text tbody tr { border-block-start: 1px solid var(--line); }
.text .center { text-align: center; }
.text .end { text-align: end; }

.dots { display: flex; gap: .3rem; padding-block: .6rem; }
.dots i { inline-size: .45rem; block-size: .45rem; border-radius: 50%; background: var(--muted); opacity: .5; }
@media (prefers-reduced-motion: no-preference) {
  .dots i { animation: pulse 1.2s ease-in-out infinite; }
  .dots i:nth-child(2) { animation-delay: .15s; }
  .dots i:nth-child(3) { animation-delay: .3s; }
  .message { animation: appear .2s ease-out; }
}
@keyframes pulse { 50% { opacity: 1; translate: 0 -.15rem; } }
@keyframes appear { from { opacity: 0; translate: 0 .3rem; } }

.frame::after {
  content: "";
  position: absolute;
  inset: auto 0 0;
  block-size: 1.25rem;
  background: linear-gradient(transparent, var(--background));
  pointer-events: none;
}
.round.latest {
  position: absolute;
  z-index: 1;
  inset-block-end: .75rem;
  inset-inline-end: .75rem;
  border: 1px solid var(--line);
  background: var(--background);
  box-shadow: 0 2px 10px #0002;
}

/* In a low box an error gives way to the input, and then all of it scrolls. */
.foot { position: relative; display: flex; flex-direction: column; overflow-y: auto; padding: 0 max(1.25rem, 50cqi - 22rem) 1.1rem; }
/* Over the end of the log, so that nothing moves when it comes and goes. */
.status { position: absolute; z-index: 1; inset: auto max(1.25rem, 50cqi - 22rem) 0; padding: .35rem .25rem .6rem; background: var(--background); color: var(--muted); font-size: .875em; font-variant-numeric: tabular-nums; }
.status div:first-child { display: flex; align-items: baseline; gap: .75rem; }
#stage { flex: 1; }
.busy .status .plain { display: none; }
.track { block-size: .3rem; margin-block-start: .45rem; border-radius: 1rem; background: var(--line); overflow: hidden; }
.track i { display: block; block-size: 100%; border-radius: inherit; background: var(--accent); transform-origin: 0 0; scale: 0 1; }
.track:dir(rtl) i { transform-origin: 100% 0; }
.problem { margin: 0 0 .9rem; padding: .85rem 1.1rem 1rem; border: 1px solid color-mix(in srgb, var(--alert) 45%, transparent); border-radius: .9rem; min-block-size: 5rem; max-block-size: 18rem; overflow: auto; }
.problem p { margin: 0; overflow-wrap: anywhere; }
.problem .title { color: var(--alert); font-weight: 600; }
.problem .buttons { display: flex; flex-wrap: wrap; gap: .5rem; margin-block-start: .75rem; }
.editing, .notice { display: flex; align-items: center; justify-content: space-between; margin: 0 .25rem .4rem; color: var(--muted); font-size: .875em; }
.notice { color: var(--alert); overflow-wrap: anywhere; }

.composer {
  display: flex;
  flex-wrap: wrap;
  align-items: flex-end;
  justify-content: flex-end;
  gap: .25rem;
  padding: .35rem;
  border: 1px solid color-mix(in srgb, var(--muted) 60%, transparent);
  border-radius: 1.6rem;
  background: var(--background);
}
.composer:focus-within { outline: 2px solid var(--accent); outline-offset: -2px; }
textarea {
  flex: 1;
  min-inline-size: 0;
  max-block-size: 10.5rem;
  margin: 0;
  padding: .35rem .5rem;
  border: 0;
  outline: 0;
  resize: none;
  field-sizing: content;
  scrollbar-width: thin;
  background: none;
  color: inherit;
  font: inherit;
}
:placeholder-shown { direction: inherit; }
textarea::placeholder { color: var(--muted); opacity: 1; }

button { font: inherit; color: inherit; cursor: pointer; -webkit-tap-highlight-color: transparent; }
.icon, .round { display: inline-grid; place-items: center; padding: 0; border: 0; background: none; }
.pill {
  padding: .45rem 1.1rem;
  border: 1px solid color-mix(in srgb, var(--muted) 60%, transparent);
  border-radius: 2rem;
  background: none;
  font-size: .94em;
}
.pill:hover { border-color: currentColor; }
.primary, .primary:hover { border-color: transparent; background: var(--accent); color: var(--accent-text); }
.primary:hover { opacity: .9; }
.plain { padding: .2rem .5rem; border: 0; border-radius: .5rem; background: none; text-decoration: underline; text-underline-offset: .2em; }
.icon { inline-size: 2rem; block-size: 2rem; border-radius: .6rem; }
.icon:hover, .pale:hover { background: var(--surface); color: var(--text); }
.code .icon:hover { background: var(--line); }
.round { flex: none; inline-size: 2.3rem; block-size: 2.3rem; border-radius: 50%; }
.pale { color: var(--muted); }
:disabled, [aria-disabled=true] { opacity: .4; }
:disabled { pointer-events: none; }
.chat [aria-pressed=true]:enabled { background: var(--bubble); color: var(--accent); }
svg { inline-size: 1.15rem; block-size: 1.15rem; fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round; }
.stop svg { fill: currentColor; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.log:focus-visible, pre:focus-visible, .scroller:focus-visible { outline-offset: -2px; }
textarea:focus-visible { outline: 0; }
.unseen { position: absolute; inline-size: 1px; block-size: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

@container (inline-size < 30rem) {
  .log { padding: 1.25rem 1rem 1.5rem; }
  .foot { padding: 0 .75rem .75rem; }
  .status { inset-inline: .75rem; }
  textarea { flex-basis: 100%; order: -1; }
}
/* Above a phone's keyboard the room is the conversation's. */
@media (max-height: 34rem) {
  @container (18rem <= inline-size < 30rem) {
    textarea { flex-basis: 0; order: 0; }
  }
}
@media (pointer: coarse) {
  .icon, .round, .versions .icon { inline-size: 44px; block-size: 44px; }
  .plain, .pill { min-block-size: 44px; }
  textarea { padding-block: .6rem; font-size: max(1rem, 16px); }
}
@media (prefers-reduced-motion: no-preference) {
  .track i { transition: scale .2s; }
  .track.unknown i { animation: slide 1.4s ease-in-out infinite; scale: .3 1; }
  button { transition: background .15s, opacity .15s; }
}
@keyframes slide { from { translate: -30%; } to { translate: 100%; } }
@media (forced-colors: active) {
  .user .text, .round, .icon:focus-visible { border: 1px solid; }
  .scroller, .code pre { background: none; }
  .track { border: 1px solid; }
  .track i, .dots i { background: Highlight; forced-color-adjust: none; }
  :disabled, [aria-disabled=true] { opacity: 1; color: GrayText; }
  [aria-pressed=true] { outline: 2px solid Highlight; }
}
@media print {
  :host { block-size: auto; max-block-size: none; }
  .foot, .actions, .status { display: none; }
}
`;

/** @type {CSSStyleSheet | undefined} */
let sheet;

/** The style of all elements; a constructed style sheet needs no `style-src` of the page. */
export function style() {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync?.(CSS);
  }
  return sheet;
}
