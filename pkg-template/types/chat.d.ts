// Chat completions, in OpenAI's shapes.
import type { RequestOptions } from "./requests.js";
import type { SharedAnswer, SharedParams } from "./shared.js";
import type { CustomTool, Tool, ToolCall, ToolCallDelta, ToolChoice } from "./tools.js";

/** A text, whole or in parts. */
export type ChatContent = string | TextPart[];

/** A text that is part of a message. */
export interface TextPart {
  type: "text";
  text: string;
}

/** A message of a conversation; it can be assigned to OpenAI's. */
export type ChatMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** Instructions from the application. */
export interface SystemMessage {
  role: "system" | "developer";
  content: ChatContent;
}

/** A message of the person. */
export interface UserMessage {
  role: "user";
  content: ChatContent;
}

/**
 * What the model said. If it is the last message, the model continues it, and the answer has only what
 * follows (see `continue_final_message`).
 */
export interface AssistantMessage {
  role: "assistant";
  /** May be null, or left out, where tools are called. */
  content?: ChatContent | null;
  /** What the model thought before it answered; chat templates keep or drop it. */
  reasoning_content?: string | null;
  /** The same, as vLLM and OpenRouter name it; `reasoning_content` counts where both have a text. */
  reasoning?: string | null;
  /** The tools it called; messages of role `tool` have the results. */
  tool_calls?: ToolCall[];
  /** The model continues this message, the last one. */
  prefix?: boolean;
  /** What it said instead of an answer; the text where there is no other. */
  refusal?: string | null;
}

/** The result of a call in an earlier message. */
export interface ToolMessage {
  role: "tool";
  /** The `id` of the call; each call has one result. */
  tool_call_id: string;
  content: ChatContent;
  /** The tool's name. */
  name?: string;
}

/**
 * A message as requests take it: ours or OpenAI's, whose lists may be read-only. What of OpenAI's is not supported is
 * refused by its place.
 */
export type ChatMessageParam =
  | { role: "system" | "developer"; content: string | readonly TextPart[]; name?: string | null }
  | { role: "user"; content: string | readonly (TextPart | OtherPart)[]; name?: string | null }
  | AssistantMessageParam
  | { role: "tool"; tool_call_id: string; content: string | readonly TextPart[]; name?: string | null }
  | FunctionMessage;

/** What of OpenAI's is no text, and is refused. */
export interface OtherPart {
  type: "image_url" | "input_audio" | "file";
}

/** What the model said, as requests take it. */
export interface AssistantMessageParam extends Omit<AssistantMessage, "content" | "tool_calls" | "prefix"> {
  content?: string | readonly (TextPart | { type: "refusal"; refusal: string })[] | null;
  tool_calls?: readonly (ToolCall | CustomTool)[] | null;
  name?: string | null;
  prefix?: boolean | null;
}

/** OpenAI's older kind of a tool's result, which is refused. */
export interface FunctionMessage {
  role: "function";
  name: string;
  content: string | null;
}

export interface ChatCompletionParams extends SharedParams {
  messages: readonly ChatMessageParam[];
  max_completion_tokens?: number | null;
  max_tokens?: number | null;
  /** Functions that the model may call, at most 128. `response_format` is for answers that call none of them. */
  tools?: readonly (Tool | CustomTool)[] | null;
  tool_choice?: ToolChoice | null;
  /** Whether an answer may have several calls; default true. */
  parallel_tool_calls?: boolean | null;
  /** How much the model thinks, as far as its chat template knows; `none` turns it off (Qwen3). */
  reasoning_effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null;
  /** More variables of the chat template, such as `{ enable_thinking: false }`. */
  chat_template_kwargs?: Record<string, unknown> | null;
  /**
   * Whether the model continues a last message of the assistant; default true if that has a text and
   * calls no tools. If not, the model begins another turn.
   */
  continue_final_message?: boolean | null;
  /** Gives the log-probability of each token, before penalties, bias and filters. */
  logprobs?: boolean | null;
  /** 0 to 20 of the likeliest tokens in the place of each. */
  top_logprobs?: number | null;
  /**
   * Labels of OpenAI's, wishes about its caches and the like: taken where they ask for nothing, refused where they ask
   * for something (`verbosity` other than "medium", `store: true`); the reference has their values.
   */
  metadata?: Record<string, string> | null;
  safety_identifier?: string | null;
  prompt_cache_key?: string | null;
  prompt_cache_retention?: string | null;
  service_tier?: string | null;
  store?: boolean | null;
  verbosity?: "low" | "medium" | "high" | null;
  modalities?: readonly string[] | null;
}

/** Parameters of an answer in chunks. */
export interface ChatCompletionParamsStreaming extends ChatCompletionParams {
  stream: true;
}

/** Parameters of a whole answer. */
export interface ChatCompletionParamsNonStreaming extends ChatCompletionParams {
  stream?: false | null;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  /** Tokens of the prompt that were found in the prefix cache. */
  prompt_tokens_details: { cached_tokens: number };
  completion_tokens_details: {
    /** Draft tokens that were accepted. */
    accepted_prediction_tokens: number;
    /** Draft tokens that were rejected. */
    rejected_prediction_tokens: number;
    /** Tokens of what the model thought before it answered. */
    reasoning_tokens: number;
  };
}

/**
 * Why an answer ended; `tool_calls`: the model waits for the results of its calls. With `repetition_detection` it may
 * be "repetition", too: that is no type here, as answers are to have OpenAI's types, which lack it.
 */
export type FinishReason = "stop" | "length" | "tool_calls";

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

export interface ChatCompletionChunk extends SharedAnswer {
  object: "chat.completion.chunk";
  choices: {
    index: number;
    delta: {
      role?: "assistant";
      content?: string;
      /** More of what the model thinks before it answers. */
      reasoning_content?: string;
      tool_calls?: ToolCallDelta[];
    };
    /** Of the tokens whose text ends in this chunk. */
    logprobs: Logprobs | null;
    finish_reason: FinishReason | null;
    /** The one of `stop_token_ids` that ended the answer. */
    stop_reason?: number;
    /** The text is of accepted draft tokens; left out where it is not. */
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

/**
 * Answers a conversation, in OpenAI's shapes.
 *
 * With `stream: true` the promise gives an async iterator of chunks; leaving its loop cancels the request. Without,
 * it gives the whole completion.
 */
export interface CreateChatCompletion {
  /** Answers a conversation, in OpenAI's shapes. */
  (params: ChatCompletionParamsNonStreaming, options?: RequestOptions | null): Promise<ChatCompletion>;
  /** Answers a conversation in chunks; leaving the loop over them cancels the request. */
  (
    params: ChatCompletionParamsStreaming,
    options?: RequestOptions | null,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
  /** Answers a conversation, whole or in chunks, as `stream` says. */
  (
    params: ChatCompletionParams,
    options?: RequestOptions | null,
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>>;
}
