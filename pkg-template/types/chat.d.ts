// Chat completions, in OpenAI's shapes.
import type { SharedAnswer, SharedParams } from "./shared.js";
import type { Tool, ToolCall, ToolCallDelta, ToolChoice } from "./tools.js";

/** A text, whole or in parts. */
export type ChatContent = string | { type: "text"; text: string }[];

/** A message of a conversation. */
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
  reasoning_effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
  /** More variables of the chat template, such as `{ enable_thinking: false }`. */
  chat_template_kwargs?: Record<string, unknown>;
  /**
   * Whether the model continues a last message of the assistant; default true if that has a text and
   * calls no tools. If not, the model begins another turn.
   */
  continue_final_message?: boolean;
  /** Gives the log-probability of each token, before penalties, bias and filters. */
  logprobs?: boolean;
  /** 0 to 20 of the likeliest tokens in the place of each. */
  top_logprobs?: number;
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
