import type { Engine } from "../index.js";
import type { ChatCompletionChunk, ChatCompletionParams } from "../types.js";
import type { TabloomChatEventMap, TabloomChatState, Turn } from "./types.js";
import type { Message } from "./view/message.js";

/** What loads the engine of a chat. */
export interface EngineSource {
  /** Null until it is loaded. */
  current: Engine | null;
  loading: boolean;
  /** Gives the engine once it is loaded. */
  load: () => Promise<Engine>;
  /** Gives the engine up, and ends loading. */
  release: () => void;
  /** The same for an engine that is of no use. */
  discard: () => void;
}

/** What a chat asks of the page it is on. */
export interface Host {
  engine: EngineSource;
  /** What the model is told of messages. */
  prompt: (messages: Turn[]) => ChatCompletionParams["messages"];
  /** How to ask the engine; throws where a setting is wrong. */
  request: () => Omit<ChatCompletionParams, "messages">;
  /** Called when the conversation has changed. */
  keep: () => void;
  /** Begins another conversation; without it the one that is shown is emptied. */
  clear?: () => void;
  /** Whether a button should load the model. */
  startable?: () => boolean;
  /** The visitor has chosen the CPU. */
  useProcessor?: () => void;
  onState?: (state: TabloomChatState) => void;
  onMessage?: (detail: TabloomChatEventMap["tabloom-message"]["detail"]) => void;
  /**
   * Called before it is shown: in its own words if it has a `cause`, and otherwise by what there is to say of its code.
   */
  // biome-ignore lint/suspicious/noExplicitAny: whatever was thrown.
  onError?: (error: any) => void;
  /** Called with each piece of an answer, before the page is drawn. */
  onChunk?: (chunk: ChatCompletionChunk, message: Message) => void;
}
