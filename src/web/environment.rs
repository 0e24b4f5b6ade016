//! The worker that a host runs in.

use js_sys::{Function, Promise};
use wasm_bindgen::prelude::*;
use web_sys::AbortSignal;

#[wasm_bindgen]
extern "C" {
    /// What the worker's script offers.
    #[derive(Clone)]
    #[wasm_bindgen(
        typescript_type = "{ name: string | null, loadGrammar(): Promise<object>, whenGone(lock: string): Promise<unknown>, toJson(message: unknown): string | undefined, openStore(kind: string): Promise<object | null>, hold(lock: string, signal: AbortSignal): Promise<void> }"
    )]
    pub type Environment;
    /// The Web Lock that the worker holds as long as it lives, where there are such locks.
    #[wasm_bindgen(method, structural, getter)]
    pub fn name(this: &Environment) -> Option<String>;
    /// Gives a promise of the module of constrained answers.
    #[wasm_bindgen(method, structural, getter, js_name = loadGrammar)]
    pub fn load_grammar(this: &Environment) -> Function;
    /// Gives a message as text.
    #[wasm_bindgen(method, structural, getter, js_name = toJson)]
    pub fn to_json(this: &Environment) -> Function;
    /// Gives a promise that is kept once nobody holds a Web Lock.
    #[wasm_bindgen(method, structural, catch, js_name = whenGone)]
    pub fn when_gone(this: &Environment, lock: &str) -> Result<Promise, JsValue>;
    /// Gives a promise of where files are kept, `cache` or `opfs`, if they are.
    #[wasm_bindgen(method, structural, js_name = openStore)]
    pub fn open_store(this: &Environment, kind: &str) -> Promise;
    /// Gives a promise that is kept once a Web Lock is held, until `signal` is aborted.
    #[wasm_bindgen(method, structural)]
    pub fn hold(this: &Environment, lock: &str, signal: &AbortSignal) -> Promise;
}
