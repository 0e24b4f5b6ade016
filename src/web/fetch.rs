//! Model files over HTTP: the browser's `fetch` as a server that files come from.

use std::{future::Future, time::Duration};

use crate::error::{Error, Result};
use crate::timer::sleep;
use crate::weights::{Answer, ByteStream, Chunk, HttpSource, Server};
use js_sys::{Array, Promise, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{
    AbortSignal, ReadableStream, ReadableStreamDefaultReader, ReadableStreamReadResult,
    RequestCache, RequestInit, Response, ResponseType,
};

#[wasm_bindgen]
extern "C" {
    // The global function, not the method of `Window`: workers of all kinds have it too.
    #[wasm_bindgen(js_name = fetch)]
    fn global_fetch(address: &str, options: &RequestInit) -> Promise;
}

/// A folder on a web server.
pub type FetchSource = HttpSource<Fetch>;

/// The browser's `fetch`.
#[derive(Clone, Debug)]
pub struct Fetch {
    signal: Option<AbortSignal>,
}

/// A stream of JavaScript, as of a response.
#[derive(Debug)]
pub struct JsStream {
    what: String,
    signal: Option<AbortSignal>,
    reader: ReadableStreamDefaultReader,
    /// The bytes after those that were handed out, which come while those are dealt with.
    next: Option<JsFuture>,
    length: Option<u64>,
}

impl Fetch {
    /// `signal` ends every transfer with [`Error::Aborted`].
    ///
    /// The browser resolves a relative address: in a worker, against the worker's own script.
    pub fn new(signal: Option<AbortSignal>) -> Fetch {
        Fetch { signal }
    }

    /// What a web server would answer that has no such file.
    fn absent(&self, address: &str) -> Result<Answer<JsStream>> {
        let signal = self.signal.as_ref();
        let empty = ReadableStream::new().map_err(|reason| failed(address, signal, &reason))?;
        Ok(Answer {
            status: 404,
            reason: String::new(),
            is_page: false,
            content_range: None,
            version: None,
            body: JsStream::new(address, empty, self.signal.clone(), None)?,
        })
    }
}

impl Server for Fetch {
    type Body = JsStream;

    async fn get(&self, address: &str, start: u64, end: Option<u64>) -> Result<Answer<JsStream>> {
        let signal = self.signal.as_ref();
        let options = RequestInit::new();
        options.set_signal(signal);
        // What is worth keeping is kept in a store of our own; another copy would only take room,
        // and a damaged one would come again.
        options.set_cache(RequestCache::NoStore);
        if start > 0 || end.is_some() {
            // Such a range needs no preflight, which some hosts refuse.
            let last = end.map(|end| (end - 1).to_string()).unwrap_or_default();
            let range = Array::of2(&"range".into(), &format!("bytes={start}-{last}").into());
            options.set_headers(&Array::of1(&range));
        }
        let fetched = JsFuture::from(global_fetch(address, &options)).await;
        let response = match fetched.map_err(|reason| failed(address, signal, &reason)) {
            Ok(response) => response.unchecked_into::<Response>(),
            // Only HTTP can say that a file is not there: an extension's address fails.
            Err(Error::Fetch { .. }) if !is_http(address) => return self.absent(address),
            Err(error) => return Err(error),
        };
        let Some(body) = response.body() else {
            let reason = "the response has no body".into();
            return Err(Error::Fetch { what: address.into(), reason });
        };
        let length = content_length(&response);
        Ok(Answer {
            status: response.status(),
            reason: response.status_text(),
            is_page: header(&response, "content-type")
                .is_some_and(|kind| kind.starts_with("text/html")),
            content_range: header(&response, "content-range"),
            // A weak one may stay when bytes change.
            version: header(&response, "etag").filter(|tag| tag.starts_with('"')),
            // Dropped unread, it stops the transfer.
            body: JsStream::new(address, body, self.signal.clone(), length)?,
        })
    }

    fn wait(&self, time: Duration) -> impl Future<Output = ()> {
        sleep(time)
    }
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
        Ok(JsStream { what: what.into(), signal, reader, next: None, length })
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
        let next = self.next.get_or_insert_with(|| self.reader.read().into());
        let result: ReadableStreamReadResult = next
            .await
            .map_err(|reason| failed(&self.what, self.signal.as_ref(), &reason))?
            .unchecked_into();
        self.next = None;
        let value = result.get_value();
        if value.is_undefined() {
            return Ok(None);
        }
        self.next = Some(self.reader.read().into());
        Ok(Some(Chunk::owned(value.unchecked_into::<Uint8Array>())))
    }
}

impl Drop for JsStream {
    fn drop(&mut self) {
        let cancelled = JsFuture::from(self.reader.cancel());
        spawn_local(async {
            // Fails if the transfer has failed, which was reported then.
            let _ = cancelled.await;
        });
    }
}

/// The error that a rejected promise stands for.
fn failed(what: &str, signal: Option<&AbortSignal>, reason: &JsValue) -> Error {
    if signal.is_some_and(AbortSignal::aborted) {
        return Error::Aborted;
    }
    let reason = match reason.dyn_ref::<js_sys::Error>() {
        Some(error) => String::from(error.to_string()),
        None => format!("{reason:?}"),
    };
    Error::Fetch { what: what.into(), reason }
}

fn is_http(address: &str) -> bool {
    address.starts_with("https:") || address.starts_with("http:")
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).ok().flatten()
}

/// Bytes of the body, unless it is compressed and the header counts the compressed bytes.
fn content_length(response: &Response) -> Option<u64> {
    // Other origins show their length, but not whether they compress.
    if response.type_() == ResponseType::Cors {
        return None;
    }
    match header(response, "content-encoding").as_deref() {
        None | Some("identity") => header(response, "content-length")?.parse().ok(),
        Some(_) => None,
    }
}
