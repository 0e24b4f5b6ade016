// Chat completions, in OpenAI's shapes.
import type { SharedParams } from "./params.js";
import type { Tool, ToolCall, ToolCallDelta, ToolChoice } from "./tools.js";

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

export interface ChatCompletionParams extends SharedParams {
  messages: ChatMessage[];
  max_completion_tokens?: number;
  max_tokens?: number;
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
  /** Tells how likely each token was, before penalties, bias and filters. */
  logprobs?: boolean;
  /** 0 to 20 of the likeliest tokens beside each. */
  top_logprobs?: number;
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
