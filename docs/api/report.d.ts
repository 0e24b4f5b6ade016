// element.d.ts
import { TEXTS } from "./element/texts.js";
export type TabloomChatMessage = import("./element/types.js").TabloomChatMessage;
export type TabloomChatState = import("./element/types.js").TabloomChatState;
export type TabloomChatEventMap = import("./element/types.js").TabloomChatEventMap;
export type CodeRenderer = import("./element/prose/renderers.js").CodeRenderer;
export type MathRenderer = import("./element/prose/renderers.js").MathRenderer;
export type Texts = typeof import("./element/view/later.js").ALL;
export type Engine = import("./index.js").Engine;
export type LoadOptions = import("./types.js").LoadOptions;
declare const Base: {
    new (): HTMLElement;
    prototype: HTMLElement;
};
export declare class TabloomChat extends Base {
    #private;
    static get texts(): typeof TEXTS & Partial<Texts>;
    static set texts(some: Partial<Texts>);
    static renderers: {
        code: import("./element/prose/renderers.js").CodeRenderer | null;
        math: import("./element/prose/renderers.js").MathRenderer | null;
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
    get workerUrl(): LoadOptions["workerUrl"] | null;
    set workerUrl(value: LoadOptions["workerUrl"] | null);
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
declare global {
    interface HTMLElementTagNameMap {
        "tabloom-chat": TabloomChat;
    }
}

// element/answering.d.ts
import type { Conversation } from "./conversation.js";
import type { Host } from "./host.js";
import type { TabloomChatMessage } from "./types.js";
import type { View } from "./view/view.js";
export type Chat = {
    view: View;
    conversation: Conversation;
    waiting?: {
        end: (well: boolean) => void;
    };
    update: () => void;
    fail: (error: any, redo?: () => void) => void;
    again: (i: number) => void;
};
export declare class Answering {
    #private;
    constructor(chat: Chat, host: Host);
    get busy(): boolean;
    stop(): void;
    drop(): void;
    answer(begun?: TabloomChatMessage): Promise<TabloomChatMessage | null>;
}
export declare function isGone(error: any): boolean;

// element/chat.d.ts
import { Engine } from "../index.js";
import { Conversation, Editing } from "./conversation.js";
import { View } from "./view/view.js";
import type { Host } from "./host.js";
import type { TabloomChatMessage, TabloomChatState } from "./types.js";
export declare class Chat {
    #private;
    readonly view: View;
    readonly conversation: Conversation;
    readonly editing: Editing;
    waiting: import("./waiting.js").Waiting | undefined;
    constructor(root: ShadowRoot, host: Host);
    get busy(): boolean;
    get occupied(): boolean;
    get said(): TabloomChatMessage[];
    get state(): TabloomChatState;
    show(messages: TabloomChatMessage[]): void;
    load(): Promise<Engine>;
    start(): void;
    autoload(): void;
    send(text: string, edited?: number): Promise<TabloomChatMessage | null>;
    stop(): void;
    clear(): void;
    leave(): void;
    fail(error: any, redo?: () => void): void;
    update(): void;
    again(i: number): void;
}

// element/conversation.d.ts
import type { TabloomChatMessage as Message } from "./types.js";
export declare class Conversation {
    #private;
    messages: Message[];
    forgotten: number;
    constructor(view: import("./view/view.js").View, keep: () => void);
    get question(): number;
    get remembered(): Message[];
    forget(): boolean;
    show(messages: Message[]): void;
    update(messages: Message[]): void;
    add(message: Message): void;
    branch(i: number): void;
    restore(): void;
    choose(i: number, version: number): void;
    keep(): void;
}
export declare class Editing {
    #private;
    constructor(view: import("./view/view.js").View, conversation: Conversation);
    begin(question: number): void;
    end(): void;
    take(): [content: string, edited?: number];
}

// element/dom.d.ts
export declare function html<K extends keyof HTMLElementTagNameMap>(name: K, attributes?: Record<string, string>, ...children: (Node | string)[]): HTMLElementTagNameMap[K];
export declare function icon(path: string): SVGSVGElement;
export declare function grow(field: HTMLElement, borders?: number): void;
export declare function morph(parent: Element, nodes: Node[], from?: number): void;

// element/history.d.ts
import type { TabloomChatMessage as Message } from "./types.js";
export declare class History {
    #private;
    constructor(storage: string | null, name: string, owner: Node, changed: () => void);
    get stale(): boolean;
    read(): Message[];
    write(messages: Message[]): unknown;
}
export declare function checked(messages: any): Message[];
export declare function wrong(where: string, found: unknown, expected: string): import("../error.js").TabloomError;

// element/host.d.ts
import type { Engine } from "../index.js";
import type { ChatCompletionChunk, ChatCompletionParams } from "../types.js";
import type { TabloomChatEventMap, TabloomChatState, Turn } from "./types.js";
import type { Message } from "./view/message.js";
export interface EngineSource {
  current: Engine | null;
  loading: boolean;
  load: () => Promise<Engine>;
  release: () => void;
  discard: () => void;
}
export interface Host {
  engine: EngineSource;
  prompt: (messages: Turn[]) => ChatCompletionParams["messages"];
  request: () => Omit<ChatCompletionParams, "messages">;
  keep: () => void;
  clear?: () => void;
  startable?: () => boolean;
  useProcessor?: () => void;
  onState?: (state: TabloomChatState) => void;
  onMessage?: (detail: TabloomChatEventMap["tabloom-message"]["detail"]) => void;
  onError?: (error: any) => void;
  onChunk?: (chunk: ChatCompletionChunk, message: Message) => void;
}

// element/parts.d.ts
export { isGone } from "./answering.js";
export { Chat } from "./chat.js";
export { grow, html, icon } from "./dom.js";
export { History, checked } from "./history.js";
export { Rendered } from "./prose/render.js";
export { RENDERERS } from "./prose/renderers.js";
export { unquote } from "./quotes.js";
export { TEXTS } from "./texts.js";
export { titleOf } from "./title.js";
export { amountOf } from "./view/amount.js";
export { Follower } from "./view/follower.js";
export { Message } from "./view/message.js";
export { sentenceOf } from "./view/problems.js";

// element/prose/render.d.ts
export declare class Rendered {
    #private;
    constructor(parent: Element);
    show(source: string, growing: boolean): Element[];
}

// element/prose/renderers.d.ts
export type CodeRenderer = (text: string, language: string) => Node | null | Promise<Node | null>;
export type MathRenderer = (tex: string, display: boolean) => Node | null | Promise<Node | null>;
export declare const RENDERERS: {
    code: CodeRenderer | null;
    math: MathRenderer | null;
};

// element/quotes.d.ts
export type Quote = {
    name: string;
    text: string;
};
export declare function quote(quotes: Quote[], text: string): string;
export declare function unquote(content: string): {
    quotes: Quote[];
    text: string;
};

// element/texts.d.ts
export declare const TEXTS: {
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
    copyQuestion: string;
    copyCode: string;
    edit: string;
    editing: string;
    cancel: string;
    again: string;
    continue: string;
    older: string;
    newer: string;
    latest: string;
    ready: string;
    thinking: string;
    length: string;
    full: string;
    stopped: string;
    forgotten: string;
    problem: string;
    retry: string;
    attach: string;
    read: string;
};

// element/texts/index.d.ts
export type Module = {
    default: typeof import("../view/later.js").ALL;
};
export declare function languageOf(languages?: readonly string[]): string;
export declare function textsFor(languages?: readonly string[]): Promise<Partial<Module["default"]>>;

// element/title.d.ts
export declare function titleOf(content: string): string;

// element/types.d.ts
import type { Engine } from "../index.js";
import type { ErrorCode, FinishReason, LoadOptions, Progress } from "../types.js";
export interface TabloomChatMessage {
  role: "user" | "assistant";
  content: string;
  end?: "stopped" | "length" | "full";
  versions?: (TabloomChatMessage[] | null)[];
}
export type Turn = { role: "user" | "assistant"; content: string };
export type TabloomChatState = "idle" | "loading" | "ready" | "busy" | "error";
export interface TabloomChatEventMap {
  "tabloom-load": CustomEvent<Progress>;
  "tabloom-ready": CustomEvent<{ engine: Engine }>;
  "tabloom-message": CustomEvent<{
    message: TabloomChatMessage;
    finishReason: FinishReason | "stopped" | null;
  }>;
  "tabloom-error": CustomEvent<{ error: Error & { code?: ErrorCode } }>;
}
export interface TabloomChatAttributes {
  model?: string;
  autoload?: boolean;
  system?: string;
  temperature?: number | string;
  "max-tokens"?: number | string;
  maxTokens?: number | null;
  device?: LoadOptions["device"];
  quantize?: LoadOptions["quantize"];
  "worker-url"?: string;
  placeholder?: string;
  storage?: "session" | "local";
  engine?: Engine | null;
  messages?: TabloomChatMessage[];
  workerUrl?: LoadOptions["workerUrl"];
}
export type TabloomChatHandlers = {
  [K in keyof TabloomChatEventMap as `on${K}`]?: (event: TabloomChatEventMap[K]) => void;
};
declare global {
  interface GlobalEventHandlersEventMap extends TabloomChatEventMap {}
}

// element/view/amount.d.ts
export declare function amountOf({ stage, loaded, total }: {
    stage: string;
    loaded: number;
    total: number;
}): string;
export declare function showAmount(status: Element, progress: {
    stage: string;
    loaded: number;
    total: number;
}): void;

// element/view/attachments.d.ts
import type { Owner } from "./types.js";
export declare const QUOTED: RegExp;
export declare class Attachments {
    #private;
    readonly list: HTMLUListElement;
    readonly picker: HTMLInputElement;
    readonly view: Owner;
    readonly area: HTMLElement;
    over: string;
    constructor(view: Owner, area: HTMLElement);
    get content(): string;
    set content(content: string);
    refresh(): void;
    add(files: File[]): void;
}

// element/view/follower.d.ts
export declare class Follower {
    #private;
    constructor(log: HTMLElement, onScroll: () => void);
    get following(): boolean;
    get distance(): number;
    follow(): void;
    stayAt(top: number): void;
    toEnd(): void;
}

// element/view/later.d.ts
export declare const ALL: {
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
    copyQuestion: string;
    copyCode: string;
    edit: string;
    editing: string;
    cancel: string;
    again: string;
    continue: string;
    older: string;
    newer: string;
    latest: string;
    ready: string;
    thinking: string;
    length: string;
    full: string;
    stopped: string;
    forgotten: string;
    problem: string;
    retry: string;
    attach: string;
    read: string;
} & {
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
    copyQuestion: string;
    copyCode: string;
    edit: string;
    editing: string;
    cancel: string;
    again: string;
    continue: string;
    older: string;
    newer: string;
    latest: string;
    ready: string;
    thinking: string;
    length: string;
    full: string;
    stopped: string;
    forgotten: string;
    problem: string;
    retry: string;
    attach: string;
    read: string;
    locale: string;
    copied: string;
    notCopied: string;
    next: string;
    connecting: string;
    download: string;
    compile: string;
    pondering: string;
    cleared: string;
    undo: string;
    unkept: string;
    attachments: string;
    attached: string;
    detach: string;
    pasted: string;
    asText: string;
    drop: string;
    characters: string;
    tokens: string;
    noText: string;
    pdf: string;
    picture: string;
    emptyFile: string;
    unreadable: string;
    tooLong: string;
    over: string;
    dictate: string;
    listening: string;
    notHeard: string;
    processor: string;
    noGpu: string;
    interrupted: string;
    unfetched: string;
    unusable: string;
    noChat: string;
    noMemory: string;
    gpuFailed: string;
    unstarted: string;
    ended: string;
    outgrown: string;
    crowded: string;
    refused: string;
    unexpected: string;
};

// element/view/message.d.ts
import type { TabloomChatMessage } from "../types.js";
import type { Owner } from "./types.js";
export declare class Message {
    #private;
    readonly said: TabloomChatMessage;
    readonly element: HTMLElement;
    readonly text: HTMLDivElement;
    constructor(said: TabloomChatMessage, view?: Pick<Owner, "actions" | "announce">);
    begin(): void;
    grow(): void;
    end(): void;
    mark({ recent, last, edited, voice, busy }: {
        recent: boolean;
        last: boolean;
        edited: boolean;
        voice: boolean;
        busy: boolean;
    }): void;
    show(): Element[];
}

// element/view/problems.d.ts
export declare function sentenceOf({ code, message, cause }: any): string;
export declare function showProblem(box: HTMLElement, error: any): void;

// element/view/types.d.ts
import type { Engine } from "../../index.js";
import type { ChatCompletionParams } from "../../types.js";
import type { Turn } from "../types.js";
export interface Actions
  extends Record<"send" | "stop" | "clear" | "start" | "cancel" | "continue" | "retry" | "processor", () => void>,
    Record<"again" | "edit", (i: number) => void> {
  version: (i: number, version: number) => void;
  engine: () => Engine | null;
  prompt: (messages: Turn[]) => ChatCompletionParams["messages"];
}
export interface Owner {
  readonly input: HTMLTextAreaElement;
  readonly actions: Pick<Actions, "engine" | "prompt">;
  tell(text?: string): void;
  announce(text: string): void;
  refresh(): void;
}

// element/view/view.d.ts
import { Attachments } from "./attachments.js";
import { Message } from "./message.js";
import type { TabloomChatMessage } from "../types.js";
import type { Actions } from "./types.js";
export declare class View {
    #private;
    readonly input: HTMLTextAreaElement;
    readonly actions: Actions;
    readonly attachments: Attachments;
    constructor(root: ShadowRoot, actions: Actions);
    set placeholder(text: string | null);
    set startable(shown: boolean);
    set busy(busy: boolean);
    set answering(busy: boolean);
    set loading(loading: boolean);
    get last(): Message;
    add(said: TabloomChatMessage): Message;
    show(messages: TabloomChatMessage[]): void;
    cut(from: number): void;
    toEnd(): void;
    progress(progress: {
        stage: string;
        loaded: number;
        total: number;
    } | null): void;
    problem(error: any): Promise<void>;
    set editing(i: number | null);
    set forgotten(count: number);
    get content(): string;
    set content(content: string);
    tell(text?: string): void;
    attempt(action: Promise<unknown>): void;
    hush(): boolean;
    announce(text: string): void;
    refresh(): void;
}

// element/waiting.d.ts
import type { Conversation } from "./conversation.js";
import type { Editing } from "./conversation.js";
import type { View } from "./view/view.js";
export type Chat = {
    view: View;
    conversation: Conversation;
    editing: Editing;
    waiting?: Waiting;
    occupied: boolean;
    send: (text: string, edited?: number) => unknown;
    update: () => void;
};
export declare function wait(chat: Chat): void;
export type Question = {
    content: string;
    edited?: number;
    note: HTMLElement;
};
export declare class Waiting {
    #private;
    constructor(chat: Chat);
    get any(): boolean;
    add(content: string, edited?: number): void;
    end(well: boolean): void;
    send(): void;
    back(questions?: Question[]): void;
}

// error.d.ts
import type { ErrorCode } from "./types.js";
export declare class TabloomError extends Error {
    code: ErrorCode;
    param: string | null;
    details: unknown;
    constructor({ code, message, param, details }: {
        code: ErrorCode;
        message: string;
        param?: string | null;
        details?: unknown;
    });
}
export declare function invalid(param: string, problem: string): TabloomError;
export declare function kindOf(value: unknown): string;
export declare function crashed(what: string): TabloomError;
export declare function noHost(host: string, reason: string, advice?: string): TabloomError;
export declare class Silence extends TabloomError {
    constructor();
}
export declare class Gone extends TabloomError {
    moved: boolean;
    constructor();
}
export declare class Departure extends Error {
}

// index.d.ts
import { TabloomError } from "./error.js";
import { Models } from "./models/kept.js";
export { TabloomError };
export * from "./types.js";
import type { EngineInfo, EngineMetrics, LanguageModel, LoadOptions, ModelList, ModelSource, Probe, ProbeOptions } from "./types.js";
import type { Serving } from "./calls/calls.js";
import type { ChatMessageParam, CreateChatCompletion, CreateCompletion, CreateEmbedding, TokenizeOptions } from "./types.js";
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
    static get store(): Models;
    static get interrupted(): boolean;
    static load(source: ModelSource, options?: LoadOptions | null): Promise<Engine>;
    static probe(options?: ProbeOptions | null): Promise<Probe>;
    constructor(session: Serving, told: Pick<EngineInfo, "name" | "budgetBytes" | "budgetReason">);
    get info(): EngineInfo;
    get host(): import("./types.js").HostKind | null;
    metrics(): Promise<EngineMetrics>;
    tokenize(input: string | readonly ChatMessageParam[], options?: TokenizeOptions | null): Promise<number[]>;
    countTokens(input: string | readonly ChatMessageParam[], options?: TokenizeOptions | null): Promise<number>;
    detokenize(tokens: Iterable<number>, options?: {
        signal?: AbortSignal;
    } | null): Promise<string>;
    applyChatTemplate(messages: readonly ChatMessageParam[], options?: TokenizeOptions | null): Promise<string>;
    languageModel(): LanguageModel;
    close(): void;
    release(): void;
}
declare class Completions {
    #private;
    constructor(session: Serving);
    create: CreateChatCompletion;
}
declare class TextCompletions {
    #private;
    constructor(session: Serving);
    create: CreateCompletion;
}
declare class LoadedModels {
    #private;
    constructor(session: Serving);
    list(): Promise<ModelList>;
}
declare class Embeddings {
    #private;
    constructor(session: Serving);
    create: CreateEmbedding;
}

// models/kept.d.ts
import type { StoreSize, StoredModel } from "../types.js";
export declare class Models {
    list(): Promise<StoredModel[]>;
    size(): Promise<StoreSize>;
    delete(model: string | URL, options?: import("../types.js").NameOptions | null): Promise<boolean>;
    deletePrefixes(): Promise<void>;
}

// prompt-api.d.ts
export { LanguageModelToolCall, LanguageModelToolError, LanguageModelToolSuccess, } from "./prompt-api/tool-messages.js";
import type { LanguageModel, LanguageModelLoadOptions, ModelSource } from "./types.js";
export declare function languageModel(source: ModelSource, options?: LanguageModelLoadOptions | null): LanguageModel;

// prompt-api/tool-messages.d.ts
export declare class LanguageModelToolCall {
    callId: string;
    name: string;
    arguments: object;
    constructor({ callId, name, arguments: given }: {
        callId: string;
        name: string;
        arguments?: object;
    });
    get [Symbol.toStringTag](): string;
}
export declare class LanguageModelToolSuccess {
    callId: string;
    name: string;
    result: readonly {
        type: "text" | "object";
        value: unknown;
    }[];
    constructor({ callId, name, result }: {
        callId: string;
        name: string;
        result: Iterable<{
            type: "text" | "object";
            value: unknown;
        }>;
    });
    get [Symbol.toStringTag](): string;
}
export declare class LanguageModelToolError {
    callId: string;
    name: string;
    errorMessage: string;
    constructor({ callId, name, errorMessage }: {
        callId: string;
        name: string;
        errorMessage: string;
    });
    get [Symbol.toStringTag](): string;
}

// react.d.ts
import type { DetailedHTMLProps, HTMLAttributes } from "react";
import type { TabloomChat } from "./element.js";
import type { TabloomChatAttributes, TabloomChatHandlers } from "./element/types.js";
declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "tabloom-chat": DetailedHTMLProps<HTMLAttributes<TabloomChat>, TabloomChat> &
        TabloomChatAttributes &
        TabloomChatHandlers;
    }
  }
}

// svelte.d.ts
import type { HTMLAttributes } from "svelte/elements";
import type { TabloomChat } from "./element.js";
import type { TabloomChatAttributes, TabloomChatHandlers } from "./element/types.js";
declare module "svelte/elements" {
  interface SvelteHTMLElements {
    "tabloom-chat": HTMLAttributes<TabloomChat> & TabloomChatAttributes & TabloomChatHandlers;
  }
}

// types.d.ts
export * from "./types/chat.js";
export * from "./types/completions.js";
export * from "./types/errors.js";
export * from "./types/load.js";
export * from "./types/metrics.js";
export * from "./types/probe.js";
export * from "./types/prompt-api.js";
export * from "./types/requests.js";
export type { StructuredOutputs } from "./types/shared.js";
export * from "./types/store.js";
export * from "./types/tools.js";

// types/chat.d.ts
import type { RequestOptions } from "./requests.js";
import type { SharedAnswer, SharedParams } from "./shared.js";
import type { CustomTool, Tool, ToolCall, ToolCallDelta, ToolChoice } from "./tools.js";
export type ChatContent = string | TextPart[];
export interface TextPart {
  type: "text";
  text: string;
}
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
export type ChatMessageParam =
  | { role: "system" | "developer"; content: string | readonly TextPart[]; name?: string | null }
  | { role: "user"; content: string | readonly (TextPart | OtherPart)[]; name?: string | null }
  | AssistantMessageParam
  | { role: "tool"; tool_call_id: string; content: string | readonly TextPart[]; name?: string | null }
  | FunctionMessage;
export interface OtherPart {
  type: "image_url" | "input_audio" | "file";
}
export interface AssistantMessageParam extends Omit<AssistantMessage, "content" | "tool_calls" | "prefix"> {
  content?: string | readonly (TextPart | { type: "refusal"; refusal: string })[] | null;
  tool_calls?: readonly (ToolCall | CustomTool)[] | null;
  name?: string | null;
  prefix?: boolean | null;
}
export interface FunctionMessage {
  role: "function";
  name: string;
  content: string | null;
}
export interface ChatCompletionParams extends SharedParams {
  messages: readonly ChatMessageParam[];
  max_completion_tokens?: number | null;
  max_tokens?: number | null;
  tools?: readonly (Tool | CustomTool)[] | null;
  tool_choice?: ToolChoice | null;
  parallel_tool_calls?: boolean | null;
  reasoning_effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null;
  chat_template_kwargs?: Record<string, unknown> | null;
  continue_final_message?: boolean | null;
  logprobs?: boolean | null;
  top_logprobs?: number | null;
  metadata?: Record<string, string> | null;
  safety_identifier?: string | null;
  prompt_cache_key?: string | null;
  prompt_cache_retention?: string | null;
  service_tier?: string | null;
  store?: boolean | null;
  verbosity?: "low" | "medium" | "high" | null;
  modalities?: readonly string[] | null;
}
export interface ChatCompletionParamsStreaming extends ChatCompletionParams {
  stream: true;
}
export interface ChatCompletionParamsNonStreaming extends ChatCompletionParams {
  stream?: false | null;
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
export type FinishReason = "stop" | "length" | "tool_calls";
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
export interface CreateChatCompletion {
  (params: ChatCompletionParamsNonStreaming, options?: RequestOptions | null): Promise<ChatCompletion>;
  (
    params: ChatCompletionParamsStreaming,
    options?: RequestOptions | null,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
  (
    params: ChatCompletionParams,
    options?: RequestOptions | null,
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>>;
}

// types/completions.d.ts
import type { TokenLogprob, Usage } from "./chat.js";
import type { RequestOptions } from "./requests.js";
import type { SharedAnswer, SharedParams } from "./shared.js";
export interface CompletionParams extends SharedParams {
  prompt: string | readonly string[] | readonly number[] | readonly (readonly number[])[] | null;
  max_tokens?: number | null;
  echo?: boolean | null;
  logprobs?: number | null;
  best_of?: number | null;
  add_special_tokens?: boolean | null;
}
export interface CompletionParamsStreaming extends CompletionParams {
  stream: true;
}
export interface CompletionParamsNonStreaming extends CompletionParams {
  stream?: false | null;
}
export interface CompletionLogprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: (Record<string, number> | null)[];
  text_offset: number[];
}
export interface AnswerLogprobs extends CompletionLogprobs {
  token_logprobs: number[];
  top_logprobs: Record<string, number>[];
}
export interface CompletionChoice {
  index: number;
  text: string;
  logprobs: CompletionLogprobs | null;
  finish_reason: "stop" | "length" | null;
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
  choices: (CompletionChoice & { finish_reason: "stop" | "length" })[];
  usage: Usage;
}
export interface AnswerCompletion extends Completion {
  choices: (CompletionChoice & { finish_reason: "stop" | "length"; logprobs: AnswerLogprobs | null })[];
}
export interface CreateCompletion {
  (
    params: CompletionParamsNonStreaming & { echo?: false | null },
    options?: RequestOptions | null,
  ): Promise<AnswerCompletion>;
  (params: CompletionParamsNonStreaming, options?: RequestOptions | null): Promise<Completion>;
  (params: CompletionParamsStreaming, options?: RequestOptions | null): Promise<AsyncIterableIterator<CompletionChunk>>;
  (
    params: CompletionParams,
    options?: RequestOptions | null,
  ): Promise<Completion | AsyncIterableIterator<CompletionChunk>>;
}

// types/errors.d.ts
export type ErrorCode =
  | "no_gpu"
  | "too_large"
  | "out_of_memory"
  | "over_budget"
  | "device_lost"
  | "device_lost_again"
  | "load_interrupted"
  | "pipeline"
  | "gpu"
  | "no_host"
  | "start_failed"
  | "engine_crashed"
  | "version_mismatch"
  | "handshake"
  | "closed"
  | "aborted"
  | "fetch"
  | "missing_part"
  | "malformed"
  | "truncated"
  | "integrity"
  | "unsupported_architecture"
  | "invalid_config"
  | "missing_tensor"
  | "wrong_tensor"
  | "tokenizer"
  | "model_busy"
  | "invalid_request"
  | "context_length_exceeded"
  | "queue_full"
  | "no_token_allowed"
  | "template"
  | "numerical"
  | "not_found"
  | "method_not_allowed"
  | "model_not_found"
  | "server_error";

// types/load.d.ts
export interface Progress {
  stage: "start" | "download" | "compile";
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
  prefixCache?: { hostBytes?: number; storedBytes?: number };
  slidingWindow?: { sinks?: number; tokens: number };
  speculation?: boolean | { maxDrafts?: number };
  draft?: boolean | string | URL | { earlyExit: number };
  host?: "auto" | HostKind;
  isolation?: "shared" | "tab" | { session: string };
  budgetBytes?: number;
  gpu?: GpuFeatures;
  store?: "cache" | "opfs" | "none";
  crossOriginStorage?: "public" | "all" | "none";
  persist?: boolean;
  integrity?: Manifest;
  fallback?: FallbackOptions;
  onProgress?: (progress: Progress) => void;
  signal?: AbortSignal | null | undefined;
  workerUrl?: string | { toString(): string };
}
export interface GpuFeatures {
  subgroups?: boolean;
}
export type BudgetReason = "option" | "ios" | "android" | "desktop";
export interface FallbackOptions {
  baseURL: string | URL;
  model: string;
  apiKey?: string | (() => string | undefined | Promise<string | undefined>);
  when?: readonly FallbackReason[] | ((reason: FallbackReason) => boolean);
}
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
  name: string | null;
  architecture: string;
  device: "gpu" | "cpu" | "none";
  adapter: string;
  software: boolean;
  context: number;
  weightBytes: number;
  budgetBytes: number;
  budgetReason: BudgetReason;
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
  restored_tokens: number;
  stored_tokens: number;
  host_cache_usage_perc: number;
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
  restored_tokens: number;
  stored_tokens: number;
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
import type { ErrorCode } from "./errors.js";
import type { BudgetReason, LoadOptions, NameOptions } from "./load.js";
export interface ProbeOptions extends Pick<NameOptions, "hub" | "registry"> {
  models?: ModelToProbe[];
  kvBytes?: number;
  budgetBytes?: number;
  signal?: AbortSignal | null | undefined;
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
    budgetReason: BudgetReason;
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
  problem: { code: ErrorCode; message: string; param: string | null } | null;
  fits: "yes" | "perhaps" | "no";
  reason: string | null;
  stored: boolean;
  storable: boolean | null;
}

// types/prompt-api.d.ts
import type { LoadOptions } from "./load.js";
export type LanguageModelAvailability = "unavailable" | "downloadable" | "downloading" | "available";
export interface LanguageModel {
  readonly prototype: LanguageModelSession;
  [Symbol.hasInstance](value: unknown): value is LanguageModelSession<any>;
  create<Answer extends string | LanguageModelContent[] = string>(
    options?: LanguageModelCreateOptions,
  ): Promise<LanguageModelSession<Answer>>;
  availability(options?: LanguageModelCoreOptions): Promise<LanguageModelAvailability>;
}
export interface LanguageModelLoadOptions extends Omit<LoadOptions, "onProgress" | "signal" | "fallback"> {
  preferBrowser?: boolean;
  browserRules?: boolean;
}
export type LanguageModelSamplingMode =
  | "most-predictable"
  | "predictable"
  | "slightly-predictable"
  | "balanced"
  | "slightly-creative"
  | "creative"
  | "most-creative";
export interface LanguageModelThinking {
  effort?: "none" | "minimal" | "low" | "medium" | "high";
  includeThoughts?: boolean;
}
export interface LanguageModelTool {
  name: string;
  description: string;
  inputSchema: object;
  execute?: (args: any) => unknown;
}
export interface LanguageModelCoreOptions {
  samplingMode?: LanguageModelSamplingMode;
  temperature?: number;
  topK?: number;
  expectedInputs?: Iterable<LanguageModelExpected>;
  expectedOutputs?: Iterable<LanguageModelExpected>;
  tools?: Iterable<LanguageModelTool>;
  thinking?: LanguageModelThinking;
}
export interface LanguageModelCreateOptions extends LanguageModelCoreOptions {
  signal?: AbortSignal;
  monitor?: (monitor: LanguageModelMonitor) => unknown;
  initialPrompts?: Iterable<LanguageModelMessage>;
}
export interface LanguageModelMonitor extends EventTarget {
  ondownloadprogress: ((event: ProgressEvent) => unknown) | null;
  addEventListener(
    type: "downloadprogress",
    listener: (event: ProgressEvent) => unknown,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
}
export interface LanguageModelExpected {
  type: "text" | "image" | "audio" | "tool-call" | "tool-response";
  languages?: Iterable<string>;
}
export type LanguageModelPrompt = string | Iterable<LanguageModelMessage>;
export interface LanguageModelMessage {
  role: "system" | "user" | "assistant";
  content: string | Iterable<{ type: LanguageModelExpected["type"]; value: unknown }>;
  prefix?: boolean;
}
export type LanguageModelContent =
  | { type: "text" | "thought"; value: string }
  | { type: "tool-call"; value: { readonly callId: string; readonly name: string; readonly arguments: object } };
export interface LanguageModelPromptOptions {
  responseConstraint?: object | null;
  omitResponseConstraintInput?: boolean;
  signal?: AbortSignal;
}
type Handler = ((event: Event) => unknown) | object | null;
export interface LanguageModelSession<Answer extends string | LanguageModelContent[] = string> extends EventTarget {
  prompt(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<Answer>;
  promptStreaming(
    input: LanguageModelPrompt,
    options?: LanguageModelPromptOptions,
  ): ReadableStream<Answer extends string ? string : LanguageModelContent>;
  append(input: LanguageModelPrompt, options?: { signal?: AbortSignal }): Promise<void>;
  measureContextUsage(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<number>;
  readonly contextUsage: number;
  readonly contextWindow: number;
  oncontextoverflow: Handler;
  readonly samplingMode: LanguageModelSamplingMode | null;
  readonly temperature: number | undefined;
  readonly topK: number | undefined;
  clone(options?: { signal?: AbortSignal }): Promise<LanguageModelSession<Answer>>;
  destroy(): void;
  measureInputUsage: LanguageModelSession["measureContextUsage"];
  readonly inputUsage: number;
  readonly inputQuota: number;
  onquotaoverflow: Handler;
}

// types/requests.d.ts
import type { CustomTool, Tool } from "./tools.js";
export interface RequestOptions {
  signal?: AbortSignal | null | undefined;
  fallback?: boolean;
}
export interface TokenizeOptions {
  addSpecialTokens?: boolean;
  addGenerationPrompt?: boolean;
  tools?: readonly (Tool | CustomTool)[] | null;
  chatTemplateKwargs?: Record<string, unknown>;
  signal?: AbortSignal | null | undefined;
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
  input: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  encoding_format?: "float" | "base64" | null;
  pooling?: "last" | "mean" | null;
  model?: string | null;
  user?: string | null;
}
export interface EmbeddingResponse<Embedding = number[]> {
  object: "list";
  data: { object: "embedding"; index: number; embedding: Embedding }[];
  model: string;
  served_by: "device" | "fallback";
  usage: { prompt_tokens: number; total_tokens: number };
}
export interface CreateEmbedding {
  (
    params: EmbeddingParams & { encoding_format?: "float" | null },
    options?: RequestOptions | null,
  ): Promise<EmbeddingResponse>;
  (
    params: EmbeddingParams & { encoding_format: "base64" },
    options?: RequestOptions | null,
  ): Promise<EmbeddingResponse<string>>;
  (params: EmbeddingParams, options?: RequestOptions | null): Promise<EmbeddingResponse<number[] | string>>;
}

// types/shared.d.ts
export interface SharedParams {
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean | null } | null;
  temperature?: number | null;
  top_p?: number | null;
  top_k?: number | null;
  min_p?: number | null;
  seed?: number | null;
  n?: number | null;
  stop?: string | readonly string[] | null;
  response_format?:
    | { type: "text" }
    | { type: "json_object"; schema?: object | string | null }
    | { type: "json_schema"; json_schema: NamedSchema }
    | null;
  structured_outputs?: StructuredOutputs | null;
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  repetition_penalty?: number | null;
  logit_bias?: Record<string, number> | null;
  logprob_token_ids?: readonly number[] | null;
  prompt_logprobs?: number | null;
  allowed_token_ids?: readonly number[] | null;
  bad_words?: readonly string[] | null;
  include_stop_str_in_output?: boolean | null;
  skip_special_tokens?: boolean | null;
  stop_token_ids?: readonly number[] | null;
  ignore_eos?: boolean | null;
  min_tokens?: number | null;
  thinking_token_budget?: number | null;
  repetition_detection?: { max_pattern_size: number; min_pattern_size?: number; min_count: number } | null;
  speculative_decoding?: boolean | null;
  model?: string | null;
  user?: string | null;
}
interface NamedSchema {
  name?: string | null;
  description?: string | null;
  schema?: object | boolean | null;
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
  choice?: readonly string[];
  grammar?: string;
  json_object?: boolean;
  disable_any_whitespace?: boolean;
  prefix?: string;
}

// types/store.d.ts
export interface StoredModel {
  model: string;
  store: "cache" | "opfs";
  files: number;
  bytes: number;
  sharedBytes: number;
  prefixBytes: number;
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
    parameters?: { readonly [keyword: string]: unknown } | null;
    strict?: boolean | null;
  };
}
export interface CustomTool {
  type: "custom";
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
  | CustomTool
  | { type: "allowed_tools"; allowed_tools: { mode: "auto" | "required"; tools: readonly AllowedTool[] } };
type AllowedTool = NamedTool | { readonly [field: string]: unknown };
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

// vue.d.ts
import type { EmitFn, HTMLAttributes } from "vue";
import type { TabloomChat } from "./element.js";
import type { TabloomChatAttributes, TabloomChatEventMap } from "./element/types.js";
type Component = new () => TabloomChat & {
  $props: HTMLAttributes & TabloomChatAttributes;
  $emit: EmitFn<{ [K in keyof TabloomChatEventMap]: (event: TabloomChatEventMap[K]) => void }>;
};
declare module "vue" {
  interface GlobalComponents {
    "tabloom-chat": Component;
    TabloomChat: Component;
  }
}

// worker.d.ts
export {};
