/** The files of the page with their SHA-256, which the build puts before its service worker. */
declare const FILES: Record<string, string>;
