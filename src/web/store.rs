//! The browser's storage as a store of files.

use crate::weights::{Chunk, Store};
use js_sys::{Array, Promise};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::ReadableStream;

use super::fetch::JsStream;

#[wasm_bindgen]
extern "C" {
    /// What `pkg-template/store.js` opens.
    #[derive(Clone)]
    #[wasm_bindgen(
        typescript_type = "{ get(key: string): Promise<ReadableStream | null>, put(key: string, bytes: Uint8Array[]): Promise<boolean>, delete(key: string): Promise<unknown>, room(): Promise<number | undefined> }"
    )]
    pub type Storage;
    #[wasm_bindgen(method)]
    fn get(this: &Storage, key: &str) -> Promise;
    #[wasm_bindgen(method)]
    fn put(this: &Storage, key: &str, bytes: &Array) -> Promise;
    #[wasm_bindgen(method)]
    fn delete(this: &Storage, key: &str) -> Promise;
    #[wasm_bindgen(method)]
    fn room(this: &Storage) -> Promise;
}

impl Store for Storage {
    type Stream = JsStream;

    async fn get(&self, key: &str) -> Option<JsStream> {
        let stream = JsFuture::from(Storage::get(self, key)).await.ok()?;
        let stream: ReadableStream = stream.dyn_into().ok()?;
        JsStream::new(key, stream, None, None).ok()
    }

    async fn put(&self, key: &str, bytes: &[Chunk]) -> bool {
        let bytes: Array = bytes.iter().map(Chunk::as_js).collect();
        let put = JsFuture::from(Storage::put(self, key, &bytes)).await;
        put.is_ok_and(|is_kept| is_kept.is_truthy())
    }

    async fn delete(&self, key: &str) {
        // What cannot be deleted is not found to be what it should be when it is read.
        let _ = JsFuture::from(Storage::delete(self, key)).await;
    }

    async fn room(&self) -> Option<u64> {
        let room = JsFuture::from(Storage::room(self)).await.ok()?;
        room.as_f64().map(|bytes| bytes as u64)
    }
}
