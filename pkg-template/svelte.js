// Nothing but types: `<tabloom-chat>` in Svelte's templates, which `svelte.d.ts` beside this declares.
