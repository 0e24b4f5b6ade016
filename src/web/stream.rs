//! Reads a file's bytes from a JavaScript stream.

use std::rc::Rc;

use js_sys::{Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{AbortSignal, ReadableStream, ReadableStreamDefaultReader, ReadableStreamReadResult};

use crate::{
    error::{Error, Result},
    weights::{ByteStream, Chunk, Pool},
};

#[wasm_bindgen]
extern "C" {
    // The binding in `web-sys` has no options.
    #[derive(Debug)]
    type ReadableStreamBYOBReader;
    #[wasm_bindgen(constructor, catch)]
    fn new(stream: &ReadableStream) -> Result<ReadableStreamBYOBReader, JsValue>;
    #[wasm_bindgen(method)]
    fn read(this: &ReadableStreamBYOBReader, view: Uint8Array, options: &Object) -> Promise;
    #[wasm_bindgen(method)]
    fn cancel(this: &ReadableStreamBYOBReader) -> Promise;
}

/// A JavaScript stream, such as a response's body.
#[derive(Debug)]
pub struct JsStream {
    what: String,
    signal: Option<AbortSignal>,
    reader: Reader,
    /// The next read, started early so that it overlaps the processing of the previous bytes.
    next: Option<JsFuture>,
    length: Option<u64>,
}

/// The reader: it decides which memory the bytes are written to.
#[derive(Debug)]
enum Reader {
    Stream(ReadableStreamDefaultReader),
    Pool { reader: ReadableStreamBYOBReader, options: Object, pool: Rc<Pool> },
}

impl JsStream {
    /// Reads a stream of byte arrays; `length` is its total number of bytes, if known.
    pub fn new(
        what: &str,
        stream: ReadableStream,
        signal: Option<AbortSignal>,
        length: Option<u64>,
    ) -> Result<JsStream> {
        let reader = ReadableStreamDefaultReader::new(&stream)
            .map_err(|reason| failed(what, signal.as_ref(), &reason))?;
        Ok(JsStream {
            what: what.into(),
            signal,
            reader: Reader::Stream(reader),
            next: None,
            length,
        })
    }

    /// Reads a stream into buffers of `pool`, if the browser supports it.
    pub fn pooled(what: &str, stream: ReadableStream, pool: &Rc<Pool>) -> Result<JsStream> {
        let Ok(reader) = ReadableStreamBYOBReader::new(&stream) else {
            return JsStream::new(what, stream, None, None);
        };
        let options = Object::new();
        // Cannot fail. Browsers that do not support it fill less at a time, which is then copied.
        let _ = Reflect::set(&options, &"min".into(), &Pool::BYTES.into());
        let reader = Reader::Pool { reader, options, pool: pool.clone() };
        let next = Some(reader.read());
        Ok(JsStream { what: what.into(), signal: None, reader, next, length: None })
    }
}

impl ByteStream for JsStream {
    fn length(&self) -> Option<u64> {
        self.length
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        // Discard what was read ahead.
        if self.signal.as_ref().is_some_and(AbortSignal::aborted) {
            return Err(Error::Aborted);
        }
        let next = self.next.get_or_insert_with(|| self.reader.read());
        let result: ReadableStreamReadResult = next
            .await
            .map_err(|reason| failed(&self.what, self.signal.as_ref(), &reason))?
            .unchecked_into();
        self.next = None;
        let value = result.get_value();
        if value.is_undefined() {
            return Ok(None);
        }
        let chunk = self.reader.chunk(value.unchecked_into());
        if chunk.is_empty() && result.get_done().unwrap_or_default() {
            return Ok(None);
        }
        self.next = Some(self.reader.read());
        Ok(Some(chunk))
    }
}

impl Drop for JsStream {
    fn drop(&mut self) {
        let cancelled = self.reader.cancel();
        spawn_local(async {
            // Fails only if the transfer failed, which was already reported.
            let _ = cancelled.await;
        });
    }
}

impl Reader {
    /// Starts reading the next bytes.
    fn read(&self) -> JsFuture {
        JsFuture::from(match self {
            Reader::Stream(reader) => reader.read(),
            Reader::Pool { reader, options, pool } => reader.read(pool.take(), options),
        })
    }

    /// Wraps an array that was read.
    fn chunk(&self, array: Uint8Array) -> Chunk {
        match self {
            Reader::Stream(_) => Chunk::owned(array),
            Reader::Pool { pool, .. } => Chunk::pooled(array, pool),
        }
    }

    /// Cancels the transfer.
    fn cancel(&self) -> JsFuture {
        JsFuture::from(match self {
            Reader::Stream(reader) => reader.cancel(),
            Reader::Pool { reader, .. } => reader.cancel(),
        })
    }
}

/// The error of a rejected promise.
pub fn failed(what: &str, signal: Option<&AbortSignal>, reason: &JsValue) -> Error {
    if signal.is_some_and(AbortSignal::aborted) {
        return Error::Aborted;
    }
    let reason = match reason.dyn_ref::<js_sys::Error>() {
        Some(error) => String::from(error.to_string()),
        None => format!("{reason:?}"),
    };
    Error::Fetch { what: what.into(), reason }
}
