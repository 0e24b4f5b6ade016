//! Model files over HTTP: the browser's `fetch` as a source of bytes.

use crate::error::{Error, Result};
use crate::weights::{ByteStream, Chunk, Source};
use js_sys::{Promise, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{
    AbortSignal, ReadableStreamDefaultReader, ReadableStreamReadResult, RequestInit, Response,
    ResponseType,
};

#[wasm_bindgen]
extern "C" {
    // The global function, not a method of `Window`: workers of all kinds have it too.
    #[wasm_bindgen(js_name = fetch)]
    fn global_fetch(address: &str, options: &RequestInit) -> Promise;
}

/// A folder on a web server.
#[derive(Clone, Debug)]
pub struct FetchSource {
    /// Ends with a slash.
    folder: String,
    signal: Option<AbortSignal>,
}

/// The body of a response.
#[derive(Debug)]
pub struct FetchStream {
    address: String,
    signal: Option<AbortSignal>,
    reader: ReadableStreamDefaultReader,
    length: Option<u64>,
}

impl FetchSource {
    /// Names a folder by its address; `signal` ends every transfer with [`Error::Aborted`].
    ///
    /// The browser resolves a relative address: in a worker, against the worker's own script.
    pub fn new(folder: &str, signal: Option<AbortSignal>) -> FetchSource {
        FetchSource { folder: format!("{}/", folder.trim_end_matches('/')), signal }
    }
}

impl Source for FetchSource {
    type Stream = FetchStream;

    async fn open(&self, file: &str) -> Result<Option<FetchStream>> {
        let address = self.locate(file);
        let signal = self.signal.clone();
        let options = RequestInit::new();
        options.set_signal(signal.as_ref());
        // A plain GET without headers of its own needs no preflight, which some hosts refuse.
        let response: Response = JsFuture::from(global_fetch(&address, &options))
            .await
            .map_err(|reason| failed(&address, signal.as_ref(), &reason))?
            .unchecked_into();
        let Some(body) = response.body() else {
            return Err(Error::Fetch { what: address, reason: "the response has no body".into() });
        };
        let reader = ReadableStreamDefaultReader::new(&body)
            .map_err(|reason| failed(&address, signal.as_ref(), &reason))?;
        // From here on a return without the stream drops it, which stops the transfer.
        let stream = FetchStream { address, signal, reader, length: content_length(&response) };
        let what = stream.address.clone();
        if matches!(response.status(), 404 | 410) {
            return Ok(None);
        }
        if !response.ok() {
            let reason = format!("HTTP status {} {}", response.status(), response.status_text());
            return Err(Error::Fetch { what, reason: reason.trim_end().into() });
        }
        if header(&response, "content-type").is_some_and(|kind| kind.starts_with("text/html")) {
            let found = "found an HTML page; the server probably has no such file".into();
            return Err(Error::Malformed { what, expected: "file of a model".into(), found });
        }
        Ok(Some(stream))
    }

    fn locate(&self, file: &str) -> String {
        format!("{}{file}", self.folder)
    }
}

impl ByteStream for FetchStream {
    fn length(&self) -> Option<u64> {
        self.length
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        let result: ReadableStreamReadResult = JsFuture::from(self.reader.read())
            .await
            .map_err(|reason| failed(&self.address, self.signal.as_ref(), &reason))?
            .unchecked_into();
        let value = result.get_value();
        Ok((!value.is_undefined()).then(|| Chunk::from(value.unchecked_into::<Uint8Array>())))
    }
}

impl Drop for FetchStream {
    fn drop(&mut self) {
        let cancelled = JsFuture::from(self.reader.cancel());
        spawn_local(async {
            // Fails if the transfer has failed, which was reported then.
            let _ = cancelled.await;
        });
    }
}

/// The error that a rejected promise stands for.
fn failed(address: &str, signal: Option<&AbortSignal>, reason: &JsValue) -> Error {
    if signal.is_some_and(AbortSignal::aborted) {
        return Error::Aborted;
    }
    let reason = match reason.dyn_ref::<js_sys::Error>() {
        Some(error) => String::from(error.to_string()),
        None => format!("{reason:?}"),
    };
    Error::Fetch { what: address.into(), reason }
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
