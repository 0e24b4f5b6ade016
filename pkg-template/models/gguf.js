// Which of several GGUF files is the model: projectors, adapters and others lie beside it.
import { LATER_PART } from "./address.js";

/** Words in the names of files that belong to a model. */
const COMPANION =
  /mmproj|(^|[^a-z])(clip|vision|audio|lora|adapters?|draft|drafter|eagle\d?|medusa|mtp|vocab|vocoder|tokenizer|control[-_]vectors?)([^a-z]|$)/i;
/** What a quantiser measured; in the names of models it stands beside their quantisation. */
const IMATRIX = /imatrix/i;
const QUANTISATION = /(^|[^a-z])(i?q\d|tq\d|mxfp4|bf16|fp?16|fp?32)/i;
/** What these metadata say of files that are no models. */
const KEYS = ["general.type", "general.architecture"];
const NO_MODELS = ["clip", "mmproj", "imatrix", "adapter", "vocab", "projector", "controlvector"];
/** Metadata begin with these texts. */
const BEGINNING = 4096;

/**
 * The files that may be the model, by their names. Where all are companions, one of them is what is meant.
 *
 * @param {string[]} paths
 */
export function models(paths) {
  const files = paths.filter((path) => /\.gguf$/i.test(path) && !LATER_PART.test(path));
  const alone = files.filter((path) => !isCompanion(path));
  return alone.length > 0 ? alone : files;
}

/** @param {string} path */
function isCompanion(path) {
  return COMPANION.test(path) || (IMATRIX.test(path) && !QUANTISATION.test(path));
}

/**
 * Whether a file's metadata say that it is a model.
 *
 * @param {Blob} file
 */
export async function isModel(file) {
  const bytes = new Uint8Array(await file.slice(0, BEGINNING).arrayBuffer());
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return !KEYS.some((key) => {
    const at = text.indexOf(key) + key.length;
    // The type of the value, in 4 bytes; its length, in 8; its text.
    return at >= key.length && NO_MODELS.includes(text.slice(at + 12, at + 12 + bytes[at + 4]));
  });
}
