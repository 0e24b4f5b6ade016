// Nothing but types: `<tabloom-chat>` in React's JSX, which `react.d.ts` beside this declares.
