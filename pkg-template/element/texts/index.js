/**
 * The texts of `<tabloom-chat>` in the visitor's language.
 *
 * @module tabloom/element/texts
 */

/** @typedef {{default: typeof import("../view/later.js").ALL}} Module */

/** @type {Record<string, () => Promise<Module>>} */
const LANGUAGES = {
  de: () => import("./de.js"),
  es: () => import("./es.js"),
  fr: () => import("./fr.js"),
  ja: () => import("./ja.js"),
  zh: () => import("./zh.js"),
};

/**
 * The first of some languages in which there are texts, as in `de`; English, which the element speaks by itself, where
 * there is none.
 *
 * @param {readonly string[]} [languages] as in `de-AT`; default the visitor's
 */
export function languageOf(languages = navigator.languages) {
  const codes = languages.map((tag) => tag.split("-")[0].toLowerCase());
  return codes.find((code) => code === "en" || Object.hasOwn(LANGUAGES, code)) ?? "en";
}

/**
 * The texts in that language, for `TabloomChat.texts`; none where it is English.
 *
 * @param {readonly string[]} [languages]
 * @returns {Promise<Partial<Module["default"]>>}
 */
export async function textsFor(languages) {
  return (await LANGUAGES[languageOf(languages)]?.())?.default ?? {};
}
