//! Streams of JavaScript as the bytes of a file.

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
    // That of `web-sys` has no options.
    #[derive(Debug)]
    type ReadableStreamBYOBReader;
    #[wasm_bindgen(constructor, catch)]
    fn new(stream: &ReadableStream) -> Result<ReadableStreamBYOBReader, JsValue>;
    #[wasm_bindgen(method)]
    fn read(this: &ReadableStreamBYOBReader, view: Uint8Array, options: &Object) -> Promise;
    #[wasm_bindgen(method)]
    fn cancel(this: &ReadableStreamBYOBReader) -> Promise;
}

/// A stream of JavaScript, as of a response.
#[derive(Debug)]
pub struct JsStream {
    what: String,
    signal: Option<AbortSignal>,
    reader: Reader,
    /// The bytes after those that were handed out, which come while those are dealt with.
    next: Option<JsFuture>,
    length: Option<u64>,
}

/// Who says where the bytes go.
#[derive(Debug)]
enum Reader {
    Stream(ReadableStreamDefaultReader),
    Pool { reader: ReadableStreamBYOBReader, options: Object, pool: Rc<Pool> },
}

impl JsStream {
    /// Reads a stream of byte arrays, of that many bytes if that is known.
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

    /// Reads a stream into memory of `pool`, where the browser can do that.
    pub fn pooled(what: &str, stream: ReadableStream, pool: &Rc<Pool>) -> Result<JsStream> {
        let Ok(reader) = ReadableStreamBYOBReader::new(&stream) else {
            return JsStream::new(what, stream, None, None);
        };
        let options = Object::new();
        // Cannot fail. Browsers that do not know it fill less at a time, which then is copied.
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
        // What was read ahead is nobody's business any more.
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
            // Fails if the transfer has failed, which was reported then.
            let _ = cancelled.await;
        });
    }
}

impl Reader {
    /// Asks for the next bytes.
    fn read(&self) -> JsFuture {
        JsFuture::from(match self {
            Reader::Stream(reader) => reader.read(),
            Reader::Pool { reader, options, pool } => reader.read(pool.take(), options),
        })
    }

    /// Takes an array that was read.
    fn chunk(&self, array: Uint8Array) -> Chunk {
        match self {
            Reader::Stream(_) => Chunk::owned(array),
            Reader::Pool { pool, .. } => Chunk::pooled(array, pool),
        }
    }

    /// Ends the transfer.
    fn cancel(&self) -> JsFuture {
        JsFuture::from(match self {
            Reader::Stream(reader) => reader.cancel(),
            Reader::Pool { reader, .. } => reader.cancel(),
        })
    }
}

/// The error that a rejected promise stands for.
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
