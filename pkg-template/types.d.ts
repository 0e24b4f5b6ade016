// The shapes of what goes in and comes out, OpenAI's where there are such.

export * from "./types/chat.js";
export * from "./types/completions.js";
export * from "./types/load.js";
export * from "./types/metrics.js";
export * from "./types/probe.js";
export * from "./types/prompt-api.js";
export * from "./types/requests.js";
export type { StructuredOutputs } from "./types/shared.js";
export * from "./types/store.js";
export * from "./types/tools.js";
