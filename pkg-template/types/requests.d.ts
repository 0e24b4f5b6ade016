// Options of all requests, and requests other than completions.
import type { CustomTool, Tool } from "./tools.js";

export interface RequestOptions {
  /** Cancels the request. */
  signal?: AbortSignal | null | undefined;
  /** `false` keeps the request on this device, even if the engine has a fallback. */
  fallback?: boolean;
}

export interface TokenizeOptions {
  /** Whether a text gets special tokens, such as the beginning of text; default true. */
  addSpecialTokens?: boolean;
  /** Whether a conversation ends with the beginning of the assistant's turn; default true. */
  addGenerationPrompt?: boolean;
  /** Of a conversation: the functions that the model may call. */
  tools?: readonly (Tool | CustomTool)[] | null;
  /** Of a conversation: more variables of the chat template. */
  chatTemplateKwargs?: Record<string, unknown>;
  signal?: AbortSignal | null | undefined;
}

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
  input: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  /** Default `float`; `base64` is little-endian f32. */
  encoding_format?: "float" | "base64" | null;
  /** The last hidden state of a text (default), or the mean of all. */
  pooling?: "last" | "mean" | null;
  /** Ignored, as an engine has one model; `engine.fetch` refuses other names. */
  model?: string | null;
  /** A label of OpenAI's that changes nothing. */
  user?: string | null;
}

/** Vectors, or base64 in their place where that is the format. */
export interface EmbeddingResponse<Embedding = number[]> {
  object: "list";
  /** One per input, in order, scaled to length 1. */
  data: { object: "embedding"; index: number; embedding: Embedding }[];
  model: string;
  /** Whether this device answered, or the fallback. */
  served_by: "device" | "fallback";
  usage: { prompt_tokens: number; total_tokens: number };
}

/** Turns texts into vectors, in OpenAI's shapes: final hidden states, pooled and scaled to length 1. */
export interface CreateEmbedding {
  /** Turns texts into vectors. */
  (
    params: EmbeddingParams & { encoding_format?: "float" | null },
    options?: RequestOptions | null,
  ): Promise<EmbeddingResponse>;
  /** Turns texts into vectors, as base64 of little-endian f32. */
  (
    params: EmbeddingParams & { encoding_format: "base64" },
    options?: RequestOptions | null,
  ): Promise<EmbeddingResponse<string>>;
  /** Turns texts into vectors, or base64 of them, as `encoding_format` says. */
  (params: EmbeddingParams, options?: RequestOptions | null): Promise<EmbeddingResponse<number[] | string>>;
}
