/** Scripts that tell a language, and a language that is written in it; kana before Han, which Japanese has, too. */
const SCRIPTS = {
  ja: /[\p{Script=Hiragana}\p{Script=Katakana}]/u,
  zh: /\p{Script=Han}/u,
  ko: /\p{Script=Hangul}/u,
  ru: /\p{Script=Cyrillic}/u,
  el: /\p{Script=Greek}/u,
  ar: /\p{Script=Arabic}/u,
  he: /\p{Script=Hebrew}/u,
  hi: /\p{Script=Devanagari}/u,
  th: /\p{Script=Thai}/u,
};

/** The document's language, with the region that the visitor prefers. */
export function language() {
  const lang = document.documentElement.lang || navigator.language;
  return navigator.languages.find((one) => one.startsWith(`${lang}-`)) ?? lang;
}

/**
 * The language of a text: the document's, unless it is written in a script that tells another.
 *
 * @param {string} text
 */
export function languageOf(text) {
  const own = language();
  const letters = text.match(/\p{L}/gu) ?? [];
  // A foreign word does not make a foreign text.
  const most = Object.entries(SCRIPTS).find(
    ([, script]) => letters.filter((letter) => script.test(letter)).length > letters.length / 3,
  );
  return !most || own.startsWith(most[0]) ? own : most[0];
}
