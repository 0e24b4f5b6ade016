// What visitors paste, as names or addresses that models are loaded by.
import { isAddress } from "./tabloom/models/address.js";
import { $ } from "./dom.js";
import { allowed } from "./loader.js";
import { fill, texts } from "./texts.js";

const HUB = "https://huggingface.co/";
/** A page about a repository, or about a folder or file in it. */
const PAGE =
  /^https:\/\/huggingface\.co\/([\w.-]+\/[\w.-]+)(?:\/(?:tree|blob|resolve)\/([^/?#]+)\/?([^?#]*))?\/?(?:[?#].*)?$/;

/** How a name on Hugging Face begins. */
const NAME = /^(?:hf:)?[\w.-]+\/[\w.-]+(?:[:@/]|$)/;
/** The end of files that are no model, or only a part of one. */
const OTHER = /\.(?:safetensors|bin|onnx|pth?|ckpt|json|txt|md|html?|pdf|zip|gz|tar)$/i;

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

/**
 * Why nothing can be loaded by a name or an address, as far as that can be told at once; empty where it may be.
 *
 * @param {string} source
 */
export async function refusal(source) {
  const address = isAddress(source);
  // Where the list cannot be fetched, loading says what is wrong.
  const known = () =>
    import("./tabloom/models/registry.js").then(
      ({ REGISTRY }) => Object.hasOwn(REGISTRY, source),
      () => true,
    );
  const named = address ? URL.canParse(source, document.baseURI) : NAME.test(source) || (await known());
  if (!named) return fill(texts.loader.unnamed, { name: source });
  if (address && !allowed(source)) return `${$("about-address").textContent}`;
  // A repository may be called like a file.
  const [path] = source.split(/[?#]/);
  const [file = ""] = path
    .split("/")
    .slice(address ? 0 : 2)
    .slice(-1);
  return OTHER.test(file) ? fill(texts.loader.noFile, { file }) : "";
}
