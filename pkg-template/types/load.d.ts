// Options of `Engine.load`, and what was loaded.

/** How far loading is. While another worker of the site downloads the same model, how far that one is. */
export interface Progress {
  /** `start` comes while a worker is sought: at first, and where one is gone, or silent, before it has loaded the model. */
  stage: "start" | "download" | "compile";
  /** The file being read; empty but while weights are downloaded. */
  file: string;
  /** Bytes of weights read so far, or dispatches made ready. */
  loaded: number;
  /** Bytes of all weight files, or dispatches in all. */
  total: number;
  /** Bytes, or dispatches, per second since the stage began. */
  rate: number;
}

/**
 * A model: its name on Hugging Face (`org/name`, `org/name@revision`, `org/name:Q4_K_M`, `hf:org/name/file.gguf`)
 * or in the registry; the address of a folder in Hugging Face's layout or of a GGUF file, whose query goes with each
 * file; a GGUF file itself, or
 * its bytes; a folder's handle; a list of files, of which names or paths within a folder count; or
 * files by name.
 */
export type ModelSource =
  | string
  | URL
  | Blob
  | BufferSource
  | FileSystemFileHandle
  | FileSystemDirectoryHandle
  | Iterable<File>
  | Record<string, Blob | BufferSource>;

/** Where an engine runs: in a worker of all tabs, in the leader tab's, or in one of its own. */
export type HostKind = "shared" | "leader" | "private";

/** How a model's name is resolved. */
export interface NameOptions {
  /** Where names on Hugging Face are looked up; default `https://huggingface.co/`. */
  hub?: string | URL;
  /** Which GGUF file of a repository: the one whose name has this word, as in `org/name:Q4_K_M`. */
  quantisation?: string;
  /** The page's own names and what each loads; they go before the package's. */
  registry?: Record<string, string>;
}

export interface LoadOptions extends NameOptions {
  /** `auto` (default) and `gpu` use the GPU; `cpu` is slow, for devices without one. */
  device?: "auto" | "gpu" | "cpu";
  /** How 16- and 32-bit matrices are held in memory; default `keep`. */
  quantize?: "keep" | "w8" | "w4";
  /**
   * Most tokens of one conversation; default the model's context, as far as `kvBytes` is enough. A model
   * with LongRoPE (Phi) uses its short factors where this is within its original context.
   */
  context?: number;
  /**
   * How keys and values are held; `int8` takes little more than half the memory of `f16` (default).
   * Layers for which it would lose too much stay in f16.
   */
  kv?: "f16" | "int8";
  /**
   * Memory for keys and values, shared by all conversations; default a sixteenth of `budgetBytes` and at most
   * 1 GiB, or the bytes of 4096 tokens where that is more.
   */
  kvBytes?: number;
  /**
   * Where keys and values of conversations stay for which there is no room in `kvBytes`: in the worker's memory,
   * up to `hostBytes`, default 128 MiB. From there they are written back to the GPU when the conversation goes
   * on, which takes a fraction of computing them again. 0 keeps none.
   *
   * With `storedBytes`, default 0, those of long conversations are also stored on the device, in the origin's
   * private file system: after a reload, or on another day, a conversation that goes on finds them there. They
   * come back through the worker's memory. Only with `isolation: "shared"`, and for models whose files are kept.
   */
  prefixCache?: { hostBytes?: number; storedBytes?: number };
  /**
   * Lets a conversation grow beyond the model's context: each token attends to the first `sinks` tokens
   * (a multiple of 16, default 16) and the last `tokens`, both together within the context.
   */
  slidingWindow?: { sinks?: number; tokens: number };
  /**
   * Speculative decoding: draft tokens let one step compute several tokens; answers are the same
   * without. At most `maxDrafts` per step, 0 to 7 (default 7). Default `true`.
   */
  speculation?: boolean | { maxDrafts?: number };
  /**
   * The drafter, beside prompt lookup (which finds what the conversation repeats): the one in the model's
   * folder `draft` or among its weights, if any (`true`, default); another folder with a draft head or
   * smaller model, by address or name, which is stored as a model of its own; the first layers of the
   * model itself (`earlyExit` is their number); or none (`false`). If it does not fit, the model runs
   * without it, and `info.draft` says why.
   */
  draft?: boolean | string | URL | { earlyExit: number };
  /**
   * Where the engine runs: in a worker that the site's tabs share, a SharedWorker (`shared`) or one
   * tab's (`leader`), or in one of its own (`private`). `auto` (default) is the first of them that
   * works here; one that is named and does not work rejects with code `no_host`.
   */
  host?: "auto" | HostKind;
  /**
   * Who shares the prefix cache, whose hits others can notice by a shorter time to the first token: all
   * tabs (`shared`, default), none (`tab`), or those with the same `session`.
   */
  isolation?: "shared" | "tab" | { session: string };
  /**
   * Memory for the weights, keys and values of all models that the site's tabs share; default on iOS and iPadOS
   * 1 GiB, on Android a quarter of the device's memory, elsewhere half of it and at most 4 GiB
   * (`info.budgetReason`). The value of the tab that loaded last counts.
   */
  budgetBytes?: number;
  /** Which optional features of the GPU are used where it has them. */
  gpu?: GpuFeatures;
  /**
   * Where the files are kept for the next load: in the browser's Cache API (`cache`, default) or in
   * the origin private file system (`opfs`), as far as the browser grants room, or not at all
   * (`none`). Kept files are not compared with the server's: a model that changes needs a new address.
   */
  store?: "cache" | "opfs" | "none";
  /**
   * What is shared with other sites in the browser's Cross-Origin Storage, where there is one. Weights whose
   * SHA-256 is known, by `integrity` or from Hugging Face, are looked for there before the network is asked. Once
   * they are loaded and kept, those of Hugging Face (`public`, default) or of any address (`all`) are moved there,
   * but none from signed addresses. `none` neither looks nor moves.
   */
  crossOriginStorage?: "public" | "all" | "none";
  /**
   * Whether the browser is asked never to evict what the site stores. Default: where it decides by itself; Firefox
   * asks the visitor, and is asked only where this is `true`.
   */
  persist?: boolean;
  /**
   * What the model's files must be, except those of a drafter in another folder. Without it, large files
   * on Hugging Face are checked against its repository, if that answers, and others are trusted when
   * they are first downloaded.
   */
  integrity?: Manifest;
  /** A server that answers what this device cannot; without it, no request leaves the page. */
  fallback?: FallbackOptions;
  onProgress?: (progress: Progress) => void;
  /** Ends loading. */
  signal?: AbortSignal | null | undefined;
  /**
   * The site's own script that is, or imports, `worker.js`, if that is not beside this module or is of
   * another origin. Pages that require Trusted Types allow the policy `tabloom`, or pass a
   * `TrustedScriptURL`.
   */
  workerUrl?: string | { toString(): string };
}

/** Optional features of a GPU; drivers may have faults in them. */
export interface GpuFeatures {
  /** Subgroup operations in shaders, which make the engine faster; default true. */
  subgroups?: boolean;
}

/**
 * What a memory budget comes from: the option `budgetBytes`, or else the kind of device. `ios` is iPadOS, too.
 */
export type BudgetReason = "option" | "ios" | "android" | "desktop";

/**
 * A server with OpenAI's API (vLLM, SGLang, …) for requests that the device cannot answer; `served_by` in
 * answers and chunks says who answered.
 */
export interface FallbackOptions {
  /** The address that `/chat/completions` and so on follow, absolute or relative to the page. */
  baseURL: string | URL;
  /** What the server calls the model. */
  model: string;
  /** Sent as `Authorization: Bearer`; a function is called for each request. */
  apiKey?: string | (() => string | undefined | Promise<string | undefined>);
  /** For which reasons the server is asked, or a function that decides; default all. */
  when?: readonly FallbackReason[] | ((reason: FallbackReason) => boolean);
}

/**
 * Why a device cannot answer, as error codes: it has no WebGPU (`no_gpu`), or its driver cannot compile the
 * shaders (`pipeline`); the model is too large for one of its buffers (`too_large`), its memory
 * (`out_of_memory`) or the budget (`over_budget`), or its GPU is lost with it again and again
 * (`device_lost_again`); too many requests wait (`queue_full`); there is no worker for the engine (`no_host`), it did not start
 * (`start_failed`) or fails again and again (`engine_crashed`).
 */
export type FallbackReason =
  | "no_gpu"
  | "too_large"
  | "out_of_memory"
  | "device_lost_again"
  | "pipeline"
  | "over_budget"
  | "queue_full"
  | "no_host"
  | "start_failed"
  | "engine_crashed";

/** What the files of a model must be, by name; others do not exist. Digests are hexadecimal. */
interface Manifest {
  files: Record<string, ManifestFile>;
}

interface ManifestFile {
  sha256: string;
  /** Length of the file. */
  bytes?: number;
  /** BLAKE3 of each 32 MiB of the file, by which damage is found and repaired early. */
  chunks?: string[];
}

/** What was loaded, and on what. */
export interface EngineInfo {
  /**
   * The address it was loaded from without a signature, also where it was loaded by name; of files,
   * `local:` with their digest and name.
   */
  model: string;
  /** The name that it was loaded by; null where that was an address or files. */
  name: string | null;
  architecture: string;
  /** `none` where the fallback answers because the device cannot run the model; then the rest is empty. */
  device: "gpu" | "cpu" | "none";
  /** For people. */
  adapter: string;
  /** A CPU emulates the GPU. */
  software: boolean;
  /** Most tokens of one conversation. */
  context: number;
  /** Bytes of weights held. */
  weightBytes: number;
  /** Memory for all models that the site's tabs share, as this tab loaded it, and what says so. */
  budgetBytes: number;
  budgetReason: BudgetReason;
  /** Whether the files are kept for the next load. */
  stored: boolean;
  /**
   * The drafter; null if there is none. The model's own first layers add no bytes. With an `error` the
   * model runs without it.
   */
  draft: { weightBytes: number } | { error: string } | null;
  /**
   * How tokens are sampled where a request does not say: as the model's files say, else at temperature 0.8
   * with top-k 40, top-p 0.95 and min-p 0.05. Temperature 0 is greedy, `topK` 0 keeps all tokens. Null
   * where the fallback answers everything.
   */
  sampling: {
    temperature: number;
    topK: number;
    topP: number;
    minP: number;
    repetitionPenalty: number;
  } | null;
  /** The server for what the device cannot answer, if any; `reason`: why it answers everything. */
  fallback?: { baseURL: string; model: string; reason: string | null };
}

// Without this, the other types would be exported too.
export {};
