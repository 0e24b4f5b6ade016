// What visitors paste, as names or addresses that models are loaded by.

const HUB = "https://huggingface.co/";
/** A page about a repository, or about a folder or file in it. */
const PAGE =
  /^https:\/\/huggingface\.co\/([\w.-]+\/[\w.-]+)(?:\/(?:tree|blob|resolve)\/([^/?#]+)\/?([^?#]*))?\/?(?:[?#].*)?$/;

/**
 * The address of a page on Hugging Face becomes the model's name, or the address of the GGUF file that it is about.
 *
 * @param {string} text
 */
export function sourceOf(text) {
  const given = text.trim();
  const page = PAGE.exec(given);
  if (!page) return given;
  const [, name, revision, path = ""] = page;
  if (/\.gguf$/i.test(path)) return `${HUB}${name}/resolve/${revision}/${path}`;
  const folder = path.split("/").filter(Boolean).map(decodeURIComponent);
  return [revision ? `${name}@${revision}` : name, ...folder].join("/");
}
