// `<tabloom-chat>` in Svelte's templates, for who imports "tabloom/svelte".
import type { HTMLAttributes } from "svelte/elements";
import type { TabloomChat } from "./element.js";
import type { TabloomChatAttributes, TabloomChatHandlers } from "./element/types.js";

declare module "svelte/elements" {
  interface SvelteHTMLElements {
    "tabloom-chat": HTMLAttributes<TabloomChat> & TabloomChatAttributes & TabloomChatHandlers;
  }
}
