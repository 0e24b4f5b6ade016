// Tokens a second of engines, as docs/performance.md has them.

/** What was measured, for all of them. */
export const PEERS = {
  model: "SmolLM2 135M Instruct",
  figures: [
    {
      adapter: "SwiftShader or the CPU: two cores of an AMD EPYC, no GPU",
      engines: [
        { name: "Tabloom, WebGPU", rate: 4.39 },
        { name: "Tabloom, CPU", rate: 2.21 },
        { name: "wllama 3.8.1, CPU, 1 thread", rate: 12.1 },
        { name: "wllama 3.8.1, CPU, 2 threads", rate: 20.4 },
        { name: "transformers.js 4.3.1, CPU, 1 thread", rate: 2.98 },
        { name: "transformers.js 4.3.1, CPU, 2 threads", rate: 4.51 },
      ],
    },
    {
      adapter: "lavapipe: the same two cores",
      engines: [
        { name: "Tabloom, WebGPU", rate: 16.3 },
        { name: "wllama 3.8.1, WebGPU", rate: 1.2 },
        { name: "transformers.js 4.3.1, WebGPU, f16", rate: 0.37 },
      ],
    },
  ],
};
