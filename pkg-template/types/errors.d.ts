// Causes of errors, by name.

/**
 * What the `code` of a `TabloomError` may be. A fallback's server has codes of its own, which come as they are
 * (`details.served_by` is then `"fallback"`).
 */
export type ErrorCode =
  // The device.
  | "no_gpu"
  | "too_large"
  | "out_of_memory"
  | "over_budget"
  | "device_lost"
  | "device_lost_again"
  | "load_interrupted"
  | "pipeline"
  | "gpu"
  // The worker.
  | "no_host"
  | "start_failed"
  | "engine_crashed"
  | "version_mismatch"
  | "handshake"
  | "closed"
  | "aborted"
  // The model's files.
  | "fetch"
  | "missing_part"
  | "malformed"
  | "truncated"
  | "integrity"
  | "unsupported_architecture"
  | "invalid_config"
  | "missing_tensor"
  | "wrong_tensor"
  | "tokenizer"
  | "model_busy"
  // Requests.
  | "invalid_request"
  | "context_length_exceeded"
  | "queue_full"
  | "no_token_allowed"
  | "template"
  | "numerical"
  // `engine.fetch` and the fallback.
  | "not_found"
  | "method_not_allowed"
  | "model_not_found"
  | "server_error";
