// What a device can do.
import type { ErrorCode } from "./errors.js";
import type { BudgetReason, LoadOptions, NameOptions } from "./load.js";

export interface ProbeOptions extends Pick<NameOptions, "hub" | "registry"> {
  /** Models to check. One that is looked at and cannot run is no reason to reject: its entry has a `problem`. */
  models?: ModelToProbe[];
  /** Memory for keys and values, as `Engine.load` takes it. */
  kvBytes?: number;
  /** Memory for all models, as `Engine.load` takes it, with its default. */
  budgetBytes?: number;
  /** Ends the probe. */
  signal?: AbortSignal | null | undefined;
  /** As `Engine.load` takes it, for models that are looked at. */
  workerUrl?: LoadOptions["workerUrl"];
}

/**
 * A model to check.
 *
 * With `bytes` nothing is downloaded or looked up: a name is found in the store if it names a commit or was
 * loaded before, and a model that need not be looked for there may have only an `id`, any word.
 *
 * Without `bytes` the model is looked at: a worker begins to load it, reads its configuration and the
 * headers of its weights, and ends.
 */
export interface ModelToProbe extends Pick<LoadOptions, "quantisation" | "quantize"> {
  id?: string;
  /** Address or name, as `Engine.load` takes it. */
  model?: string;
  /** Bytes of its weights. */
  bytes?: number;
}

/** What a browser on a device can do. */
export interface Probe {
  /** Whether the page is a secure context, which WebGPU and storage require. */
  secure: boolean;
  gpu: GpuReport;
  memory: {
    /** The device's memory, rounded and often capped by the browser; null if unknown. */
    deviceBytes: number | null;
    /** Memory for all models, and what says so. */
    budgetBytes: number;
    budgetReason: BudgetReason;
  };
  workers: {
    /** SharedWorkers, in which tabs can share an engine. */
    shared: boolean;
    /** Service workers, by which a page works offline. */
    service: boolean;
    /** Web Locks, without which tabs cannot share an engine. */
    locks: boolean;
  };
  storage: {
    /** Whether models can be kept in the Cache API, and in the origin private file system. */
    cache: boolean;
    opfs: boolean;
    /** Bytes that the site uses of the browser's storage; undefined if unknown. */
    usage?: number;
    /** Most bytes that it may use. */
    quota?: number;
    /** Whether the browser has promised to keep them; null if unknown. */
    persisted: boolean | null;
  };
  /** The models of the options, in order. */
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
  /** 16-bit floats in shaders. */
  f16: boolean;
  /** Subgroup operations in shaders, which make the engine faster. */
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
  /** Its `id`, or else its address or name. */
  id: string;
  /** Bytes of its weights in memory; null if it has a problem. */
  bytes: number | null;
  /** For its weights, keys and values. */
  neededBytes: number | null;
  /** The error with which `Engine.load` would reject, of a model that was looked at. */
  problem: { code: ErrorCode; message: string; param: string | null } | null;
  /** `perhaps`: browsers do not say how much memory a GPU has, and this may be too much. */
  fits: "yes" | "perhaps" | "no";
  /** Why not, or why only perhaps; of a problem, its message. */
  reason: string | null;
  /** Whether it is kept already, so that it loads without network. */
  stored: boolean;
  /** Whether storage has room for it; null if unknown. */
  storable: boolean | null;
}
