// What a device can do.
import type { NameOptions } from "./load.js";

export interface ProbeOptions extends Pick<NameOptions, "hub" | "registry"> {
  /**
   * Models to tell of: bytes of their weights, and the address or name by which `Engine.load` takes each.
   * Names are not looked up: they are known where they name a commit, or led to what is kept. A model
   * that is not to be looked for in the store may have only an `id`, any word to know it by.
   */
  models?: { id?: string; model?: string; quantisation?: string; bytes: number }[];
  /** Memory for keys and values, as `Engine.load` takes it; default 256 MiB. */
  kvBytes?: number;
  /** Memory for all models, as `Engine.load` takes it; default 4 GiB. */
  budgetBytes?: number;
}

/** What a browser on a device can do. */
export interface Probe {
  /** Whether the page is a secure context, which WebGPU and storage ask for. */
  secure: boolean;
  gpu: GpuReport;
  memory: {
    /** The device's memory, rounded and often capped by the browser; null where it does not tell. */
    deviceBytes: number | null;
    /** Most that all models may take together. */
    budgetBytes: number;
  };
  workers: {
    /** Whether there are SharedWorkers, in one of which all tabs can share an engine. */
    shared: boolean;
    /** Whether there are service workers, by which a page works offline. */
    service: boolean;
    /** Whether Web Locks are allowed, without which tabs share nothing. */
    locks: boolean;
  };
  storage: {
    /** Whether models can be kept in the Cache API. */
    cache: boolean;
    /** Whether models can be kept in the origin private file system. */
    opfs: boolean;
    /** Bytes that the site takes of the browser's storage; undefined where it does not tell. */
    usage?: number;
    /** Most bytes that it may take. */
    quota?: number;
    /** Whether the browser has promised to keep them; null where it does not tell. */
    persisted: boolean | null;
  };
  /** Those of the options, in order. */
  models: ProbedModel[];
}

/** What WebGPU offers. */
export interface GpuReport {
  available: boolean;
  /** Why there is none. */
  reason: string | null;
  /** For people. */
  name: string | null;
  /** In the browser's words, which may be empty. */
  adapter: { vendor: string; architecture: string; device: string; description: string } | null;
  /** A CPU emulates the GPU. */
  software: boolean;
  /** Whether shaders may have 16-bit floats. */
  f16: boolean;
  /** Whether shaders may have subgroup operations, which make the engine faster. */
  subgroups: boolean;
  timestamps: boolean;
  limits: {
    maxBufferSize: number;
    /** The largest tensor that fits. */
    maxStorageBufferBindingSize: number;
    maxStorageBuffersPerShaderStage: number;
    maxComputeWorkgroupStorageSize: number;
    maxComputeInvocationsPerWorkgroup: number;
    maxComputeWorkgroupsPerDimension: number;
  } | null;
}

/** Whether a model would fit. */
export interface ProbedModel {
  /** Its name, or else its address. */
  id: string;
  bytes: number;
  /** Those of its weights, its keys and its values. */
  neededBytes: number;
  /** `perhaps`: browsers do not tell how much memory a GPU has, and this may be too much. */
  fits: "yes" | "perhaps" | "no";
  /** Why not, or why only perhaps. */
  reason: string | null;
  /** Whether it is kept already, so that it loads without network; known by its address. */
  stored: boolean;
  /** Whether storage has room for it; null where the browser does not tell. */
  storable: boolean | null;
}
