// Counters and gauges.

/**
 * Speculative decoding, counted by rounds: steps in which an answer had draft tokens. A round gives one
 * token more than were accepted, so the mean acceptance length is
 * 1 + spec_decode_num_accepted_tokens / spec_decode_num_drafts.
 */
export interface SpeculationMetrics {
  /** Rounds. */
  spec_decode_num_drafts: number;
  /** Draft tokens. */
  spec_decode_num_draft_tokens: number;
  /** Draft tokens that were accepted. */
  spec_decode_num_accepted_tokens: number;
  /** The same by the draft token's position in its round: seven numbers. */
  spec_decode_num_accepted_tokens_per_pos: number[];
}

/** Counters and gauges of an engine, most of them under vLLM's names. */
export interface EngineMetrics extends SpeculationMetrics {
  /** An estimate of the time saved, from the times of steps without draft tokens; below zero where they cost time. */
  spec_decode_seconds_saved: number;
  /** Requests that are being computed. */
  num_requests_running: number;
  /** Requests that wait. */
  num_requests_waiting: number;
  /** Share of KV blocks in use, from 0 to 1. */
  kv_cache_usage_perc: number;
  /** Share of their slots that hold a token, from 0 to 1. */
  kv_block_utilisation: number;
  /** Tokens that were looked for in the prefix cache. */
  prefix_cache_queries: number;
  /** Tokens that were found there. */
  prefix_cache_hits: number;
  /** Share found over the last 1000 requests; null before the first. */
  prefix_cache_hit_rate: number | null;
  /** As `prefix_cache_queries`, for requests that were preempted and came back, which are not counted there. */
  preempted_queries: number;
  /** As `prefix_cache_hits`, for the same requests. */
  preempted_hits: number;
  /** Tokens in both counts of found tokens that came from host memory (`prefixCache`). */
  restored_tokens: number;
  /** Tokens of prompts whose keys and values were read from storage into host memory (`storedBytes`). */
  stored_tokens: number;
  /** Share of that memory that holds something, from 0 to 1. */
  host_cache_usage_perc: number;
  /** How often a request was preempted. */
  num_preemptions: number;
  /** Tokens of prompts that were computed or found. */
  prompt_tokens: number;
  /** Tokens of answers. */
  generation_tokens: number;
  /** Requests that have ended, by reason. */
  request_success: { stop: number; length: number; repetition: number; abort: number; error: number };
  /** Steps that the model has run. */
  steps: number;
  /** Rows of each step. */
  iteration_tokens_total: Histogram;
  /** From one step's result to the next. */
  step_time_seconds: Histogram;
  /** From arrival to the first token. */
  time_to_first_token_seconds: Histogram;
  /** From one token to the next. */
  inter_token_latency_seconds: Histogram;
  /** From the first token to the last, by token. */
  request_time_per_output_token_seconds: Histogram;
  /** From arrival to the end. */
  e2e_request_latency_seconds: Histogram;
  /** From arrival to the first admission. */
  request_queue_time_seconds: Histogram;
  /** From admission to the first token. */
  request_prefill_time_seconds: Histogram;
  /** From the first token to the last. */
  request_decode_time_seconds: Histogram;
  /** From admission to the last token. */
  request_inference_time_seconds: Histogram;
  /** The counts of each tab, by its id. */
  tabs: Record<string, TabMetrics>;
  /** Bytes of the worker's WebAssembly memory, which never shrinks. */
  wasm_heap_bytes: number;
  /** What the engine's worker has. */
  host: HostState;
}

/** The counts of one tab. */
export interface TabMetrics extends SpeculationMetrics {
  /** Requests that are being computed. */
  running: number;
  /** Requests that wait. */
  waiting: number;
  /** KV blocks of its requests; one that several share counts for each. */
  kv_blocks: number;
  /** Tokens of prompts that were computed or found in the prefix cache. */
  prompt_tokens: number;
  /** Tokens that were looked for in the prefix cache. */
  prefix_cache_queries: number;
  /** Tokens that were found there. */
  cached_tokens: number;
  /** Of the found tokens, after preemptions too, those that came from host memory. */
  restored_tokens: number;
  /** Tokens of its prompts whose keys and values were read from storage. */
  stored_tokens: number;
  /** Tokens of answers. */
  generation_tokens: number;
}

/** Values by size. */
export interface Histogram {
  /** The largest value of each bucket, ascending; one more bucket, without a bound, follows. */
  bounds: number[];
  /** Values by bucket. */
  counts: number[];
  /** The sum of all values. */
  sum: number;
  /** How many there are. */
  count: number;
}

/** What the engine's worker has, as far as the tab that asks may know. */
export interface HostState {
  /** The Web Lock that it holds as long as it lives. */
  name: string | null;
  /** The tabs that share cached prompts with the one that asks (`you`), and the addresses of their models. */
  tabs: { id: number; visible: boolean; model: string | null; you: boolean }[];
  /** The tabs' models, and those that no tab uses: weights, keys and values in bytes. */
  models: { url: string; bytes: number; tabs: number; requests: number }[];
  /** Memory for weights, keys and values of all models. */
  budget_bytes: number;
  /** How much of it is used. */
  used_bytes: number;
}
