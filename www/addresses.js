// What visitors paste, as names or addresses that models are loaded by.
import { $ } from "./dom.js";
import { allowed } from "./loader.js";
import { fill, texts } from "./texts.js";

const HUB = "https://huggingface.co/";
/** A page about a repository, or about a folder or file in it. */
const PAGE =
  /^https:\/\/huggingface\.co\/([\w.-]+\/[\w.-]+)(?:\/(?:tree|blob|resolve)\/([^/?#]+)\/?([^?#]*))?\/?(?:[?#].*)?$/;

/** How a name begins: the package's own, or one on Hugging Face. */
const NAME = /^(?:hf:)?[\w.-]+(?:\/[\w.-]+(?:[:@/]|$)|$)/;
/** What an address has, and a word has not. */
const ADDRESS = /^[a-z][\w+.-]*:|[/?#]/i;
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
export function refusal(source) {
  const isName = NAME.test(source);
  const isAddress = ADDRESS.test(source) && URL.canParse(source, document.baseURI);
  if (!isName && !isAddress) return fill(texts.loader.unnamed, { name: source });
  if (!isName && !allowed(source)) return `${$("about-address").textContent}`;
  const [path] = source.split(/[?#]/);
  // A repository may be called like a file.
  const file =
    path
      .split("/")
      .slice(isName ? 2 : 0)
      .at(-1) ?? "";
  return OTHER.test(file) ? fill(texts.loader.noFile, { file }) : "";
}
