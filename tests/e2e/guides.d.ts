// What the guides' code uses and does not make.
import type { ChatMessage, Engine } from "tabloom";

declare global {
  const engine: Engine;
  const messages: ChatMessage[];
  const output: HTMLOutputElement;
}
