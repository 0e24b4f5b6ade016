/** `GPUShaderStage.COMPUTE`. */
const COMPUTE = 4;

/** Makes up for what wgpu does not know of WebGPU on the web. */
export function completeWebGpu() {
  if (!globalThis.GPUAdapter) return;
  const adapter = GPUAdapter.prototype;
  const request = adapter.requestDevice;
  // It never asks for subgroups.
  adapter.requestDevice = function (descriptor = {}) {
    /** @type {Set<any>} */
    const features = new Set(descriptor.requiredFeatures ?? []);
    for (const name of ["subgroups", "subgroup-size-control"]) if (this.features.has(name)) features.add(name);
    return request.call(this, { ...descriptor, requiredFeatures: [...features] });
  };
  // It reads the adapter's info, which some browsers lack.
  if (!("info" in adapter)) {
    const info = { vendor: "", architecture: "", device: "", description: "" };
    Object.defineProperty(adapter, "info", { value: info });
  }
  // It takes each error for one of validation or of memory, and panics where it is neither.
  Object.defineProperty(GPUValidationError, Symbol.hasInstance, {
    configurable: true,
    value: (/** @type {unknown} */ error) => error instanceof GPUError && !(error instanceof GPUOutOfMemoryError),
  });
  // It makes pipelines one after the other. Chromium makes those of here side by side, and has equal ones once: while
  // these live, the ones that wgpu asks for are there.
  if ("userAgentData" in navigator) Object.assign(GPUDevice.prototype, { compileAhead });
}

/**
 * @this {GPUDevice}
 * @param {string} label
 * @param {string} code
 * @param {GPUBufferBindingType[]} bindings
 * @returns {Promise<GPUComputePipeline>}
 */
function compileAhead(label, code, bindings) {
  // wgpu reports what is wrong.
  this.pushErrorScope("validation");
  const entries = bindings.map((type, binding) => ({ binding, visibility: COMPUTE, buffer: { type } }));
  const bindGroupLayouts = [this.createBindGroupLayout({ entries })];
  const module = this.createShaderModule({ label, code });
  const layout = this.createPipelineLayout({ bindGroupLayouts });
  const pipeline = this.createComputePipelineAsync({ layout, compute: { module, entryPoint: "main" } });
  this.popErrorScope().catch(() => {});
  return pipeline;
}
