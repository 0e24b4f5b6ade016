// Reads answers aloud, with voices of the device alone: others would send the text to a server.
import { languageOf } from "../language.js";

/** Stands for what is being read: ends of what was read before come late. */
let current = {};

/**
 * Reads a text aloud, and nothing else.
 *
 * @param {Element} button pressed until the end
 * @param {HTMLElement} element
 */
export function read(button, element) {
  speechSynthesis.cancel();
  // The conversation may have changed meanwhile.
  if (!button.isConnected) return;
  // biome-ignore lint/performance/useDomNodeTextContent: what is read out is what is shown
  const paragraphs = element.innerText.split(/\n+/).filter((text) => text.trim());
  const lang = languageOf(paragraphs.join(" "));
  const voice = voiceOf(lang);
  // Browsers lose track of long utterances.
  const utterances = paragraphs.map((text) => Object.assign(new SpeechSynthesisUtterance(text), { voice, lang }));
  const reading = (current = {});
  const end = () => {
    if (current === reading) button.ariaPressed = "false";
  };
  utterances.at(-1)?.addEventListener("end", end);
  for (const utterance of utterances) {
    utterance.addEventListener("error", end);
    speechSynthesis.speak(utterance);
  }
  button.ariaPressed = `${utterances.length > 0}`;
}

/**
 * The device's voice for a language, or else its first.
 *
 * @param {string} lang
 */
function voiceOf(lang) {
  const voices = speechSynthesis.getVoices().filter(({ localService }) => localService);
  const [primary] = lang.split("-");
  const found = (/** @type {string} */ start) => voices.find((voice) => voice.lang.replace("_", "-").startsWith(start));
  return found(lang) ?? found(primary) ?? voices[0];
}
