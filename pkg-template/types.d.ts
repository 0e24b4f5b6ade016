// The shapes of what goes in and comes out, OpenAI's where there are such.

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

export interface RequestOptions {
  /** Ends the request. */
  signal?: AbortSignal;
  /** `false` keeps the request on this device, whatever the engine was loaded with. */
  fallback?: boolean;
}

/** What the files of a model must be, by name; others do not exist. Digests are hexadecimal. */
export interface Manifest {
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

/** What is kept of a model. */
export interface StoredModel {
  /** Its address, as `Engine.load` and `Engine.store.delete` take it. */
  model: string;
  /** Where it is kept. */
  store: "cache" | "opfs";
  /** How many of its files are kept, whole or in part. */
  files: number;
  /** Bytes of them. */
  bytes: number;
  /** Whether the next load needs no network. */
  complete: boolean;
  /** When it was last loaded; null if it never was as a whole. */
  lastUsed: Date | null;
}

export interface StoreSize {
  /** Bytes of all models that are kept. */
  bytes: number;
  /** Bytes that the site takes of the browser's storage, whatever for. */
  usage?: number;
  /** Most bytes that it may take. */
  quota?: number;
}

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

/**
 * What came of guessing ahead, counted by rounds: steps in which an answer had guesses. A round brings
 * one token more than it has right guesses, so its mean acceptance length is
 * 1 + spec_decode_num_accepted_tokens / spec_decode_num_drafts.
 */
export interface SpeculationMetrics {
  /** Rounds. */
  spec_decode_num_drafts: number;
  /** Tokens that were guessed. */
  spec_decode_num_draft_tokens: number;
  /** Those of them that were right. */
  spec_decode_num_accepted_tokens: number;
  /** The same by their place in a round: seven numbers. */
  spec_decode_num_accepted_tokens_per_pos: number[];
}

/** Counters and gauges of an engine, most of them under vLLM's names. */
export interface EngineMetrics extends SpeculationMetrics {
  /**
   * How many seconds longer the same tokens would have taken without guesses, by what steps without
   * them took.
   */
  spec_decode_seconds_saved: number;
  /** Requests that are being computed, and those that wait. */
  num_requests_running: number;
  num_requests_waiting: number;
  /** The share of KV blocks that are held, and of their places that hold a token, from 0 to 1. */
  kv_cache_usage_perc: number;
  kv_block_utilisation: number;
  /** Tokens that were looked for in the prefix cache, and found. */
  prefix_cache_queries: number;
  prefix_cache_hits: number;
  /** The share that was found over the last 1000 requests; null before the first. */
  prefix_cache_hit_rate: number | null;
  /** The same when requests came back that had given up their blocks; not in the counts above. */
  preempted_queries: number;
  preempted_hits: number;
  /** How often a request gave up its blocks, to be computed again. */
  num_preemptions: number;
  /** Tokens of prompts that were computed or found. */
  prompt_tokens: number;
  /** Tokens of answers. */
  generation_tokens: number;
  /** Requests that have ended, by reason. */
  request_success: { stop: number; length: number; repetition: number; abort: number; error: number };
  /** Steps that the model has run. */
  steps: number;
  /** Rows of each step. */
  iteration_tokens_total: Histogram;
  /** From one step's result to the next. */
  step_time_seconds: Histogram;
  /** From arrival to the first token. */
  time_to_first_token_seconds: Histogram;
  /** From one token to the next. */
  inter_token_latency_seconds: Histogram;
  /** From the first token to the last, by token. */
  request_time_per_output_token_seconds: Histogram;
  /** From arrival to the end. */
  e2e_request_latency_seconds: Histogram;
  /** From arrival to the first admission. */
  request_queue_time_seconds: Histogram;
  /** From admission to the first token. */
  request_prefill_time_seconds: Histogram;
  /** From the first token to the last. */
  request_decode_time_seconds: Histogram;
  /** From admission to the last token. */
  request_inference_time_seconds: Histogram;
  /** Each tab's part, by its id. */
  tabs: Record<string, TabMetrics>;
  /** Bytes of the worker's WebAssembly memory, which never shrinks. */
  wasm_heap_bytes: number;
  /** What the worker has, and for which tabs. */
  host: HostState;
}

/** What one tab has asked for and got. */
export interface TabMetrics extends SpeculationMetrics {
  /** Requests that are being computed, and those that wait. */
  running: number;
  waiting: number;
  /** KV blocks of its requests; one that several share counts for each. */
  kv_blocks: number;
  /** Tokens of prompts that were computed or found in the prefix cache. */
  prompt_tokens: number;
  /** Tokens that were looked for in the prefix cache, and found. */
  prefix_cache_queries: number;
  cached_tokens: number;
  /** Tokens of answers. */
  generation_tokens: number;
}

/** Values by size. */
export interface Histogram {
  /** The largest value of each bucket, ascending; one more bucket, without a bound, follows. */
  bounds: number[];
  /** Values by bucket. */
  counts: number[];
  /** Of all values. */
  sum: number;
  count: number;
}

/** What a worker has, as far as the tab that asks may know. */
export interface HostState {
  /** The Web Lock that it holds as long as it lives. */
  name: string | null;
  /** The tabs that share cached prompts with the one that asks (`you`), and the addresses of their models. */
  tabs: { id: number; visible: boolean; model: string | null; you: boolean }[];
  /** Their models, and those that no tab has: weights, keys and values in bytes. */
  models: { url: string; bytes: number; tabs: number; requests: number }[];
  /** Memory for weights, keys and values of all models. */
  budget_bytes: number;
  used_bytes: number;
}

/** A text, whole or in parts. */
export type ChatContent = string | { type: "text"; text: string }[];

/** A message of a conversation. */
export type ChatMessage =
  | SystemMessage
  | UserMessage
  | AssistantMessage
  | ToolMessage;

/** Instructions from the application. */
export interface SystemMessage {
  role: "system" | "developer";
  content: ChatContent;
}

/** What the person says. */
export interface UserMessage {
  role: "user";
  content: ChatContent;
}

/**
 * What the model said. As the last message it is gone on with: the answer brings only what follows
 * its text (see `continue_final_message`).
 */
export interface AssistantMessage {
  role: "assistant";
  /** May be null, or left out, where tools are called. */
  content?: ChatContent | null;
  /** What the model thought before it answered; chat templates keep or drop it. */
  reasoning_content?: string | null;
  /** The tools it called; messages of role `tool` bring the results. */
  tool_calls?: ToolCall[];
  /** Says that this, the last message, is to be gone on with. */
  prefix?: boolean;
  /** Ignored, so that the messages of answers can be sent back. */
  refusal?: null;
}

/** What a tool gave for a call that an earlier message made. */
export interface ToolMessage {
  role: "tool";
  /** The `id` of the call; each call has one result. */
  tool_call_id: string;
  content: ChatContent;
  /** The tool's name, which need not be told. */
  name?: string;
}

/** A function that the model may call; the page carries out the call and sends back the result. */
export interface Tool {
  type: "function";
  function: {
    /** 1 to 64 letters, digits, `_` and `-`; no other tool has it. */
    name: string;
    /** What it does, for the model. */
    description?: string | null;
    /** The JSON schema of its arguments, an object; left out, it has none. */
    parameters?: { [keyword: string]: unknown } | null;
    /** Holds the arguments of each call to the schema, also where the model is free to call. */
    strict?: boolean | null;
  };
}

/** A tool, by its name. */
export interface NamedTool {
  type: "function";
  function: { name: string };
}

/**
 * Whether tools are called: `none`; `auto` (default where there are tools), as the model sees fit;
 * `required`, at least one; a tool, that one and once; or some of the tools, of which no other is
 * called. Where a call is required the answer is nothing but calls with valid arguments.
 */
export type ToolChoice =
  | "none"
  | "auto"
  | "required"
  | NamedTool
  | { type: "allowed_tools"; allowed_tools: { mode: "auto" | "required"; tools: NamedTool[] } };

/** A call of a tool. */
export interface ToolCall {
  /** By which the result names it. */
  id: string;
  type: "function";
  function: {
    name: string;
    /** A JSON object as text, as the model wrote it: check it unless the tool is `strict`. */
    arguments: string;
  };
}

/** A piece of a call in a stream: first its id and name, then its arguments bit by bit. */
export interface ToolCallDelta {
  /** Which of the message's calls it belongs to. */
  index: number;
  /** In the first piece. */
  id?: string;
  /** In the first piece. */
  type?: "function";
  function: {
    /** In the first piece. */
    name?: string;
    /** More of the JSON. */
    arguments: string;
  };
}

export interface ChatCompletionParams {
  messages: ChatMessage[];
  stream?: boolean;
  stream_options?: { include_usage?: boolean };
  max_completion_tokens?: number;
  max_tokens?: number;
  /** 0 is greedy. */
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  seed?: number;
  /** Answers to the same messages, 1 to 16; the i-th uses `seed` + i. */
  n?: number;
  stop?: string | string[];
  /** What the answer must look like; schemas are always enforced. */
  response_format?:
    | { type: "text" }
    | { type: "json_object" }
    | {
        type: "json_schema";
        json_schema: {
          name?: string;
          description?: string;
          schema: object | boolean;
          strict?: boolean | null;
        };
      };
  /** The same in vLLM's terms. */
  structured_outputs?: StructuredOutputs;
  /** Functions that the model may call, at most 128; not together with structured output. */
  tools?: Tool[];
  tool_choice?: ToolChoice;
  /** Whether an answer may have several calls; default true. */
  parallel_tool_calls?: boolean;
  /** How much the model thinks, as far as its chat template knows; `none` turns it off (Qwen3). */
  reasoning_effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh";
  /** More variables of the chat template, such as `{ enable_thinking: false }`. */
  chat_template_kwargs?: Record<string, unknown>;
  /**
   * Whether a last message of the assistant is gone on with; default true if it has a text and calls
   * no tools. If not, the model begins another turn.
   */
  continue_final_message?: boolean;
  /** -2 to 2, on tokens of the answer so far. */
  presence_penalty?: number;
  /** -2 to 2, on each of their occurrences. */
  frequency_penalty?: number;
  /** Above 0, on tokens of prompt and answer; 1 is off. */
  repetition_penalty?: number;
  /** Token ids to -100 to 100, at most 1024. */
  logit_bias?: Record<string, number>;
  /** Tells how likely each token was, before penalties, bias and filters. */
  logprobs?: boolean;
  /** 0 to 20 of the likeliest tokens beside each. */
  top_logprobs?: number;
  /** Tokens, at most 128, that `top_logprobs` tells of besides the likeliest. */
  logprob_token_ids?: number[];
  /** The same for the tokens of the prompt; not in a stream. */
  prompt_logprobs?: number;
  /** The only tokens that may be drawn. */
  allowed_token_ids?: number[];
  /** Texts that may not appear, at most 256. */
  bad_words?: string[];
  /** Whether the stop string that ended the answer stays in its text; default false. */
  include_stop_str_in_output?: boolean;
  /** Whether special tokens give no text; default true. If not, they show by their names. */
  skip_special_tokens?: boolean;
  /** Tokens that end the answer. */
  stop_token_ids?: number[];
  /** The model's own end tokens do not. */
  ignore_eos?: boolean;
  /** Before so many tokens, no end token can be drawn. */
  min_tokens?: number;
  /**
   * After so many tokens between `<think>` and `</think>` the model is made to go on to its answer.
   * Only where the model has these tokens, and not together with structured output.
   */
  thinking_token_budget?: number;
  /**
   * Ends the answer, with `finish_reason: "repetition"`, where it goes in circles: a pattern of
   * `min_pattern_size` (default 1) to `max_pattern_size` (at most 1024; 0: none) tokens has come
   * `min_count` times in a row.
   */
  repetition_detection?: { max_pattern_size: number; min_pattern_size?: number; min_count: number };
  /**
   * Whether tokens may be guessed before they are drawn; default true. The answer is the same
   * without. Tabloom's own parameter.
   */
  speculative_decoding?: boolean;
  /** Ignored, as an engine holds one model; `engine.fetch` refuses the names of others. */
  model?: string;
}

/** What an answer must look like: exactly one of these. */
export interface StructuredOutputs {
  /** A JSON schema. */
  json?: object | boolean;
  /** A regular expression that the whole answer matches, in the syntax of Rust's `regex`. */
  regex?: string;
  /** Texts of which the answer is one. */
  choice?: string[];
  /** A grammar in llguidance's dialect of Lark. */
  grammar?: string;
  /** Any JSON object. */
  json_object?: boolean;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  /** How much of the prompt had been computed already, for an earlier request. */
  prompt_tokens_details: { cached_tokens: number };
  completion_tokens_details: {
    /** Tokens of the answer that were guessed before they were drawn. */
    accepted_prediction_tokens: number;
    /** Guesses that were wrong. */
    rejected_prediction_tokens: number;
    /** Tokens of what the model thought before it answered. */
    reasoning_tokens: number;
  };
}

/** Why an answer ended; `tool_calls`: the model waits for the results of its calls. */
export type FinishReason = "stop" | "length" | "tool_calls" | "repetition";

/** A token and the natural logarithm of its probability. */
export interface TopLogprob {
  token: string;
  logprob: number;
  /** The token's UTF-8, which may be part of a character. */
  bytes: number[];
}

export type TokenLogprob = TopLogprob & { top_logprobs: TopLogprob[] };

export interface Logprobs {
  content: TokenLogprob[];
  refusal: null;
}

export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  /** Seconds since 1970. */
  created: number;
  model: string;
  /** Whether this device answered, or the fallback. */
  served_by: "device" | "fallback";
  choices: {
    index: number;
    delta: {
      role?: "assistant";
      content?: string;
      /** More of what the model thinks before it answers. */
      reasoning_content?: string;
      tool_calls?: ToolCallDelta[];
    };
    /** Those of the tokens whose text ends in this chunk. */
    logprobs: Logprobs | null;
    finish_reason: FinishReason | null;
    /** The one of `stop_token_ids` that ended the answer. */
    stop_reason?: number;
    /** The text was guessed before it was drawn; left out where it was not. */
    drafted?: true;
  }[];
  usage?: Usage | null;
}

export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  /** Seconds since 1970. */
  created: number;
  model: string;
  /** Whether this device answered, or the fallback. */
  served_by: "device" | "fallback";
  choices: {
    index: number;
    message: {
      role: "assistant";
      /** Null where the model thought, or called tools, and said nothing. */
      content: string | null;
      /** What the model thought before it answered. */
      reasoning_content?: string;
      tool_calls?: ToolCall[];
      refusal: null;
    };
    logprobs: Logprobs | null;
    finish_reason: FinishReason;
    /** The one of `stop_token_ids` that ended the answer. */
    stop_reason?: number;
  }[];
  usage: Usage;
  /** One per token of the prompt; null for the first. */
  prompt_logprobs?: (TokenLogprob | null)[];
}

/** The parameters that mean what they mean in a chat. */
type SharedParams =
  | "model"
  | "stream"
  | "stream_options"
  | "temperature"
  | "top_p"
  | "top_k"
  | "min_p"
  | "seed"
  | "n"
  | "stop"
  | "response_format"
  | "structured_outputs"
  | "presence_penalty"
  | "frequency_penalty"
  | "repetition_penalty"
  | "logit_bias"
  | "logprob_token_ids"
  | "prompt_logprobs"
  | "allowed_token_ids"
  | "bad_words"
  | "include_stop_str_in_output"
  | "skip_special_tokens"
  | "stop_token_ids"
  | "ignore_eos"
  | "min_tokens"
  | "thinking_token_budget"
  | "repetition_detection"
  | "speculative_decoding";

export interface CompletionParams extends Pick<ChatCompletionParams, SharedParams> {
  /** Texts to go on with, or their token ids; at most 128 answers in all. */
  prompt: string | string[] | number[] | number[][];
  /** Default 16; 0 together with `echo` tells of the prompt alone. */
  max_tokens?: number;
  /** Whether answers begin with their prompt. */
  echo?: boolean;
  /** Tells how likely each token was, and 0 to 5 of the likeliest in its place. */
  logprobs?: number;
  /** Nothing but the same as `n`. */
  best_of?: number;
  /** Whether prompts get the tokens that the tokenizer frames a text with; default true. */
  add_special_tokens?: boolean;
}

/** How likely the tokens of a text were: lists with one entry per token. */
export interface CompletionLogprobs {
  /** Texts; of a token whose bytes are no text `bytes:` and these, as `\x` and two digits each. */
  tokens: string[];
  /** Null for the first token of a prompt that is echoed. */
  token_logprobs: (number | null)[];
  /** The token itself, and the likeliest in its place. */
  top_logprobs: (Record<string, number> | null)[];
  /** Where in the text each begins, in characters (code points). */
  text_offset: number[];
}

/** An answer, or in a chunk its next piece. */
export interface CompletionChoice {
  /** Those of the first prompt come first. */
  index: number;
  text: string;
  logprobs: CompletionLogprobs | null;
  finish_reason: FinishReason | null;
  /** The one of `stop_token_ids` that ended the answer. */
  stop_reason?: number;
  /** One per token of the prompt; null for the first. */
  prompt_logprobs?: (TokenLogprob | null)[];
  /** The text of a chunk was guessed before it was drawn; left out where it was not. */
  drafted?: true;
}

export interface CompletionChunk {
  id: string;
  object: "text_completion";
  /** Seconds since 1970. */
  created: number;
  model: string;
  /** Whether this device answered, or the fallback. */
  served_by: "device" | "fallback";
  /** One, or none beside the usage. */
  choices: CompletionChoice[];
  usage?: Usage | null;
}

export interface Completion extends CompletionChunk {
  usage: Usage;
}

export interface TokenizeOptions {
  /** Whether a text gets the tokens that the tokenizer frames it with; default true. */
  addSpecialTokens?: boolean;
  /** Whether a conversation ends with the beginning of the assistant's turn; default true. */
  addGenerationPrompt?: boolean;
  signal?: AbortSignal;
}

/** A model that can be asked. */
export interface ModelCard {
  id: string;
  object: "model";
  /** When it was loaded, in seconds since 1970. */
  created: number;
  owned_by: "tabloom";
}

export interface ModelList {
  object: "list";
  data: ModelCard[];
}

export interface EmbeddingParams {
  /** Texts, or their token ids, at most 2048. */
  input: string | string[] | number[] | number[][];
  /** Default `float`; `base64` is little-endian f32. */
  encoding_format?: "float" | "base64";
  /** The last hidden state of a text (default), or the mean of all. */
  pooling?: "last" | "mean";
  /** Ignored, as an engine holds one model; `engine.fetch` refuses the names of others. */
  model?: string;
}

export interface EmbeddingResponse {
  object: "list";
  /** One per input, in order, of length 1; strings where base64 was asked for. */
  data: { object: "embedding"; index: number; embedding: number[] | string }[];
  model: string;
  /** Whether this device answered, or the fallback. */
  served_by: "device" | "fallback";
  usage: { prompt_tokens: number; total_tokens: number };
}

/** An engine in the shape of the Prompt API's `LanguageModel`. */
export interface LanguageModel {
  /**
   * Begins a session. Rejects as the Prompt API says: `NotSupportedError` for what is not text,
   * `QuotaExceededError` where the initial prompts do not fit, with the signal's reason when aborted.
   */
  create(options?: LanguageModelCreateOptions): Promise<LanguageModelSession>;
  /** Whether {@link create} would succeed with the same options: the model is loaded. */
  availability(options?: LanguageModelCoreOptions): Promise<"available" | "unavailable">;
}

/** How varied answers are; in between, and by default, as the model's makers propose. */
export type LanguageModelSamplingMode =
  | "most-predictable"
  | "predictable"
  | "balanced"
  | "creative"
  | "most-creative";

export interface LanguageModelCoreOptions {
  /** Not together with `temperature` or `topK`. */
  samplingMode?: LanguageModelSamplingMode;
  /** 0 is greedy; more than 2 is 2. */
  temperature?: number;
  /** At least 1. */
  topK?: number;
  /** Only text. */
  expectedInputs?: LanguageModelExpected[];
  /** Only text. */
  expectedOutputs?: LanguageModelExpected[];
  /** None: `engine.chat.completions` has tools. */
  tools?: never[];
}

export interface LanguageModelCreateOptions extends LanguageModelCoreOptions {
  /** Ends creation, and later the session. */
  signal?: AbortSignal;
  /** Gets a target of `downloadprogress` events; as the model is loaded, they come at once. */
  monitor?: (monitor: EventTarget) => void;
  /** How the conversation begins; it is never forgotten. */
  initialPrompts?: LanguageModelMessage[];
}

/** What is said, or answered, in a session. */
export interface LanguageModelExpected {
  type: "text" | "image" | "audio" | "tool-call" | "tool-response";
  /** BCP 47; which of them it knows is up to the model. */
  languages?: string[];
}

/** What the user says, or messages. */
export type LanguageModelPrompt = string | LanguageModelMessage[];

export interface LanguageModelMessage {
  /** `system` only in the first message of a session. */
  role: "system" | "user" | "assistant";
  content: string | { type: LanguageModelExpected["type"]; value: unknown }[];
  /** The answer goes on with this, the assistant's last message. */
  prefix?: boolean;
}

export interface LanguageModelPromptOptions {
  /**
   * A JSON schema, or a regular expression, to which the answer keeps; `NotSupportedError` if it
   * cannot be, `SyntaxError` if the answer ends before it does.
   */
  responseConstraint?: object | null;
  /** Whether the model is not told of the constraint. */
  omitResponseConstraintInput?: boolean;
  signal?: AbortSignal;
}

/**
 * A conversation. Prompts are answered in order; one that fails or is aborted leaves no trace. Where
 * one does not fit, the oldest turns after the initial prompts are forgotten, which the events
 * `contextoverflow` and `quotaoverflow` tell; if that is not enough it fails with `QuotaExceededError`.
 */
export interface LanguageModelSession extends EventTarget {
  /** Answers. */
  prompt(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<string>;
  /** Answers in pieces; cancelling the stream gives the prompt up. */
  promptStreaming(
    input: LanguageModelPrompt,
    options?: LanguageModelPromptOptions,
  ): ReadableStream<string>;
  /** Adds to the conversation; resolves when the model has read it. */
  append(input: LanguageModelPrompt, options?: { signal?: AbortSignal }): Promise<void>;
  /** How many tokens a prompt would add. */
  measureContextUsage(
    input: LanguageModelPrompt,
    options?: LanguageModelPromptOptions,
  ): Promise<number>;
  /** Tokens of the conversation so far. */
  readonly contextUsage: number;
  /** Most tokens of the conversation with a further prompt; answers have room beyond. */
  readonly contextWindow: number;
  oncontextoverflow: EventListener | null;
  readonly samplingMode: LanguageModelSamplingMode;
  readonly temperature: number | undefined;
  readonly topK: number | undefined;
  /** A session with the same conversation, which shares its keys and values. */
  clone(options?: { signal?: AbortSignal }): Promise<LanguageModelSession>;
  /** Ends the session; what it is asked fails with `AbortError`. */
  destroy(): void;
  /** `measureContextUsage` by its older name. */
  measureInputUsage: LanguageModelSession["measureContextUsage"];
  /** `contextUsage` by its older name. */
  readonly inputUsage: number;
  /** `contextWindow` by its older name. */
  readonly inputQuota: number;
  onquotaoverflow: EventListener | null;
}
