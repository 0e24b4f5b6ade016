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
}
