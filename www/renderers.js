// Code in colours, and mathematics, by libraries that are loaded when they are first needed.
import { RENDERERS } from "./tabloom/element/parts.js";

/** Most characters of a text that a library reads: longer ones would hold up the page. */
const MOST = 20_000;

RENDERERS.code = async (text, language) => {
  if (!language || text.length > MOST) return null;
  const { coloured } = await import("./code.js");
  return coloured(text, language);
};

RENDERERS.math = async (tex, display) => {
  if (tex.length > MOST) return null;
  const { typeset } = await import("./math.js");
  return typeset(tex, display);
};
