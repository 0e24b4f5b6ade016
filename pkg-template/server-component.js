// What React's server components get as `tabloom/element`: nothing that is made there reaches a browser.
import { TabloomError } from "./error.js";

/** @returns {never} */
function refuse() {
  const message =
    'a React server component imports tabloom/element, and no browser would get it. Begin the file that imports it with "use client"';
  throw new TabloomError({ code: "no_host", message, details: { reason: "a React server component imports it" } });
}

export const TabloomChat = refuse();
