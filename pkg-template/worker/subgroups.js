/**
 * Adds subgroups to every later request for a GPU device, where the adapter has them: wgpu does not request
 * them on the web.
 */
export function requestSubgroups() {
  if (!globalThis.GPUAdapter) return;
  const request = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = function (descriptor = {}) {
    const features = new Set(descriptor.requiredFeatures ?? []);
    if (this.features.has("subgroups")) features.add("subgroups");
    return request.call(this, { ...descriptor, requiredFeatures: [...features] });
  };
}
