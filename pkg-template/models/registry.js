/**
 * Models by short names, each pinned to a commit on Hugging Face.
 *
 * @type {Readonly<Record<string, string>>}
 */
export const REGISTRY = {
  "smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct@12fd25f77366fa6b3b4b768ec3050bf629380bac",
  "smollm2-360m": "HuggingFaceTB/SmolLM2-360M-Instruct@a10cc1512eabd3dde888204e902eca88bddb4951",
  "qwen2.5-0.5b": "Qwen/Qwen2.5-0.5B-Instruct@7ae557604adf67be50417f59c2c2f167def9a775",
  "qwen2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct@989aa7980e4cf806f80c7fef2b1adb7bc71aa306",
  "qwen3-0.6b": "Qwen/Qwen3-0.6B@c1899de289a04d12100db370d81485cdf75e47ca",
};
