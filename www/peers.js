// Tokens a second of engines, as docs/performance.md has them.

/** @import { texts } from "./texts.js" */

/**
 * What was measured, for all of them; `bytes`: more than the model's weights take in 4 bits, less than in others.
 *
 * @type {{model: string, bytes: number, figures: {
 *   adapter: keyof typeof texts.bench.adapters,
 *   engines: {name: string, threads?: number, rate: number}[],
 * }[]}}
 */
export const PEERS = {
  model: "SmolLM2 135M Instruct",
  bytes: 120e6,
  figures: [
    {
      adapter: "swiftshader",
      engines: [
        { name: "Tabloom, WebGPU", rate: 4.39 },
        { name: "Tabloom, CPU", rate: 2.21 },
        { name: "wllama 3.8.1, CPU", threads: 1, rate: 12.1 },
        { name: "wllama 3.8.1, CPU", threads: 2, rate: 20.4 },
        { name: "transformers.js 4.3.1, CPU", threads: 1, rate: 2.98 },
        { name: "transformers.js 4.3.1, CPU", threads: 2, rate: 4.51 },
      ],
    },
    {
      adapter: "lavapipe",
      engines: [
        { name: "Tabloom, WebGPU", rate: 16.3 },
        { name: "Tabloom, WebGPU, hardware kernels", rate: 5.8 },
        { name: "wllama 3.8.1, WebGPU", rate: 1.2 },
        { name: "transformers.js 4.3.1, WebGPU, f16", rate: 0.37 },
      ],
    },
  ],
};
