// What every request takes, and requests that are no completions.

export interface RequestOptions {
  /** Ends the request. */
  signal?: AbortSignal;
  /** `false` keeps the request on this device, whatever the engine was loaded with. */
  fallback?: boolean;
}

export interface TokenizeOptions {
  /** Whether a text gets the tokens that the tokenizer frames it with; default true. */
  addSpecialTokens?: boolean;
  /** Whether a conversation ends with the beginning of the assistant's turn; default true. */
  addGenerationPrompt?: boolean;
  signal?: AbortSignal;
}

/** A model that can be asked. */
export interface ModelCard {
  id: string;
  object: "model";
  /** When it was loaded, in seconds since 1970. */
  created: number;
  owned_by: "tabloom";
}

export interface ModelList {
  object: "list";
  data: ModelCard[];
}

export interface EmbeddingParams {
  /** Texts, or their token ids, at most 2048. */
  input: string | string[] | number[] | number[][];
  /** Default `float`; `base64` is little-endian f32. */
  encoding_format?: "float" | "base64";
  /** The last hidden state of a text (default), or the mean of all. */
  pooling?: "last" | "mean";
  /** Ignored, as an engine holds one model; `engine.fetch` refuses the names of others. */
  model?: string;
}

export interface EmbeddingResponse {
  object: "list";
  /** One per input, in order, of length 1; strings where base64 was asked for. */
  data: { object: "embedding"; index: number; embedding: number[] | string }[];
  model: string;
  /** Whether this device answered, or the fallback. */
  served_by: "device" | "fallback";
  usage: { prompt_tokens: number; total_tokens: number };
}
