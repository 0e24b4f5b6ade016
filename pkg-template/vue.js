// Nothing but types: `<tabloom-chat>` in Vue's templates, which `vue.d.ts` beside this declares.
