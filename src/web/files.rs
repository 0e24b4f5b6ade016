//! Files that a page passes in: chosen by the visitor, or bytes.

use js_sys::Map;
use wasm_bindgen::prelude::*;
use web_sys::{AbortSignal, ReadableStream};

use super::stream::JsStream;
use crate::{
    Error, Result,
    weights::{Address, ByteStream, Chunk, RangeSource, Source},
};

#[wasm_bindgen]
extern "C" {
    type Blob;
    #[wasm_bindgen(method, getter)]
    fn size(this: &Blob) -> f64;
    #[wasm_bindgen(method)]
    fn slice(this: &Blob, start: f64) -> Blob;
    #[wasm_bindgen(method)]
    fn stream(this: &Blob) -> ReadableStream;
}

/// A folder of files that a page passed in, or one GGUF file.
///
/// The browser holds their bytes, on disk if they come from there, and keeps them when the page goes.
#[derive(Clone, Debug)]
pub struct Files {
    address: Address,
    /// Blobs by name.
    blobs: Map,
    signal: AbortSignal,
}

/// The bytes of one file.
#[derive(Debug)]
pub struct FileStream(JsStream);

impl Files {
    /// The files of the model `url`, from a map of blobs by name; `signal` ends every transfer with
    /// [`Error::Aborted`].
    pub fn new(url: &str, blobs: &JsValue, signal: AbortSignal) -> Result<Files> {
        let address = Address::new(url);
        let blobs = blobs.dyn_ref::<Map>().cloned().ok_or_else(|| Error::InvalidRequest {
            param: "files".into(),
            message: "expected a map of blobs by name".into(),
        })?;
        Ok(Files { address, blobs, signal })
    }
}

impl Source for Files {
    type Stream = FileStream;

    async fn open(&self, file: &str) -> Result<Option<FileStream>> {
        self.open_at(file, 0).await
    }

    async fn open_near(&self, file: &str, start: u64) -> Result<Option<(FileStream, u64)>> {
        Ok(self.open_at(file, start).await?.map(|stream| (stream, start)))
    }

    fn gguf(&self) -> Option<&str> {
        self.address.file()
    }

    fn locate(&self, file: &str) -> String {
        self.address.readable(file)
    }
}

impl RangeSource for Files {
    async fn open_at(&self, file: &str, start: u64) -> Result<Option<FileStream>> {
        let Ok(blob) = self.blobs.get(&file.into()).dyn_into::<Blob>() else { return Ok(None) };
        let length = Some(blob.size() as u64);
        let rest = blob.slice(start as f64).stream();
        let signal = Some(self.signal.clone());
        Ok(Some(FileStream(JsStream::new(&self.locate(file), rest, signal, length)?)))
    }

    fn address(&self, file: &str) -> String {
        self.address.of(file)
    }
}

impl ByteStream for FileStream {
    fn length(&self) -> Option<u64> {
        self.0.length()
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        self.0.next().await.map_err(|error| match error {
            // The browser refuses to read a file that has changed since it was chosen.
            Error::Fetch { what, .. } => Error::Integrity {
                what,
                expected: "the file as it was when it was chosen".into(),
                found: "no file, or another one,".into(),
            },
            other => other,
        })
    }
}
