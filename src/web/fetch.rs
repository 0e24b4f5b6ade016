//! Model files over HTTP, with the browser's `fetch`.

use std::{future::Future, time::Duration};

use crate::error::{Error, Result};
use crate::timer::sleep;
use crate::weights::{Answer, HttpSource, Server};
use js_sys::{Array, Promise};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortSignal, ReadableStream, RequestCache, RequestInit, Response, ResponseType};

use super::stream::{JsStream, failed};

#[wasm_bindgen]
extern "C" {
    // The global function, not the method of `Window`: all kinds of workers have it, too.
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

impl Fetch {
    /// `signal` ends every transfer with [`Error::Aborted`].
    ///
    /// The browser resolves relative URLs; in a worker, relative to the worker's script.
    pub fn new(signal: Option<AbortSignal>) -> Fetch {
        Fetch { signal }
    }

    /// The response of a web server without such a file.
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
        // The HTTP cache is bypassed: our store keeps the files, a second copy would take space, and a
        // damaged copy would be served again.
        options.set_cache(RequestCache::NoStore);
        if start > 0 || end.is_some() {
            // A range in this form needs no CORS preflight, which some servers refuse.
            let last = end.map(|end| (end - 1).to_string()).unwrap_or_default();
            let range = Array::of2(&"range".into(), &format!("bytes={start}-{last}").into());
            options.set_headers(&Array::of1(&range));
        }
        let fetched = JsFuture::from(global_fetch(address, &options)).await;
        let response = match fetched.map_err(|reason| failed(address, signal, &reason)) {
            Ok(response) => response.unchecked_into::<Response>(),
            // Only HTTP has a status for a missing file; a request to an extension's URL fails.
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
            // A weak ETag may stay the same when bytes change.
            version: header(&response, "etag").filter(|tag| tag.starts_with('"')),
            // Dropping it aborts the transfer.
            body: JsStream::new(address, body, self.signal.clone(), length)?,
        })
    }

    fn wait(&self, time: Duration) -> impl Future<Output = ()> {
        sleep(time)
    }
}

fn is_http(address: &str) -> bool {
    address.starts_with("https:") || address.starts_with("http:")
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).ok().flatten()
}

/// Length of the body; `None` if the body is compressed, as the header has the compressed length.
fn content_length(response: &Response) -> Option<u64> {
    // Cross-origin responses expose their length, but not their encoding.
    if response.type_() == ResponseType::Cors {
        return None;
    }
    match header(response, "content-encoding").as_deref() {
        None | Some("identity") => header(response, "content-length")?.parse().ok(),
        Some(_) => None,
    }
}
