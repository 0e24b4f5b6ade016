// The types of the public API, in OpenAI's shapes where it has them.

export * from "./types/chat.js";
export * from "./types/completions.js";
export * from "./types/errors.js";
export * from "./types/load.js";
export * from "./types/metrics.js";
export * from "./types/probe.js";
export * from "./types/prompt-api.js";
export * from "./types/requests.js";
export type { StructuredOutputs } from "./types/shared.js";
export * from "./types/store.js";
export * from "./types/tools.js";
