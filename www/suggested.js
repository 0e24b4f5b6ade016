// Models on Hugging Face that are worth a try, the smallest first. Bytes are those of the download,
// rounded. All are under the Apache License 2.0.

/** @import { texts } from "./texts.js" */

/**
 * `gpu`: too slow on the CPU.
 *
 * @typedef {{name: string, address: string, bytes: number, about: keyof typeof texts.models, gpu?: boolean}} Suggested
 */

export const LICENCE = "Apache 2.0";

/** @type {Suggested[]} */
export const SUGGESTED = [
  {
    name: "SmolLM2 135M Instruct",
    address: "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/resolve/main/",
    bytes: 269e6,
    about: "quick",
  },
  {
    name: "Qwen2.5 0.5B Instruct, Q4_K_M",
    address: "https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct-GGUF/resolve/main/qwen2.5-0.5b-instruct-q4_k_m.gguf",
    bytes: 491e6,
    about: "languages",
  },
  {
    name: "Qwen3 0.6B, Q8_0",
    address: "https://huggingface.co/Qwen/Qwen3-0.6B-GGUF/resolve/main/Qwen3-0.6B-Q8_0.gguf",
    bytes: 639e6,
    about: "thinks",
  },
  {
    name: "SmolLM2 360M Instruct",
    address: "https://huggingface.co/HuggingFaceTB/SmolLM2-360M-Instruct/resolve/main/",
    bytes: 724e6,
    about: "english",
  },
  {
    name: "Qwen2.5 1.5B Instruct, Q4_K_M",
    address: "https://huggingface.co/Qwen/Qwen2.5-1.5B-Instruct-GGUF/resolve/main/qwen2.5-1.5b-instruct-q4_k_m.gguf",
    bytes: 1117e6,
    about: "languagesOnGpu",
    gpu: true,
  },
  {
    name: "Qwen3 1.7B, Q8_0",
    address: "https://huggingface.co/Qwen/Qwen3-1.7B-GGUF/resolve/main/Qwen3-1.7B-Q8_0.gguf",
    bytes: 1834e6,
    about: "thinksOnGpu",
    gpu: true,
  },
  {
    name: "Qwen3 4B, Q4_K_M",
    address: "https://huggingface.co/Qwen/Qwen3-4B-GGUF/resolve/main/Qwen3-4B-Q4_K_M.gguf",
    bytes: 2497e6,
    about: "thinksOnStrongGpu",
    gpu: true,
  },
];
