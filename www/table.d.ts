import type EN from "./texts/en.js";

/** What the page says in another language, with what index.html says. */
export type Table = typeof EN & { html: Record<string, string> };
