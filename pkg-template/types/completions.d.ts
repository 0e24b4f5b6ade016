// Text completions, in the shapes of OpenAI's older API.
import type { TokenLogprob, Usage } from "./chat.js";
import type { RequestOptions } from "./requests.js";
import type { SharedAnswer, SharedParams } from "./shared.js";

export interface CompletionParams extends SharedParams {
  /** Texts to continue, or their token ids; at most 128 answers in all. Null, as OpenAI's type has it, is refused. */
  prompt: string | readonly string[] | readonly number[] | readonly (readonly number[])[] | null;
  /** Default 16; may be 0 together with `echo`. */
  max_tokens?: number | null;
  /** Whether answers begin with their prompt. */
  echo?: boolean | null;
  /** Gives the log-probability of each token, and 0 to 5 of the likeliest in its place. */
  logprobs?: number | null;
  /** Must be the same as `n`. */
  best_of?: number | null;
  /** Whether prompts get special tokens, such as the beginning of text; default true. */
  add_special_tokens?: boolean | null;
}

/** Parameters of answers in chunks. */
export interface CompletionParamsStreaming extends CompletionParams {
  stream: true;
}

/** Parameters of whole answers. */
export interface CompletionParamsNonStreaming extends CompletionParams {
  stream?: false | null;
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

/** Those of a text without its prompt: each token has its own. */
export interface AnswerLogprobs extends CompletionLogprobs {
  token_logprobs: number[];
  top_logprobs: Record<string, number>[];
}

/** An answer, or in a chunk its next piece. */
export interface CompletionChoice {
  /** Those of the first prompt come first. */
  index: number;
  text: string;
  logprobs: CompletionLogprobs | null;
  finish_reason: "stop" | "length" | null;
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
  choices: (CompletionChoice & { finish_reason: "stop" | "length" })[];
  usage: Usage;
}

/** Answers without their prompts. */
export interface AnswerCompletion extends Completion {
  choices: (CompletionChoice & { finish_reason: "stop" | "length"; logprobs: AnswerLogprobs | null })[];
}

/**
 * Continues one text or several, in the shapes of OpenAI's older API.
 *
 * With `stream: true` the promise gives an async iterator of chunks; leaving its loop cancels the request. Without,
 * it gives all answers at once. Control tokens (`<|im_start|>`) in a prompt count as such.
 */
export interface CreateCompletion {
  /** Continues one text or several, in the shapes of OpenAI's older API. */
  (
    params: CompletionParamsNonStreaming & { echo?: false | null },
    options?: RequestOptions | null,
  ): Promise<AnswerCompletion>;
  /** Continues texts that may begin with their prompts. */
  (params: CompletionParamsNonStreaming, options?: RequestOptions | null): Promise<Completion>;
  /** Continues texts in chunks; leaving the loop over them cancels the request. */
  (params: CompletionParamsStreaming, options?: RequestOptions | null): Promise<AsyncIterableIterator<CompletionChunk>>;
  /** Continues texts, whole or in chunks, as `stream` says. */
  (
    params: CompletionParams,
    options?: RequestOptions | null,
  ): Promise<Completion | AsyncIterableIterator<CompletionChunk>>;
}
