// `<tabloom-chat>` in React's JSX, for who imports "tabloom/react".
import type { DetailedHTMLProps, HTMLAttributes } from "react";
import type { TabloomChat } from "./element.js";
import type { TabloomChatAttributes, TabloomChatHandlers } from "./element/types.js";

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "tabloom-chat": DetailedHTMLProps<HTMLAttributes<TabloomChat>, TabloomChat> &
        TabloomChatAttributes &
        TabloomChatHandlers;
    }
  }
}
