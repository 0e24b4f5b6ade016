// Text completions, in the shapes of OpenAI's older API.
import type { FinishReason, TokenLogprob, Usage } from "./chat.js";
import type { SharedAnswer, SharedParams } from "./shared.js";

export interface CompletionParams extends SharedParams {
  /** Texts to continue, or their token ids; at most 128 answers in all. */
  prompt: string | string[] | number[] | number[][];
  /** Default 16; may be 0 together with `echo`. */
  max_tokens?: number;
  /** Whether answers begin with their prompt. */
  echo?: boolean;
  /** Gives the log-probability of each token, and 0 to 5 of the likeliest in its place. */
  logprobs?: number;
  /** Must be the same as `n`. */
  best_of?: number;
  /** Whether prompts get special tokens, such as the beginning of text; default true. */
  add_special_tokens?: boolean;
}

/** Log-probabilities: lists with one entry per token of the text. */
export interface CompletionLogprobs {
  /** Texts; a token whose bytes are no text is `bytes:` and these, each as `\x` and two digits. */
  tokens: string[];
  /** Null for the first token of a prompt that is echoed. */
  token_logprobs: (number | null)[];
  /** The token itself, and the likeliest in its place. */
  top_logprobs: (Record<string, number> | null)[];
  /** Where in the text each begins, in code points. */
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
  /** The text of a chunk is of accepted draft tokens; left out where it is not. */
  drafted?: true;
}

export interface CompletionChunk extends SharedAnswer {
  object: "text_completion";
  /** One, or none beside the usage. */
  choices: CompletionChoice[];
  usage?: Usage | null;
}

export interface Completion extends CompletionChunk {
  usage: Usage;
}
