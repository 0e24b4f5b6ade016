// What chats and text completions have in common.

export interface SharedParams {
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean | null } | null;
  /** 0 is greedy. */
  temperature?: number | null;
  top_p?: number | null;
  top_k?: number | null;
  min_p?: number | null;
  seed?: number | null;
  /** Answers to the same messages, 1 to 16; the i-th uses `seed` + i. */
  n?: number | null;
  stop?: string | readonly string[] | null;
  /** What the answer must look like; schemas are always enforced. */
  response_format?:
    | { type: "text" }
    | { type: "json_object"; schema?: object | string | null }
    | { type: "json_schema"; json_schema: NamedSchema }
    | null;
  /** The same in vLLM's terms. */
  structured_outputs?: StructuredOutputs | null;
  /** -2 to 2, on tokens of the answer so far. */
  presence_penalty?: number | null;
  /** -2 to 2, on each of their occurrences. */
  frequency_penalty?: number | null;
  /** Above 0, on tokens of prompt and answer; 1 is off. */
  repetition_penalty?: number | null;
  /** Token ids to -100 to 100, at most 1024. */
  logit_bias?: Record<string, number> | null;
  /** Tokens, at most 128, that `top_logprobs` lists besides the likeliest. */
  logprob_token_ids?: readonly number[] | null;
  /** As `top_logprobs`, for the tokens of the prompt; not in a stream. */
  prompt_logprobs?: number | null;
  /** The only tokens that may be sampled. */
  allowed_token_ids?: readonly number[] | null;
  /** Texts that may not appear, at most 256. */
  bad_words?: readonly string[] | null;
  /** Whether the stop string that ended the answer stays in its text; default false. */
  include_stop_str_in_output?: boolean | null;
  /** Whether special tokens give no text; default true. If not, they are shown by name. */
  skip_special_tokens?: boolean | null;
  /** Tokens that end the answer. */
  stop_token_ids?: readonly number[] | null;
  /** The model's own end tokens do not end the answer. */
  ignore_eos?: boolean | null;
  /** The answer does not end before it has so many tokens. */
  min_tokens?: number | null;
  /**
   * Most tokens between `<think>` and `</think>`; after them the model has to begin its answer. Only
   * where the model has these tokens, and not together with structured output.
   */
  thinking_token_budget?: number | null;
  /**
   * Ends the answer, with the `finish_reason` "repetition" (which OpenAI's types lack, and so do these), when a
   * pattern of `min_pattern_size` (default 1) to `max_pattern_size` (at most 1024; 0: none) tokens has come
   * `min_count` times in a row.
   */
  repetition_detection?: { max_pattern_size: number; min_pattern_size?: number; min_count: number } | null;
  /** Tabloom's own parameter, default true; the answer is the same without. */
  speculative_decoding?: boolean | null;
  /** Ignored, as an engine has one model; `engine.fetch` refuses other names. */
  model?: string | null;
  /** A label of OpenAI's that changes nothing. */
  user?: string | null;
}

interface NamedSchema {
  name?: string | null;
  description?: string | null;
  /** Needed; OpenAI's types let it be left out. */
  schema?: object | boolean | null;
  strict?: boolean | null;
}

export interface SharedAnswer {
  id: string;
  /** Seconds since 1970. */
  created: number;
  model: string;
  /** Whether this device answered, or the fallback. */
  served_by: "device" | "fallback";
}

/** What an answer must look like: exactly one of these. */
export interface StructuredOutputs {
  /** A JSON schema. */
  json?: object | boolean;
  /** A regular expression that the whole answer matches, in the syntax of Rust's `regex`. */
  regex?: string;
  /** Texts of which the answer is one. */
  choice?: readonly string[];
  /** A grammar in llguidance's dialect of Lark. */
  grammar?: string;
  /** Any JSON object. */
  json_object?: boolean;
  /** No blank between the tokens of JSON, where one is allowed otherwise; beside `json` and `json_object`. */
  disable_any_whitespace?: boolean;
  /** The text that the prompt ends with, if it and the answer together are what has this form. */
  prefix?: string;
}
