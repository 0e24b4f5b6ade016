// Text completions, in the shapes of OpenAI's older API.
import type { FinishReason, TokenLogprob, Usage } from "./chat.js";
import type { SharedParams } from "./params.js";

export interface CompletionParams extends SharedParams {
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
