// Which of several GGUF files is the model: projectors, adapters and others lie beside it.

/** A file of a GGUF model in several files, other than the first. */
const LATER_PART = /-(?!00001)\d{5}-of-\d{5}\.gguf$/i;
/** A model's eyes or ears, whatever else their name says. */
const PROJECTOR = /mmproj/i;
/** Words in the names of files that belong to a model; of models, too, as in `some-vision-model`. */
const COMPANIONS =
  /(?<![a-z])(?:clip|vision|audio|lora|adapters?|draft|drafter|eagle\d?|medusa|mtp|vocab|vocoder|tokenizer|control[-_]vectors?)(?![a-z])/g;
/** What a quantiser measured; in the names of models it stands beside their quantisation. */
const IMATRIX = /imatrix/i;
const QUANTISATION = /(^|[^a-z])(i?q\d|tq\d|mxfp4|bf16|fp?16|fp?32)/i;
/** What these metadata say of files that are no models. */
const KEYS = ["general.type", "general.architecture"];
const NO_MODELS = ["clip", "mmproj", "imatrix", "adapter", "vocab", "projector", "controlvector"];
/** Metadata begin with these texts. */
const BEGINNING = 4096;

/**
 * The files that may be the model, by their names. A word of `name`, that of their repository or folder, tells
 * none apart. Where all are companions, one of them is what is meant, but no projector if there is another.
 *
 * @param {string[]} paths
 * @param {string} [name]
 */
export function models(paths, name = "") {
  const files = paths.filter((path) => /\.gguf$/i.test(path) && !LATER_PART.test(path));
  const own = companions(name);
  const others = files.filter((path) => !PROJECTOR.test(path));
  const alone = others.filter((path) => !isCompanion(path, own));
  return [alone, others, files].find((found) => found.length > 0) ?? [];
}

/**
 * @param {string} path
 * @param {string[]} own words of the model's name
 */
function isCompanion(path, own) {
  return companions(path).some((word) => !own.includes(word)) || (IMATRIX.test(path) && !QUANTISATION.test(path));
}

/** @param {string} text */
function companions(text) {
  return text.toLowerCase().match(COMPANIONS) ?? [];
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
