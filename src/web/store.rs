//! A store of files in the browser's storage.

use crate::weights::{Chunk, Pool, Store};
use js_sys::{Array, Promise};
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::ReadableStream;

use super::stream::JsStream;

#[wasm_bindgen]
extern "C" {
    /// The object that `pkg-template/models/store.js` opens.
    #[wasm_bindgen(
        typescript_type = "{ get(key: string): Promise<ReadableStream | null>, put(key: string, bytes: Uint8Array[]): Promise<boolean>, delete(key: string): Promise<unknown>, room(): Promise<number | undefined> }"
    )]
    type Storage;
    #[wasm_bindgen(method)]
    fn get(this: &Storage, key: &str) -> Promise;
    #[wasm_bindgen(method)]
    fn put(this: &Storage, key: &str, bytes: &Array) -> Promise;
    #[wasm_bindgen(method)]
    fn delete(this: &Storage, key: &str) -> Promise;
    #[wasm_bindgen(method)]
    fn room(this: &Storage) -> Promise;
}

/// The site's files in the browser.
pub struct BrowserStore {
    storage: Storage,
    pool: Rc<Pool>,
}

impl BrowserStore {
    /// Wraps the object that `pkg-template/models/store.js` opened; `None` if it is null.
    pub fn new(opened: JsValue) -> Option<BrowserStore> {
        let storage = opened.is_object().then(|| opened.unchecked_into())?;
        Some(BrowserStore { storage, pool: Rc::default() })
    }
}

impl Store for BrowserStore {
    type Stream = JsStream;

    async fn get(&self, key: &str) -> Option<JsStream> {
        let stream = JsFuture::from(self.storage.get(key)).await.ok()?;
        let stream: ReadableStream = stream.dyn_into().ok()?;
        JsStream::pooled(key, stream, &self.pool).ok()
    }

    async fn put(&self, key: &str, bytes: &[Chunk]) -> bool {
        let bytes: Array = bytes.iter().map(Chunk::as_js).collect();
        let put = JsFuture::from(self.storage.put(key, &bytes)).await;
        put.is_ok_and(|is_kept| is_kept.is_truthy())
    }

    async fn delete(&self, key: &str) {
        // A failure is harmless: a stale file fails its digest check when it is read.
        let _ = JsFuture::from(self.storage.delete(key)).await;
    }

    async fn room(&self) -> Option<u64> {
        let room = JsFuture::from(self.storage.room()).await.ok()?;
        room.as_f64().map(|bytes| bytes as u64)
    }
}
