import type { Engine } from "../index.js";
import type { ErrorCode, FinishReason, LoadOptions, Progress } from "../types.js";

/** A message of a conversation. */
export interface TabloomChatMessage {
  role: "user" | "assistant";
  content: string;
  /** Why an answer ended before the model ended it; `full`: the model's context was. */
  end?: "stopped" | "length" | "full";
  /**
   * The versions of the message, each with the messages that followed it; null is the one that is shown,
   * whose followers are those of the conversation.
   */
  versions?: (TabloomChatMessage[] | null)[];
}

/** A message as the model is told of it. */
export type Turn = { role: "user" | "assistant"; content: string };

/** What a chat is doing; `idle` before its model is loaded. */
export type TabloomChatState = "idle" | "loading" | "ready" | "busy" | "error";

/** The events of a chat; they bubble, also out of shadow trees. */
export interface TabloomChatEventMap {
  /** How far loading is. */
  "tabloom-load": CustomEvent<Progress>;
  /** The engine is loaded. */
  "tabloom-ready": CustomEvent<{ engine: Engine }>;
  /** A question was asked, or an answer has ended; `finishReason` is `stopped` where the visitor did that. */
  "tabloom-message": CustomEvent<{
    message: TabloomChatMessage;
    finishReason: FinishReason | "stopped" | null;
  }>;
  /** Something went wrong, which the chat shows; a `TabloomError` has a code. */
  "tabloom-error": CustomEvent<{ error: Error & { code?: ErrorCode } }>;
}

/** The attributes of `<tabloom-chat>`, and those of its properties that templates set. */
export interface TabloomChatAttributes {
  model?: string;
  autoload?: boolean;
  system?: string;
  temperature?: number | string;
  "max-tokens"?: number | string;
  maxTokens?: number | null;
  device?: LoadOptions["device"];
  quantize?: LoadOptions["quantize"];
  "worker-url"?: string;
  placeholder?: string;
  storage?: "session" | "local";
  engine?: Engine | null;
  messages?: TabloomChatMessage[];
  workerUrl?: LoadOptions["workerUrl"];
}

/** Its events as attributes, as React and Svelte name them. */
export type TabloomChatHandlers = {
  [K in keyof TabloomChatEventMap as `on${K}`]?: (event: TabloomChatEventMap[K]) => void;
};

declare global {
  interface GlobalEventHandlersEventMap extends TabloomChatEventMap {}
}
