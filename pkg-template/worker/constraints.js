// The compiler of constraints is a WebAssembly module of its own: few pages need it, and a hostile schema
// that crashes it does not touch the engine.

/** @returns what the engine calls: `vocabulary` takes a model's tokens, `reset` starts the module again */
export async function loadGrammar() {
  const { default: init, Grammars, __wbg_reset_state } = await import("../wasm/grammar.js");
  await init();
  return {
    /** @param {ConstructorParameters<typeof Grammars>} tokens */
    vocabulary: (...tokens) => new Grammars(...tokens),
    reset: __wbg_reset_state,
  };
}
