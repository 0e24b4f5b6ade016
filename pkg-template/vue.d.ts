// `<tabloom-chat>` in Vue's templates, for who imports "tabloom/vue".
import type { EmitFn, HTMLAttributes } from "vue";
import type { TabloomChat } from "./element.js";
import type { TabloomChatAttributes, TabloomChatEventMap } from "./element/types.js";

/** How Vue's templates know a custom element. */
type Component = new () => TabloomChat & {
  $props: HTMLAttributes & TabloomChatAttributes;
  $emit: EmitFn<{ [K in keyof TabloomChatEventMap]: (event: TabloomChatEventMap[K]) => void }>;
};

declare module "vue" {
  interface GlobalComponents {
    "tabloom-chat": Component;
    TabloomChat: Component;
  }
}
