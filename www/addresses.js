// What visitors paste, as addresses that models are loaded from.

const HUB = "https://huggingface.co/";
/** A repository's name on Hugging Face. */
const NAME = /^[\w.-]+\/[\w.-]+$/;
/** A page about a repository, or about a file in it. */
const PAGE =
  /^https:\/\/huggingface\.co\/([\w.-]+\/[\w.-]+)(?:\/(?:tree|blob|resolve)\/([^/?#]+)\/?([^?#]*))?\/?(?:[?#].*)?$/;

/**
 * The address of a model: a name on Hugging Face becomes one, and so does the address of a page there.
 *
 * @param {string} text
 */
export function addressOf(text) {
  const given = text.trim();
  if (NAME.test(given)) return `${HUB}${given}/resolve/main/`;
  const page = PAGE.exec(given);
  if (!page) return given;
  const [, name, revision = "main", path = ""] = page;
  return `${HUB}${name}/resolve/${revision}/${path}`;
}
