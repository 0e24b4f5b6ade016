// What a model is loaded with, and what comes of it.

/** What loading is doing. */
export interface Progress {
  stage: "download" | "compile";
  /** The file being read; empty while kernels are compiled. */
  file: string;
  /** Bytes of weights read so far, or dispatches made ready. */
  loaded: number;
  /** Bytes of all weight files, or dispatches in all. */
  total: number;
  /** Bytes (or dispatches) per second since the stage began. */
  rate: number;
}

/**
 * A model: its name on Hugging Face (`org/name`, `org/name@revision`, `hf:org/name/file.gguf`) or in the
 * registry; the address of a folder in Hugging Face's layout or of a GGUF file; a GGUF file itself, or
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

/** Where an engine lives: in a worker of all tabs, in the leader tab's, or in one of its own. */
export type HostKind = "shared" | "leader" | "private";

/** What a name means. */
export interface NameOptions {
  /** Where names on Hugging Face are looked up; default `https://huggingface.co/`. */
  hub?: string | URL;
  /** Of a repository with several GGUF files, the one whose name has this word, such as `Q4_K_M`. */
  quantisation?: string;
  /** Names of the page's own, beside or in place of the package's: what each loads. */
  registry?: Record<string, string>;
}

export interface LoadOptions extends NameOptions {
  /** `auto` (default) and `gpu` use the GPU; `cpu` is a slow way for where there is none. */
  device?: "auto" | "gpu" | "cpu";
  /** How 16- and 32-bit matrices are held; default `keep`. */
  quantize?: "keep" | "w8" | "w4";
  /**
   * Most tokens of one conversation; default the model's own, as far as `kvBytes` reach. Within the
   * original context of a model with LongRoPE (Phi), it is computed by its short factors.
   */
  context?: number;
  /**
   * How keys and values are held; `int8` takes little more than half the memory of `f16` (default).
   * Layers for which it is unsafe stay in f16.
   */
  kv?: "f16" | "int8";
  /**
   * Memory for keys and values, shared by all conversations; default 256 MiB, or what 4096 tokens
   * need where that is more.
   */
  kvBytes?: number;
  /**
   * Lets a conversation outgrow the model's context: each token sees the first `sinks` tokens (a
   * multiple of 16, default 16) and the last `tokens`, both together within the context. What lies
   * between them is forgotten.
   */
  slidingWindow?: { sinks?: number; tokens: number };
  /**
   * Whether tokens are guessed before the model draws them, so that one step computes several;
   * answers are the same without. At most `maxDrafts` at once, 0 to 7 (default 7). Default `true`.
   */
  speculation?: boolean | { maxDrafts?: number };
  /**
   * What guesses beside prompt lookup (which finds what the conversation repeats): what is in the model's
   * folder `draft` or among its own weights, if anything (`true`, default); a folder of its own with a
   * head or smaller model for this model, by address or name; the model's own first layers, so many of
   * them; or nothing (`false`). Should it not fit, the model does without, and `info.draft` says why. A
   * folder of its own is kept as a model of its own.
   */
  draft?: boolean | string | URL | { earlyExit: number };
  /**
   * Where the engine lives: in a worker that the site's tabs share, a SharedWorker (`shared`) or one
   * tab's (`leader`), or in one of its own (`private`). `auto` (default) is the first of them that
   * works here; one that is asked for and does not work rejects with code `no_host`.
   */
  host?: "auto" | HostKind;
  /**
   * Who shares cached prompts, whose shorter time to the first token others can notice: all tabs
   * (`shared`, default), none (`tab`), or those with the same `session`.
   */
  isolation?: "shared" | "tab" | { session: string };
  /**
   * Memory for the weights, keys and values of all models that the site's tabs share; default 4 GiB.
   * The latest tab to name it decides.
   */
  budgetBytes?: number;
  /**
   * Where the files are kept for the next load: in the browser's Cache API (`cache`, default) or in
   * the origin private file system (`opfs`), as far as the browser grants room, or not at all
   * (`none`). What is kept is used as it is: give a model that changes a new address.
   */
  store?: "cache" | "opfs" | "none";
  /**
   * What the model's files must be, those of a drafter elsewhere excepted. Without, large files on Hugging
   * Face must be what its repository says, if it answers, and others are trusted when they first come.
   */
  integrity?: Manifest;
  /** A server that answers what this device cannot; without, no request leaves the page. */
  fallback?: FallbackOptions;
  onProgress?: (progress: Progress) => void;
  /** Ends loading. */
  signal?: AbortSignal;
  /**
   * A script of the site's own that is, or imports, `worker.js`, if that is not beside this module or is
   * of another origin. Pages that require Trusted Types allow the policy `tabloom`, or pass a
   * `TrustedScriptURL`.
   */
  workerUrl?: string | { toString(): string };
}

/**
 * A server with OpenAI's API (vLLM, SGLang, …) for requests that the device cannot answer. Every answer
 * and chunk says in `served_by` who gave it.
 */
export interface FallbackOptions {
  /** The address that `/chat/completions` and so on follow, absolute or relative to the page. */
  baseURL: string | URL;
  /** What the server calls the model. */
  model: string;
  /** Sent as `Authorization: Bearer`; a function is asked anew for each request. */
  apiKey?: string | (() => string | undefined | Promise<string | undefined>);
  /** The reasons for which the server is asked, or a function that decides; default all. */
  when?: FallbackReason[] | ((reason: FallbackReason) => boolean);
}

/**
 * Why a device cannot answer, as error codes: it has no WebGPU (`no_gpu`); the model is too large for
 * one of its buffers (`too_large`), its memory (`out_of_memory`) or the budget (`over_budget`); too many
 * requests wait (`queue_full`); the engine's worker could not be had (`no_host`), did not start
 * (`start_failed`) or fails again and again (`engine_crashed`).
 */
export type FallbackReason =
  | "no_gpu"
  | "too_large"
  | "out_of_memory"
  | "over_budget"
  | "queue_full"
  | "no_host"
  | "start_failed"
  | "engine_crashed";

/** What the files of a model must be, by name; others do not exist. Digests are hexadecimal. */
interface Manifest {
  files: Record<
    string,
    {
      /** SHA-256 of the file. */
      sha256: string;
      /** Length of the file. */
      bytes?: number;
      /** BLAKE3 of each 32 MiB of the file, so that damage is noticed and mended early. */
      chunks?: string[];
    }
  >;
}

/** What was loaded, and on what. */
export interface EngineInfo {
  /**
   * The address it was loaded from, also where a name led there; of files, `local:` with what tabs know
   * them by, and their name.
   */
  model: string;
  architecture: string;
  /** `none` where the device cannot have the model and the fallback answers; then the rest is empty. */
  device: "gpu" | "cpu" | "none";
  /** For people. */
  adapter: string;
  /** A CPU emulates the GPU. */
  software: boolean;
  /** Most tokens of one conversation. */
  context: number;
  /** Bytes of weights held. */
  weightBytes: number;
  /** Whether the files are kept for the next load. */
  stored: boolean;
  /**
   * The drafter that guesses tokens ahead: a head, a smaller model, or the model's own first layers,
   * which add no bytes. Null if there is none; with an `error` it is not used, and the model runs
   * without it.
   */
  draft: { weightBytes: number } | { error: string } | null;
  /** Where requests go that the device cannot answer, if anywhere; `reason`: why all of them do. */
  fallback?: { baseURL: string; model: string; reason: string | null };
}

// What is not exported above stays here.
export {};
