// calls/completions.d.ts
import type { Serving } from "./calls.js";
import type { Completion, CompletionChunk, CompletionParams, RequestOptions } from "../types.js";
export declare class TextCompletions {
    #private;
    constructor(session: Serving);
    create<P extends CompletionParams>(params: P, options?: RequestOptions): Promise<P extends {
        stream: true;
    } ? AsyncIterableIterator<CompletionChunk> : Completion>;
}

// element.d.ts
export type TabloomChatMessage = import("./element/types.js").TabloomChatMessage;
export type TabloomChatState = import("./element/types.js").TabloomChatState;
export type TabloomChatEventMap = import("./element/types.js").TabloomChatEventMap;
export type Engine = import("./index.js").Engine;
export type LoadOptions = import("./types.js").LoadOptions;
declare const Base: {
    new (): HTMLElement;
    prototype: HTMLElement;
};
export declare class TabloomChat extends Base {
    #private;
    static texts: {
        conversation: string;
        user: string;
        assistant: string;
        title: string;
        promise: string;
        start: string;
        input: string;
        placeholder: string;
        send: string;
        stop: string;
        clear: string;
        copy: string;
        copyCode: string;
        copied: string;
        notCopied: string;
        edit: string;
        editing: string;
        cancel: string;
        again: string;
        latest: string;
        connecting: string;
        download: string;
        compile: string;
        ready: string;
        thinking: string;
        cut: string;
        problem: string;
        noGpu: string;
        retry: string;
        processor: string;
    };
    static observedAttributes: string[];
    constructor();
    connectedCallback(): void;
    connectedMoveCallback(): void;
    disconnectedCallback(): void;
    attributeChangedCallback(name: string, before: string | null, after: string | null): void;
    get model(): string | null;
    set model(value: string | null);
    get system(): string | null;
    set system(value: string | null);
    get placeholder(): string | null;
    set placeholder(value: string | null);
    get autoload(): boolean;
    set autoload(value: boolean);
    get device(): string | null;
    set device(value: string | null);
    get quantize(): string | null;
    set quantize(value: string | null);
    get temperature(): number | null;
    set temperature(value: number | null);
    get maxTokens(): number | null;
    set maxTokens(value: number | null);
    get storage(): string | null;
    set storage(value: string | null);
    get workerUrl(): string | {
        toString(): string;
    } | undefined;
    set workerUrl(value: string | {
        toString(): string;
    } | undefined);
    get state(): import("./element/types.js").TabloomChatState;
    get engine(): import("./index.js").Engine | null;
    set engine(engine: import("./index.js").Engine | null);
    get messages(): import("./element/types.js").TabloomChatMessage[];
    set messages(messages: import("./element/types.js").TabloomChatMessage[]);
    load(): Promise<Engine>;
    send(text: string): Promise<TabloomChatMessage | null>;
    stop(): void;
    clear(): void;
    focus(options?: FocusOptions): void;
}
export {};

// element/dom.d.ts
export declare function html<K extends keyof HTMLElementTagNameMap>(name: K, attributes?: Record<string, string>, ...children: (Node | string)[]): HTMLElementTagNameMap[K];
export declare function icon(path: string): SVGSVGElement;
export declare function morph(parent: Element, nodes: Node[], from?: number): void;

// element/icons.d.ts
export declare const ARROW_UP = "M12 19V5M5.5 11.5 12 5l6.5 6.5";
export declare const ARROW_DOWN = "M12 5v14M5.5 12.5 12 19l6.5-6.5";
export declare const SQUARE = "M7 7h10v10H7z";
export declare const COPY = "M9 9h11v11H9zM15 9V4H4v11h5";
export declare const CHECK = "M5 12.5l4.5 4.5L19 7.5";
export declare const AGAIN = "M4.5 12a7.5 7.5 0 1 0 2.4-5.5M4.5 4v4h4";
export declare const PENCIL = "M4.5 19.5l1-4L16 5l3 3L8.5 18.5zM13.5 7.5l3 3";
export declare const BUBBLE = "M4 5h16v11.5H11L6.5 20v-3.5H4zM12 8v5.5M9.25 10.75h5.5";
export declare const WEAVE = "M8 3v3.5M8 10.5V21M16 3v10.5M16 17.5V21M3 8.5h10.5M17.5 8.5H21M3 15.5h2.5M10 15.5h11";

// element/parts.d.ts
export { html, icon } from "./dom.js";
export { PENCIL } from "./icons.js";
export { PROSE } from "./prose/style.js";
export { codeOf, copy } from "./view/copy.js";
export { Follower } from "./view/follower.js";
export { Message } from "./view/message.js";

// element/prose/style.d.ts
export declare const PROSE = "\n.message { display: flex; flex-direction: column; }\n.message + .message { margin-block-start: 1rem; }\n.user { align-items: flex-end; }\n.user .text {\n  max-inline-size: 85%;\n  padding: .6rem 1rem;\n  border: 1px solid transparent;\n  border-radius: 1.15rem;\n  border-end-end-radius: .35rem;\n  background: var(--bubble);\n  white-space: pre-wrap;\n}\n.text { overflow-wrap: anywhere; min-inline-size: 0; }\n.note { margin: .5rem 0 0; color: var(--muted); font-size: .875em; }\n.actions { display: flex; gap: .125rem; margin: .25rem -.4rem 0; color: var(--muted); }\n.user .actions { margin-inline: 0; }\n.busy .recent .actions { visibility: hidden; }\n@media (hover: hover) {\n  .message:not(.recent) .actions { opacity: 0; }\n  .message:is(:hover, :focus-within) .actions { opacity: 1; }\n}\n\n.assistant .text > * { margin: 0; }\n.assistant .text :where(* + :is(p, ul, ol, blockquote, .code, .scroller, h3, h4, h5, h6, hr)) { margin-block-start: .85em; }\n.text :where(p, ul, ol, blockquote, pre, h3, h4, h5, h6, hr) { margin: 0; }\n.text :is(h3, h4, h5, h6) { line-height: 1.35; font-weight: 650; letter-spacing: -.005em; }\n.assistant .text * + :is(h3, h4) { margin-block-start: 1.3em; }\n.text h3 { font-size: 1.3em; }\n.text h4 { font-size: 1.15em; }\n.text :is(h5, h6) { font-size: 1em; }\n.text :is(ul, ol) { padding-inline-start: 1.6em; }\n.text li + li { margin-block-start: .3em; }\n.assistant .text li > :is(ul, ol) { margin-block-start: .3em; }\n.text .loose > li + li { margin-block-start: .85em; }\n.assistant .text .loose > li > :is(ul, ol) { margin-block-start: .85em; }\n.text li::marker { color: var(--muted); }\n.text blockquote { padding-inline-start: 1em; border-inline-start: 3px solid var(--line); color: var(--muted); }\n.text hr { border: 0; border-block-start: 1px solid var(--line); }\n.text a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: .2em; }\n.text code { font: .875em/1.55 var(--mono); }\n.text :not(pre) > code { padding: .15em .35em; border-radius: .35em; background: var(--surface); }\n.code { border: 1px solid var(--line); border-radius: .75rem; background: var(--surface); overflow: hidden; }\n.bar { display: flex; align-items: center; justify-content: space-between; padding: .25rem .4rem 0 1rem; color: var(--muted); font-size: .8em; }\n.code pre { margin: 0; padding: .35rem 1rem .9rem; overflow-x: auto; tab-size: 4; direction: ltr; text-align: left; scrollbar-width: thin; border-radius: .75rem; }\n.scroller { overflow-x: auto; scrollbar-width: thin; border: 1px solid var(--line); border-radius: .75rem; }\n.text table { border-collapse: collapse; min-inline-size: 100%; font-size: .94em; }\n.text :is(th, td) { padding: .5rem .9rem; text-align: start; vertical-align: top; overflow-wrap: normal; }\n.text th { background: var(--surface); font-weight: 600; }\n.text tbody tr { border-block-start: 1px solid var(--line); }\n.text .center { text-align: center; }\n.text .end { text-align: end; }\n\n.dots { display: flex; gap: .3rem; padding-block: .6rem; }\n.dots i { inline-size: .45rem; block-size: .45rem; border-radius: 50%; background: var(--muted); opacity: .5; }\n@media (prefers-reduced-motion: no-preference) {\n  .dots i { animation: pulse 1.2s ease-in-out infinite; }\n  .dots i:nth-child(2) { animation-delay: .15s; }\n  .dots i:nth-child(3) { animation-delay: .3s; }\n  .actions { transition: opacity .15s; }\n  .message { animation: appear .2s ease-out; }\n}\n@keyframes pulse { 50% { opacity: 1; translate: 0 -.15rem; } }\n@keyframes appear { from { opacity: 0; translate: 0 .3rem; } }\n";

// element/types.d.ts
import type { Engine, TabloomError } from "../index.js";
import type { TabloomChat } from "../element.js";
import type { FinishReason, Progress } from "../types.js";
export interface TabloomChatMessage {
  role: "user" | "assistant";
  content: string;
}
export type TabloomChatState = "idle" | "loading" | "ready" | "busy" | "error";
export interface TabloomChatEventMap {
  "tabloom-load": CustomEvent<Progress>;
  "tabloom-ready": CustomEvent<{ engine: Engine }>;
  "tabloom-message": CustomEvent<{
    message: TabloomChatMessage;
    finishReason: FinishReason | "stopped" | null;
  }>;
  "tabloom-error": CustomEvent<{ error: TabloomError | Error }>;
}
declare global {
  interface HTMLElementTagNameMap {
    "tabloom-chat": TabloomChat;
  }
  interface GlobalEventHandlersEventMap extends TabloomChatEventMap {}
}

// element/view/copy.d.ts
export declare function copy(button: HTMLElement, text: string, announce: (text: string) => void): Promise<void>;
export declare function codeOf(button: Element): string | null;

// element/view/follower.d.ts
export declare class Follower {
    #private;
    constructor(log: HTMLElement, onScroll?: () => void);
    get following(): boolean;
    follow(): void;
    toEnd(): void;
}

// element/view/message.d.ts
export declare class Message {
    #private;
    content: string;
    readonly element: HTMLElement;
    constructor(role: "user" | "assistant", onFinal?: (text: string) => void);
    set(content: string): void;
    begin(): void;
    add(piece: string, onShow: () => void): void;
    end(): void;
    note(text: string): void;
    mark(recent: boolean, possible: {
        edit: boolean;
        again: boolean;
    }): void;
}

// error.d.ts
export declare class TabloomError extends Error {
    code: string;
    param: string | null;
    details: unknown;
    constructor({ code, message, param, details }: {
        code: string;
        message: string;
        param?: string | null;
        details?: unknown;
    });
}
export declare function crashed(what: string): TabloomError;
export declare function noHost(host: string, reason: string): TabloomError;
export declare class Silence extends TabloomError {
    constructor();
}
export declare class Departure extends Error {
}

// index.d.ts
import { TextCompletions } from "./calls/completions.js";
import { TabloomError } from "./error.js";
import { Models } from "./models/kept.js";
export { TabloomError };
export * from "./types.js";
import type { EngineInfo, EngineMetrics, LanguageModel, LoadOptions, ModelList, ModelSource, Probe, ProbeOptions } from "./types.js";
import type { Serving } from "./calls/calls.js";
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionParams, ChatMessage } from "./types.js";
import type { EmbeddingParams, EmbeddingResponse, RequestOptions, TokenizeOptions } from "./types.js";
export declare class Engine {
    #private;
    chat: {
        completions: Completions;
    };
    completions: TextCompletions;
    models: LoadedModels;
    embeddings: Embeddings;
    store: Models;
    fetch: (input: RequestInfo | URL, init?: RequestInit) => Promise<Response>;
    static store: Models;
    static load(source: ModelSource, options?: LoadOptions): Promise<Engine>;
    static probe(options?: ProbeOptions): Promise<Probe>;
    constructor(session: Serving);
    get info(): EngineInfo;
    get host(): import("./types.js").HostKind | null;
    metrics(): Promise<EngineMetrics>;
    tokenize(input: string | ChatMessage[], options?: TokenizeOptions): Promise<number[]>;
    countTokens(input: string | ChatMessage[], options?: TokenizeOptions): Promise<number>;
    detokenize(tokens: number[], { signal }?: {
        signal?: AbortSignal;
    }): Promise<string>;
    applyChatTemplate(messages: ChatMessage[], options?: TokenizeOptions): Promise<string>;
    languageModel(): LanguageModel;
    close(): void;
}
declare class Completions {
    #private;
    constructor(session: Serving);
    create<P extends ChatCompletionParams>(params: P, options?: RequestOptions): Promise<P extends {
        stream: true;
    } ? AsyncIterableIterator<ChatCompletionChunk> : ChatCompletion>;
}
declare class LoadedModels {
    #private;
    constructor(session: Serving);
    list(): Promise<ModelList>;
}
declare class Embeddings {
    #private;
    constructor(session: Serving);
    create(params: EmbeddingParams, options?: RequestOptions): Promise<EmbeddingResponse>;
}

// models/kept.d.ts
import type { StoreSize, StoredModel } from "../types.js";
export declare class Models {
    #private;
    list(): Promise<StoredModel[]>;
    size(): Promise<StoreSize>;
    delete(model: string | URL, options?: import("../types.js").NameOptions): Promise<boolean>;
}

// types.d.ts
export * from "./types/chat.js";
export * from "./types/completions.js";
export * from "./types/load.js";
export * from "./types/metrics.js";
export * from "./types/probe.js";
export * from "./types/prompt-api.js";
export * from "./types/requests.js";
export type { StructuredOutputs } from "./types/shared.js";
export * from "./types/store.js";
export * from "./types/tools.js";

// types/chat.d.ts
import type { SharedAnswer, SharedParams } from "./shared.js";
import type { Tool, ToolCall, ToolCallDelta, ToolChoice } from "./tools.js";
export type ChatContent = string | { type: "text"; text: string }[];
export type ChatMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage;
export interface SystemMessage {
  role: "system" | "developer";
  content: ChatContent;
}
export interface UserMessage {
  role: "user";
  content: ChatContent;
}
export interface AssistantMessage {
  role: "assistant";
  content?: ChatContent | null;
  reasoning_content?: string | null;
  reasoning?: string | null;
  tool_calls?: ToolCall[];
  prefix?: boolean;
  refusal?: string | null;
}
export interface ToolMessage {
  role: "tool";
  tool_call_id: string;
  content: ChatContent;
  name?: string;
}
export interface ChatCompletionParams extends SharedParams {
  messages: ChatMessage[];
  max_completion_tokens?: number;
  max_tokens?: number;
  tools?: Tool[];
  tool_choice?: ToolChoice;
  parallel_tool_calls?: boolean;
  reasoning_effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
  chat_template_kwargs?: Record<string, unknown>;
  continue_final_message?: boolean;
  logprobs?: boolean;
  top_logprobs?: number;
}
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
  completion_tokens_details: {
    accepted_prediction_tokens: number;
    rejected_prediction_tokens: number;
    reasoning_tokens: number;
  };
}
export type FinishReason = "stop" | "length" | "tool_calls" | "repetition";
export interface TopLogprob {
  token: string;
  logprob: number;
  bytes: number[];
}
export type TokenLogprob = TopLogprob & { top_logprobs: TopLogprob[] };
export interface Logprobs {
  content: TokenLogprob[];
  refusal: null;
}
export interface ChatCompletionChunk extends SharedAnswer {
  object: "chat.completion.chunk";
  choices: {
    index: number;
    delta: {
      role?: "assistant";
      content?: string;
      reasoning_content?: string;
      tool_calls?: ToolCallDelta[];
    };
    logprobs: Logprobs | null;
    finish_reason: FinishReason | null;
    stop_reason?: number;
    drafted?: true;
  }[];
  usage?: Usage | null;
}
export interface ChatCompletion extends SharedAnswer {
  object: "chat.completion";
  choices: {
    index: number;
    message: {
      role: "assistant";
      content: string | null;
      reasoning_content?: string;
      tool_calls?: ToolCall[];
      refusal: null;
    };
    logprobs: Logprobs | null;
    finish_reason: FinishReason;
    stop_reason?: number;
  }[];
  usage: Usage;
  prompt_logprobs?: (TokenLogprob | null)[];
}

// types/completions.d.ts
import type { FinishReason, TokenLogprob, Usage } from "./chat.js";
import type { SharedAnswer, SharedParams } from "./shared.js";
export interface CompletionParams extends SharedParams {
  prompt: string | string[] | number[] | number[][];
  max_tokens?: number;
  echo?: boolean;
  logprobs?: number;
  best_of?: number;
  add_special_tokens?: boolean;
}
export interface CompletionLogprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: (Record<string, number> | null)[];
  text_offset: number[];
}
export interface CompletionChoice {
  index: number;
  text: string;
  logprobs: CompletionLogprobs | null;
  finish_reason: FinishReason | null;
  stop_reason?: number;
  prompt_logprobs?: (TokenLogprob | null)[];
  drafted?: true;
}
export interface CompletionChunk extends SharedAnswer {
  object: "text_completion";
  choices: CompletionChoice[];
  usage?: Usage | null;
}
export interface Completion extends CompletionChunk {
  usage: Usage;
}

// types/load.d.ts
export interface Progress {
  stage: "download" | "compile";
  file: string;
  loaded: number;
  total: number;
  rate: number;
}
export type ModelSource =
  | string
  | URL
  | Blob
  | BufferSource
  | FileSystemFileHandle
  | FileSystemDirectoryHandle
  | Iterable<File>
  | Record<string, Blob | BufferSource>;
export type HostKind = "shared" | "leader" | "private";
export interface NameOptions {
  hub?: string | URL;
  quantisation?: string;
  registry?: Record<string, string>;
}
export interface LoadOptions extends NameOptions {
  device?: "auto" | "gpu" | "cpu";
  quantize?: "keep" | "w8" | "w4";
  context?: number;
  kv?: "f16" | "int8";
  kvBytes?: number;
  slidingWindow?: { sinks?: number; tokens: number };
  speculation?: boolean | { maxDrafts?: number };
  draft?: boolean | string | URL | { earlyExit: number };
  host?: "auto" | HostKind;
  isolation?: "shared" | "tab" | { session: string };
  budgetBytes?: number;
  store?: "cache" | "opfs" | "none";
  integrity?: Manifest;
  fallback?: FallbackOptions;
  onProgress?: (progress: Progress) => void;
  signal?: AbortSignal;
  workerUrl?: string | { toString(): string };
}
export interface FallbackOptions {
  baseURL: string | URL;
  model: string;
  apiKey?: string | (() => string | undefined | Promise<string | undefined>);
  when?: FallbackReason[] | ((reason: FallbackReason) => boolean);
}
export type FallbackReason =
  | "no_gpu"
  | "too_large"
  | "out_of_memory"
  | "over_budget"
  | "queue_full"
  | "no_host"
  | "start_failed"
  | "engine_crashed";
interface Manifest {
  files: Record<string, ManifestFile>;
}
interface ManifestFile {
  sha256: string;
  bytes?: number;
  chunks?: string[];
}
export interface EngineInfo {
  model: string;
  architecture: string;
  device: "gpu" | "cpu" | "none";
  adapter: string;
  software: boolean;
  context: number;
  weightBytes: number;
  stored: boolean;
  draft: { weightBytes: number } | { error: string } | null;
  sampling: {
    temperature: number;
    topK: number;
    topP: number;
    minP: number;
    repetitionPenalty: number;
  } | null;
  fallback?: { baseURL: string; model: string; reason: string | null };
}
export {};

// types/metrics.d.ts
export interface SpeculationMetrics {
  spec_decode_num_drafts: number;
  spec_decode_num_draft_tokens: number;
  spec_decode_num_accepted_tokens: number;
  spec_decode_num_accepted_tokens_per_pos: number[];
}
export interface EngineMetrics extends SpeculationMetrics {
  spec_decode_seconds_saved: number;
  num_requests_running: number;
  num_requests_waiting: number;
  kv_cache_usage_perc: number;
  kv_block_utilisation: number;
  prefix_cache_queries: number;
  prefix_cache_hits: number;
  prefix_cache_hit_rate: number | null;
  preempted_queries: number;
  preempted_hits: number;
  num_preemptions: number;
  prompt_tokens: number;
  generation_tokens: number;
  request_success: { stop: number; length: number; repetition: number; abort: number; error: number };
  steps: number;
  iteration_tokens_total: Histogram;
  step_time_seconds: Histogram;
  time_to_first_token_seconds: Histogram;
  inter_token_latency_seconds: Histogram;
  request_time_per_output_token_seconds: Histogram;
  e2e_request_latency_seconds: Histogram;
  request_queue_time_seconds: Histogram;
  request_prefill_time_seconds: Histogram;
  request_decode_time_seconds: Histogram;
  request_inference_time_seconds: Histogram;
  tabs: Record<string, TabMetrics>;
  wasm_heap_bytes: number;
  host: HostState;
}
export interface TabMetrics extends SpeculationMetrics {
  running: number;
  waiting: number;
  kv_blocks: number;
  prompt_tokens: number;
  prefix_cache_queries: number;
  cached_tokens: number;
  generation_tokens: number;
}
export interface Histogram {
  bounds: number[];
  counts: number[];
  sum: number;
  count: number;
}
export interface HostState {
  name: string | null;
  tabs: { id: number; visible: boolean; model: string | null; you: boolean }[];
  models: { url: string; bytes: number; tabs: number; requests: number }[];
  budget_bytes: number;
  used_bytes: number;
}

// types/probe.d.ts
import type { LoadOptions, NameOptions } from "./load.js";
export interface ProbeOptions extends Pick<NameOptions, "hub" | "registry"> {
  models?: ModelToProbe[];
  kvBytes?: number;
  budgetBytes?: number;
  signal?: AbortSignal;
  workerUrl?: LoadOptions["workerUrl"];
}
export interface ModelToProbe extends Pick<LoadOptions, "quantisation" | "quantize"> {
  id?: string;
  model?: string;
  bytes?: number;
}
export interface Probe {
  secure: boolean;
  gpu: GpuReport;
  memory: {
    deviceBytes: number | null;
    budgetBytes: number;
  };
  workers: {
    shared: boolean;
    service: boolean;
    locks: boolean;
  };
  storage: {
    cache: boolean;
    opfs: boolean;
    usage?: number;
    quota?: number;
    persisted: boolean | null;
  };
  models: ProbedModel[];
}
export interface GpuReport {
  available: boolean;
  reason: string | null;
  name: string | null;
  adapter: { vendor: string; architecture: string; device: string; description: string } | null;
  software: boolean;
  f16: boolean;
  subgroups: boolean;
  timestamps: boolean;
  limits: {
    maxBufferSize: number;
    maxStorageBufferBindingSize: number;
    maxStorageBuffersPerShaderStage: number;
    maxComputeWorkgroupStorageSize: number;
    maxComputeInvocationsPerWorkgroup: number;
    maxComputeWorkgroupsPerDimension: number;
  } | null;
}
export interface ProbedModel {
  id: string;
  bytes: number | null;
  neededBytes: number | null;
  problem: { code: string; message: string; param: string | null } | null;
  fits: "yes" | "perhaps" | "no";
  reason: string | null;
  stored: boolean;
  storable: boolean | null;
}

// types/prompt-api.d.ts
export interface LanguageModel {
  create(options?: LanguageModelCreateOptions): Promise<LanguageModelSession>;
  availability(options?: LanguageModelCoreOptions): Promise<"available" | "unavailable">;
}
export type LanguageModelSamplingMode = "most-predictable" | "predictable" | "balanced" | "creative" | "most-creative";
export interface LanguageModelCoreOptions {
  samplingMode?: LanguageModelSamplingMode;
  temperature?: number;
  topK?: number;
  expectedInputs?: LanguageModelExpected[];
  expectedOutputs?: LanguageModelExpected[];
  tools?: never[];
}
export interface LanguageModelCreateOptions extends LanguageModelCoreOptions {
  signal?: AbortSignal;
  monitor?: (monitor: EventTarget) => void;
  initialPrompts?: LanguageModelMessage[];
}
export interface LanguageModelExpected {
  type: "text" | "image" | "audio" | "tool-call" | "tool-response";
  languages?: string[];
}
export type LanguageModelPrompt = string | LanguageModelMessage[];
export interface LanguageModelMessage {
  role: "system" | "user" | "assistant";
  content: string | { type: LanguageModelExpected["type"]; value: unknown }[];
  prefix?: boolean;
}
export interface LanguageModelPromptOptions {
  responseConstraint?: object | null;
  omitResponseConstraintInput?: boolean;
  signal?: AbortSignal;
}
export interface LanguageModelSession extends EventTarget {
  prompt(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<string>;
  promptStreaming(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): ReadableStream<string>;
  append(input: LanguageModelPrompt, options?: { signal?: AbortSignal }): Promise<void>;
  measureContextUsage(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<number>;
  readonly contextUsage: number;
  readonly contextWindow: number;
  oncontextoverflow: EventListener | null;
  readonly samplingMode: LanguageModelSamplingMode;
  readonly temperature: number | undefined;
  readonly topK: number | undefined;
  clone(options?: { signal?: AbortSignal }): Promise<LanguageModelSession>;
  destroy(): void;
  measureInputUsage: LanguageModelSession["measureContextUsage"];
  readonly inputUsage: number;
  readonly inputQuota: number;
  onquotaoverflow: EventListener | null;
}

// types/requests.d.ts
export interface RequestOptions {
  signal?: AbortSignal;
  fallback?: boolean;
}
export interface TokenizeOptions {
  addSpecialTokens?: boolean;
  addGenerationPrompt?: boolean;
  signal?: AbortSignal;
}
export interface ModelCard {
  id: string;
  object: "model";
  created: number;
  owned_by: "tabloom";
}
export interface ModelList {
  object: "list";
  data: ModelCard[];
}
export interface EmbeddingParams {
  input: string | string[] | number[] | number[][];
  encoding_format?: "float" | "base64";
  pooling?: "last" | "mean";
  model?: string;
}
export interface EmbeddingResponse {
  object: "list";
  data: { object: "embedding"; index: number; embedding: number[] | string }[];
  model: string;
  served_by: "device" | "fallback";
  usage: { prompt_tokens: number; total_tokens: number };
}

// types/shared.d.ts
export interface SharedParams {
  stream?: boolean;
  stream_options?: { include_usage?: boolean };
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  seed?: number;
  n?: number;
  stop?: string | string[];
  response_format?: { type: "text" } | { type: "json_object" } | { type: "json_schema"; json_schema: NamedSchema };
  structured_outputs?: StructuredOutputs;
  presence_penalty?: number;
  frequency_penalty?: number;
  repetition_penalty?: number;
  logit_bias?: Record<string, number>;
  logprob_token_ids?: number[];
  prompt_logprobs?: number;
  allowed_token_ids?: number[];
  bad_words?: string[];
  include_stop_str_in_output?: boolean;
  skip_special_tokens?: boolean;
  stop_token_ids?: number[];
  ignore_eos?: boolean;
  min_tokens?: number;
  thinking_token_budget?: number;
  repetition_detection?: { max_pattern_size: number; min_pattern_size?: number; min_count: number };
  speculative_decoding?: boolean;
  model?: string;
}
interface NamedSchema {
  name?: string;
  description?: string;
  schema: object | boolean;
  strict?: boolean | null;
}
export interface SharedAnswer {
  id: string;
  created: number;
  model: string;
  served_by: "device" | "fallback";
}
export interface StructuredOutputs {
  json?: object | boolean;
  regex?: string;
  choice?: string[];
  grammar?: string;
  json_object?: boolean;
}

// types/store.d.ts
export interface StoredModel {
  model: string;
  store: "cache" | "opfs";
  files: number;
  bytes: number;
  complete: boolean;
  lastUsed: Date | null;
}
export interface StoreSize {
  bytes: number;
  usage?: number;
  quota?: number;
}

// types/tools.d.ts
export interface Tool {
  type: "function";
  function: {
    name: string;
    description?: string | null;
    parameters?: { [keyword: string]: unknown } | null;
    strict?: boolean | null;
  };
}
export interface NamedTool {
  type: "function";
  function: { name: string };
}
export type ToolChoice =
  | "none"
  | "auto"
  | "required"
  | NamedTool
  | { type: "allowed_tools"; allowed_tools: { mode: "auto" | "required"; tools: NamedTool[] } };
export interface ToolCall {
  id: string;
  type: "function";
  function: {
    name: string;
    arguments: string;
  };
}
export interface ToolCallDelta {
  index: number;
  id?: string;
  type?: "function";
  function: {
    name?: string;
    arguments: string;
  };
}

// worker.d.ts
export {};
