// The engine in the shape of the Prompt API.
import type { LoadOptions } from "./load.js";

/** Whether sessions can be created, at once or after a download. */
export type LanguageModelAvailability = "unavailable" | "downloadable" | "downloading" | "available";

/** The Prompt API's class `LanguageModel`: its instances are sessions, which `create` gives and `new` does not. */
export interface LanguageModel {
  readonly prototype: LanguageModelSession;
  // biome-ignore lint/suspicious/noExplicitAny: whatever its answers are.
  [Symbol.hasInstance](value: unknown): value is LanguageModelSession<any>;
  /**
   * Begins a session. Rejects as the Prompt API says: `NotSupportedError` for what the model does not have,
   * `QuotaExceededError` where the initial prompts do not fit, with the signal's reason when aborted.
   *
   * Answers are texts, or lists of contents where the options ask for thoughts or for calls of tools that the
   * page carries out: `create<LanguageModelContent[]>(…)`.
   */
  create<Answer extends string | LanguageModelContent[] = string>(
    options?: LanguageModelCreateOptions,
  ): Promise<LanguageModelSession<Answer>>;
  /**
   * Whether {@link create} could begin a session with these options; `unavailable` also where it would refuse what
   * they ask for. Rejects where they are none of the API's.
   */
  availability(options?: LanguageModelCoreOptions): Promise<LanguageModelAvailability>;
}

/** Options of `languageModel` of `tabloom/prompt-api`. */
export interface LanguageModelLoadOptions extends Omit<LoadOptions, "onProgress" | "signal" | "fallback"> {
  /** Leaves sessions to the browser's own `LanguageModel` where that is available without a download. */
  preferBrowser?: boolean;
  /**
   * Refuses pages what browsers refuse them: `temperature` and `topK` count for nothing, a session that would download
   * the model needs a click or key of the visitor before (`NotAllowedError`), and a frame of another origin needs
   * `allow="language-model"` (`NotAllowedError`, where the browser tells of it). Default false.
   */
  browserRules?: boolean;
}

/** How varied answers are; default `balanced`, the model's own sampling. */
export type LanguageModelSamplingMode =
  | "most-predictable"
  | "predictable"
  | "slightly-predictable"
  | "balanced"
  | "slightly-creative"
  | "creative"
  | "most-creative";

/** Whether a model that can think does so before it answers. */
export interface LanguageModelThinking {
  /** How much, as far as the model's chat template knows; default `none`. */
  effort?: "none" | "minimal" | "low" | "medium" | "high";
  /** Answers are lists of contents, with what the model thought as type `thought`. */
  includeThoughts?: boolean;
}

/** A function that the model may call. */
export interface LanguageModelTool {
  /** 1 to 64 letters, digits, `_` and `-`; unique. */
  name: string;
  /** What it does, for the model. */
  description: string;
  /** The JSON schema of its arguments, of type `object`. */
  inputSchema: object;
  /**
   * Carries out a call: its text goes to the model, or the JSON of an object, of which browsers make
   * "[object Object]"; what it throws ends the prompt. Without it in any tool, the
   * page carries out calls: they are contents of the answer, and their results of a later prompt.
   */
  // biome-ignore lint/suspicious/noExplicitAny: the schema says what it takes.
  execute?: (args: any) => unknown;
}

export interface LanguageModelCoreOptions {
  /** Goes before `temperature` and `topK`. */
  samplingMode?: LanguageModelSamplingMode;
  /** 0 is greedy; more than 2 is 2. */
  temperature?: number;
  /** At least 1. */
  topK?: number;
  /** Besides text, `tool-call` and `tool-response` where prompts have them. */
  expectedInputs?: Iterable<LanguageModelExpected>;
  /** Besides text, `tool-call` where the page carries out calls. */
  expectedOutputs?: Iterable<LanguageModelExpected>;
  /** Beside them, `responseConstraint` can be a JSON schema: an answer that calls none of them keeps to it. */
  tools?: Iterable<LanguageModelTool>;
  thinking?: LanguageModelThinking;
}

export interface LanguageModelCreateOptions extends LanguageModelCoreOptions {
  /** Ends creation, and later the session. */
  signal?: AbortSignal;
  /** Gets what fires `downloadprogress`. */
  monitor?: (monitor: LanguageModelMonitor) => unknown;
  /** How the conversation begins; it is never forgotten. */
  initialPrompts?: Iterable<LanguageModelMessage>;
}

/** The Prompt API's `CreateMonitor`. */
export interface LanguageModelMonitor extends EventTarget {
  /** Its events have how much is loaded as `loaded`, from 0 to 1. */
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

/** Kinds of input or output. */
export interface LanguageModelExpected {
  type: "text" | "image" | "audio" | "tool-call" | "tool-response";
  /** BCP 47; the model may not know them all. */
  languages?: Iterable<string>;
}

/** What the user says, or messages. */
export type LanguageModelPrompt = string | Iterable<LanguageModelMessage>;

export interface LanguageModelMessage {
  /** `system` only in the first message of a session. */
  role: "system" | "user" | "assistant";
  content: string | Iterable<{ type: LanguageModelExpected["type"]; value: unknown }>;
  /** The model continues this, the assistant's last message. */
  prefix?: boolean;
}

/** A part of an answer. */
export type LanguageModelContent =
  | { type: "text" | "thought"; value: string }
  | { type: "tool-call"; value: { readonly callId: string; readonly name: string; readonly arguments: object } };

export interface LanguageModelPromptOptions {
  /**
   * A JSON schema or regular expression that the answer matches. `NotSupportedError` if the engine cannot
   * enforce it, `SyntaxError` if the answer ends too early.
   */
  responseConstraint?: object | null;
  /** Leaves the constraint out of the prompt. */
  omitResponseConstraintInput?: boolean;
  signal?: AbortSignal;
}

/** A function, or an object that is kept and never called. */
type Handler = ((event: Event) => unknown) | object | null;

/**
 * A conversation. Prompts are answered in order; one that fails or is aborted leaves no trace. If one does
 * not fit, or its answer, the oldest turns after the initial prompts are forgotten, with the events `contextoverflow`
 * and `quotaoverflow`; if that is not enough for a prompt, it fails with `QuotaExceededError`.
 */
export interface LanguageModelSession<Answer extends string | LanguageModelContent[] = string> extends EventTarget {
  prompt(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<Answer>;
  /** Answers in pieces; cancelling the stream cancels the prompt. */
  promptStreaming(
    input: LanguageModelPrompt,
    options?: LanguageModelPromptOptions,
  ): ReadableStream<Answer extends string ? string : LanguageModelContent>;
  /** Adds to the conversation; resolves when it is computed. */
  append(input: LanguageModelPrompt, options?: { signal?: AbortSignal }): Promise<void>;
  /** How many tokens a prompt would add. */
  measureContextUsage(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<number>;
  /** Tokens of the conversation so far. */
  readonly contextUsage: number;
  /** Most tokens of the conversation with another prompt, so that an answer has room. */
  readonly contextWindow: number;
  oncontextoverflow: Handler;
  /** Null where `temperature` or `topK` were named. */
  readonly samplingMode: LanguageModelSamplingMode | null;
  readonly temperature: number | undefined;
  readonly topK: number | undefined;
  /** A session with the same conversation. */
  clone(options?: { signal?: AbortSignal }): Promise<LanguageModelSession<Answer>>;
  /** Ends the session; its prompts fail with `AbortError`. */
  destroy(): void;
  /** `measureContextUsage` by its older name. */
  measureInputUsage: LanguageModelSession["measureContextUsage"];
  /** `contextUsage` by its older name. */
  readonly inputUsage: number;
  /** `contextWindow` by its older name. */
  readonly inputQuota: number;
  onquotaoverflow: Handler;
}
