// Models on Hugging Face that are worth a try, the smallest first. Bytes are those of the download, rounded.

/** @import { texts } from "./texts.js" */

/**
 * `revision`: where the package has a name for the model, the one that the name stands for; `file`: of a GGUF model;
 * `gpu`: too slow on the CPU.
 *
 * @typedef {object} Listed
 * @property {string} name
 * @property {string} repository
 * @property {string} [revision]
 * @property {string} [file]
 * @property {string} licence
 * @property {number} bytes
 * @property {keyof typeof texts.models} about
 * @property {boolean} [gpu]
 */

const APACHE = "Apache 2.0";

/** @type {Listed[]} */
const LISTED = [
  {
    name: "SmolLM2 135M Instruct",
    repository: "HuggingFaceTB/SmolLM2-135M-Instruct",
    revision: "12fd25f77366fa6b3b4b768ec3050bf629380bac",
    licence: APACHE,
    bytes: 269e6,
    about: "quick",
  },
  {
    name: "Qwen2.5 0.5B Instruct, Q4_K_M",
    repository: "Qwen/Qwen2.5-0.5B-Instruct-GGUF",
    file: "qwen2.5-0.5b-instruct-q4_k_m.gguf",
    licence: APACHE,
    bytes: 491e6,
    about: "languages",
  },
  {
    name: "Qwen3 0.6B, Q8_0",
    repository: "Qwen/Qwen3-0.6B-GGUF",
    file: "Qwen3-0.6B-Q8_0.gguf",
    licence: APACHE,
    bytes: 639e6,
    about: "thinks",
  },
  {
    name: "SmolLM2 360M Instruct",
    repository: "HuggingFaceTB/SmolLM2-360M-Instruct",
    revision: "a10cc1512eabd3dde888204e902eca88bddb4951",
    licence: APACHE,
    bytes: 724e6,
    about: "english",
  },
  {
    name: "Qwen2.5 1.5B Instruct, Q4_K_M",
    repository: "Qwen/Qwen2.5-1.5B-Instruct-GGUF",
    file: "qwen2.5-1.5b-instruct-q4_k_m.gguf",
    licence: APACHE,
    bytes: 1117e6,
    about: "languagesOnGpu",
    gpu: true,
  },
  {
    name: "Qwen3 1.7B, Q8_0",
    repository: "Qwen/Qwen3-1.7B-GGUF",
    file: "Qwen3-1.7B-Q8_0.gguf",
    licence: APACHE,
    bytes: 1834e6,
    about: "thinksOnGpu",
    gpu: true,
  },
  {
    name: "Qwen3 4B, Q4_K_M",
    repository: "Qwen/Qwen3-4B-GGUF",
    file: "Qwen3-4B-Q4_K_M.gguf",
    licence: APACHE,
    bytes: 2497e6,
    about: "thinksOnStrongGpu",
    gpu: true,
  },
];

export const SUGGESTED = LISTED.map((model) => ({ ...model, address: addressOf(model) }));

/** @param {Listed} model */
function addressOf({ repository, revision = "main", file = "" }) {
  return `https://huggingface.co/${repository}/resolve/${revision}/${file}`;
}
