// Loaded by a worker before the engine: counts the GPU memory that is really held, reports it to
// whoever asks on the channel `probe`, and breaks the worker when told to.

const id = crypto.randomUUID();
/** Buffers neither destroyed nor collected, by number: their bytes and device. */
const live = new Map();
const numbers = new WeakMap();
const collected = new FinalizationRegistry((number) => live.delete(number));
const devices = new Set();
let created = 0;
let trapped = false;

/** Counts what is made on devices and what is left of it. */
function watchDevices() {
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (descriptor) {
    // As long as a page holds this lock, every worker dies while it starts.
    const { held } = await navigator.locks.query();
    if (held.some(({ name }) => name === "doom")) {
      close();
      await new Promise(() => {});
    }
    const device = await requestDevice.call(this, descriptor);
    devices.add(device);
    device.lost.then(() => forget(device));
    return device;
  };

  const { createBuffer, destroy: destroyDevice } = GPUDevice.prototype;
  GPUDevice.prototype.createBuffer = function (descriptor) {
    const buffer = createBuffer.call(this, descriptor);
    const number = created++;
    live.set(number, { bytes: descriptor.size, device: this });
    numbers.set(buffer, number);
    collected.register(buffer, number);
    return buffer;
  };
  GPUDevice.prototype.destroy = function () {
    forget(this);
    destroyDevice.call(this);
  };

  const { destroy: destroyBuffer } = GPUBuffer.prototype;
  GPUBuffer.prototype.destroy = function () {
    live.delete(numbers.get(this));
    destroyBuffer.call(this);
  };

  const { submit } = GPUQueue.prototype;
  GPUQueue.prototype.submit = function (commands) {
    if (trapped) {
      trapped = false;
      throw new WebAssembly.RuntimeError("unreachable");
    }
    submit.call(this, commands);
  };
}
if ("gpu" in navigator) watchDevices();

function forget(device) {
  devices.delete(device);
  for (const [number, buffer] of live) if (buffer.device === device) live.delete(number);
}

/** What the worker holds, once garbage is gone. */
async function state() {
  globalThis.gc?.();
  // Registries are notified in a task of their own.
  await new Promise((resolve) => setTimeout(resolve));
  const bytes = [...live.values()].reduce((sum, buffer) => sum + buffer.bytes, 0);
  const born = performance.timeOrigin;
  return { id, born, devices: devices.size, buffers: live.size, bytes };
}

/** What becomes of writing to files. */
function write(how) {
  Object.assign(FileSystemFileHandle.prototype, { createWritable: how, createSyncAccessHandle: how });
}

/** The browser has no room for new arrays. */
function refuseMemory() {
  const construct = (target, args, made) => {
    if (typeof args[0] === "number") throw new RangeError("Array buffer allocation failed");
    return Reflect.construct(target, args, made);
  };
  globalThis.Uint32Array = new Proxy(Uint32Array, { construct });
}

const channel = new BroadcastChannel("probe");
channel.onmessage = async ({ data: { to, command } }) => {
  if (to !== id) return;
  if (command === "state") channel.postMessage({ from: id, state: await state() });
  else if (command === "close") close();
  // In the middle of a step, as a trap in the module would be.
  else if (command === "trap in a step") trapped = true;
  else if (command === "hang files") FileSystemFileHandle.prototype.getFile = () => new Promise(() => {});
  else if (command === "hang writes") write(() => new Promise(() => {}));
  else if (command === "full") write(() => Promise.reject(new DOMException("no room", "QuotaExceededError")));
  else if (command === "no memory") refuseMemory();
  else if (command === "trap") throw new WebAssembly.RuntimeError("unreachable");
};

// A worker that is gone holds no lock: so others know who there is to ask.
navigator.locks.request(`probe ${id}`, () => new Promise(() => {}));
