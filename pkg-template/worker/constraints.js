// Constrained answers come from a WebAssembly module of their own: few pages ask for them, and what a
// hostile schema does to that module does not touch the engine.

/**
 * Loads the module.
 *
 * @returns what the engine calls: `vocabulary` takes a model's tokens, `reset` makes the module anew
 */
export async function loadGrammar() {
  const { default: init, Grammars, __wbg_reset_state } = await import("../wasm/grammar.js");
  await init();
  return {
    /** @param {ConstructorParameters<typeof Grammars>} tokens */
    vocabulary: (...tokens) => new Grammars(...tokens),
    reset: __wbg_reset_state,
  };
}
