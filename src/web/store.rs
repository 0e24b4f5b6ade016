//! A store of files in the browser's storage.

use std::{cell::Cell, rc::Rc, time::Duration};

use js_sys::{Array, Promise};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::ReadableStream;

use super::{environment::Environment, stream::JsStream};
use crate::{
    error::{Error, Result},
    timer::within,
    weights::{ByteStream, Chunk, Pool, Store},
};

/// Longest wait for an answer of the browser's storage, and for the writing of a chunk. After that the load
/// goes on without a store.
pub const PATIENCE: Duration = Duration::from_secs(30);
const PUT_PATIENCE: Duration = Duration::from_secs(120);

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
    /// It once gave no answer, and is not asked again.
    is_silent: Rc<Cell<bool>>,
}

/// A file in the store.
pub struct KeptStream {
    stream: JsStream,
    is_silent: Rc<Cell<bool>>,
}

impl BrowserStore {
    /// Opens the store of a kind, `cache` or `opfs`, by the worker's script; `None` if there is none.
    pub async fn open(environment: &Environment, kind: &str) -> Option<BrowserStore> {
        let opened = within(PATIENCE, JsFuture::from(environment.open_store(kind))).await?.ok()?;
        let storage = opened.is_object().then(|| opened.unchecked_into())?;
        Some(BrowserStore { storage, pool: Rc::default(), is_silent: Rc::default() })
    }

    /// What the store answers to a call; `None` if it fails, or does not answer.
    async fn answer(&self, patience: Duration, call: impl FnOnce() -> Promise) -> Option<JsValue> {
        if self.is_silent.get() {
            return None;
        }
        let answer = within(patience, JsFuture::from(call())).await;
        self.is_silent.set(answer.is_none());
        answer?.ok()
    }
}

impl Store for BrowserStore {
    type Stream = KeptStream;

    async fn get(&self, key: &str) -> Option<KeptStream> {
        let stream = self.answer(PATIENCE, || self.storage.get(key)).await?;
        let stream: ReadableStream = stream.dyn_into().ok()?;
        let stream = JsStream::pooled(key, stream, &self.pool).ok()?;
        Some(KeptStream { stream, is_silent: self.is_silent.clone() })
    }

    async fn put(&self, key: &str, bytes: &[Chunk]) -> bool {
        let bytes: Array = bytes.iter().map(Chunk::as_js).collect();
        let put = self.answer(PUT_PATIENCE, || self.storage.put(key, &bytes)).await;
        put.is_some_and(|is_kept| is_kept.is_truthy())
    }

    async fn delete(&self, key: &str) {
        // A failure is harmless: a stale file fails its digest check when it is read.
        let _ = self.answer(PATIENCE, || self.storage.delete(key)).await;
    }

    async fn room(&self) -> Option<u64> {
        let room = self.answer(PATIENCE, || self.storage.room()).await?;
        room.as_f64().map(|bytes| bytes as u64)
    }
}

impl ByteStream for KeptStream {
    fn length(&self) -> Option<u64> {
        self.stream.length()
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        match within(PATIENCE, self.stream.next()).await {
            Some(piece) => piece,
            None => {
                self.is_silent.set(true);
                Err(Error::Aborted)
            }
        }
    }
}
