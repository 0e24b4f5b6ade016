// Nothing but types, which `types.d.ts` beside this declares.
