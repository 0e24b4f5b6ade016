//! Timers for pages and all kinds of workers.

use std::{pin::pin, time::Duration};

use futures::future::{Either, select};
use js_sys::{Function, Promise};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    // The global functions, not methods of `Window`.
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &Function, milliseconds: f64) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: &JsValue);
}

/// Waits at least this long.
pub fn sleep(time: Duration) -> impl Future<Output = ()> {
    let mut handle = JsValue::UNDEFINED;
    let fired = Promise::new(&mut |resolve, _| {
        handle = set_timeout(&resolve, time.as_millis() as f64);
    });
    let timer = Timer { handle };
    async move {
        let _ = JsFuture::from(fired).await; // never fails
        drop(timer);
    }
}

/// What a future gives, if it does within this time.
pub async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    match select(pin!(future), pin!(sleep(time))).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

/// A running timer; dropping it cancels it.
struct Timer {
    handle: JsValue,
}

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(&self.handle);
    }
}
