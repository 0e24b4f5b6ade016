// <tabloom-chat> in React.
import "react";

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "tabloom-chat": React.HTMLAttributes<HTMLElement> & { model: string };
    }
  }
}
