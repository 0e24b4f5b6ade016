import type { Engine } from "../../index.js";
import type { ChatCompletionParams } from "../../types.js";
import type { Turn } from "../types.js";

/** What visitors do; with a message's index where it is done to a message. */
export interface Actions
  extends Record<"send" | "stop" | "clear" | "start" | "cancel" | "continue" | "retry" | "processor", () => void>,
    Record<"again" | "edit", (i: number) => void> {
  version: (i: number, version: number) => void;
  /** Gives null until it is loaded. */
  engine: () => Engine | null;
  /** What the model is told of messages. */
  prompt: (messages: Turn[]) => ChatCompletionParams["messages"];
}

/** What the parts of a view use of it. */
export interface Owner {
  readonly input: HTMLTextAreaElement;
  readonly actions: Pick<Actions, "engine" | "prompt">;
  /** Shows a text to the visitor, above the input, until the next action; by default that something went wrong. */
  tell(text?: string): void;
  /** Has screen readers say a text. */
  announce(text: string): void;
  /** Updates what depends on what is shown and written. */
  refresh(): void;
}
