//! The API of the worker that a host runs in.

use js_sys::{Function, Promise};
use wasm_bindgen::prelude::*;
use web_sys::AbortSignal;

use super::claim::BrowserClaim;

#[wasm_bindgen]
extern "C" {
    /// Functions that the worker's script provides.
    #[derive(Clone)]
    #[wasm_bindgen(
        typescript_type = "{ name: string | null, loadGrammar(): Promise<object>, whenGone(lock: string): Promise<unknown>, toJson(message: unknown): string | undefined, openStore(kind: string): Promise<object | null>, sweep(kind: string, url: string): Promise<void>, claim(lock: string, signal: AbortSignal): object }"
    )]
    pub type Environment;
    /// The Web Lock that the worker holds while it lives, if the browser has Web Locks.
    #[wasm_bindgen(method, structural, getter)]
    pub fn name(this: &Environment) -> Option<String>;
    /// Returns a promise of the grammar module, which constrains answers.
    #[wasm_bindgen(method, structural, getter, js_name = loadGrammar)]
    pub fn load_grammar(this: &Environment) -> Function;
    /// Converts a message to JSON.
    #[wasm_bindgen(method, structural, getter, js_name = toJson)]
    pub fn to_json(this: &Environment) -> Function;
    /// Returns a promise that resolves once a Web Lock is free.
    #[wasm_bindgen(method, structural, catch, js_name = whenGone)]
    pub fn when_gone(this: &Environment, lock: &str) -> Result<Promise, JsValue>;
    /// Returns a promise of the store for files, `cache` or `opfs`; null if there is none.
    #[wasm_bindgen(method, structural, js_name = openStore)]
    pub fn open_store(this: &Environment, kind: &str) -> Promise;
    /// Deletes what crashed writes have left of the model `url` in a store; nobody may be writing it.
    #[wasm_bindgen(method, structural)]
    pub fn sweep(this: &Environment, kind: &str, url: &str) -> Promise;
    /// Queues for a Web Lock until `signal` is aborted.
    #[wasm_bindgen(method, structural)]
    pub fn claim(this: &Environment, lock: &str, signal: &AbortSignal) -> BrowserClaim;
}
