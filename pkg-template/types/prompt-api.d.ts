// The engine in the shape of the Prompt API.

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

/** How varied answers are; default `balanced`, the model's own sampling. */
export type LanguageModelSamplingMode = "most-predictable" | "predictable" | "balanced" | "creative" | "most-creative";

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

/** Kinds of input or output. */
export interface LanguageModelExpected {
  type: "text" | "image" | "audio" | "tool-call" | "tool-response";
  /** BCP 47; the model may not know them all. */
  languages?: string[];
}

/** What the user says, or messages. */
export type LanguageModelPrompt = string | LanguageModelMessage[];

export interface LanguageModelMessage {
  /** `system` only in the first message of a session. */
  role: "system" | "user" | "assistant";
  content: string | { type: LanguageModelExpected["type"]; value: unknown }[];
  /** The model continues this, the assistant's last message. */
  prefix?: boolean;
}

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

/**
 * A conversation. Prompts are answered in order; one that fails or is aborted leaves no trace. If one does
 * not fit, the oldest turns after the initial prompts are forgotten, with the events `contextoverflow` and
 * `quotaoverflow`; if that is not enough, it fails with `QuotaExceededError`.
 */
export interface LanguageModelSession extends EventTarget {
  prompt(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<string>;
  /** Answers in pieces; cancelling the stream cancels the prompt. */
  promptStreaming(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): ReadableStream<string>;
  /** Adds to the conversation; resolves when it is computed. */
  append(input: LanguageModelPrompt, options?: { signal?: AbortSignal }): Promise<void>;
  /** How many tokens a prompt would add. */
  measureContextUsage(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<number>;
  /** Tokens of the conversation so far. */
  readonly contextUsage: number;
  /** Most tokens of the conversation with another prompt, so that an answer has room. */
  readonly contextWindow: number;
  oncontextoverflow: EventListener | null;
  readonly samplingMode: LanguageModelSamplingMode;
  readonly temperature: number | undefined;
  readonly topK: number | undefined;
  /** A session with the same conversation. */
  clone(options?: { signal?: AbortSignal }): Promise<LanguageModelSession>;
  /** Ends the session; its prompts fail with `AbortError`. */
  destroy(): void;
  /** `measureContextUsage` by its older name. */
  measureInputUsage: LanguageModelSession["measureContextUsage"];
  /** `contextUsage` by its older name. */
  readonly inputUsage: number;
  /** `contextWindow` by its older name. */
  readonly inputQuota: number;
  onquotaoverflow: EventListener | null;
}
