//! The message port between the host and a tab.

use js_sys::{Function, Reflect};
use serde::Serialize;
use wasm_bindgen::prelude::*;
use web_sys::MessageEvent;

use crate::{
    Error,
    host::{Answer, Call, Refused},
};

#[wasm_bindgen]
extern "C" {
    /// A `MessagePort`, or a `BroadcastChannel` with a single listening tab.
    #[wasm_bindgen(typescript_type = "MessagePort | BroadcastChannel")]
    pub type Port;
    #[wasm_bindgen(method, structural, catch, js_name = postMessage)]
    fn post_message(this: &Port, message: &JsValue) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, setter)]
    fn set_onmessage(this: &Port, handler: Option<&Function>);
    #[wasm_bindgen(method, structural)]
    fn close(this: &Port);
}

/// An open port.
pub struct Line {
    port: Port,
    _on_message: Closure<dyn FnMut(MessageEvent)>,
}

impl Line {
    /// Listens to a port; `to_json` converts its messages. The second argument of the callback is the
    /// files of a local model to load.
    pub fn open(
        port: Port,
        to_json: Function,
        mut on_call: impl FnMut(Result<Call, Refused>, JsValue) + 'static,
    ) -> Line {
        let on_message = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            let data = event.data();
            let call = read(&data, &to_json);
            let files = match &call {
                Ok(Call::Load { files: Some(_), .. }) => Reflect::get(&data, &"files".into()),
                _ => Ok(JsValue::UNDEFINED),
            };
            on_call(call, files.unwrap_or_default());
        });
        port.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        Line { port, _on_message: on_message }
    }

    /// Sends an answer.
    pub fn send(&self, answer: &Answer) {
        let serializer = serde_wasm_bindgen::Serializer::json_compatible();
        match answer.serialize(&serializer) {
            Ok(value) => {
                if let Err(error) = self.port.post_message(&value) {
                    log::error!("an answer could not be posted: {error:?}");
                }
            }
            Err(error) => log::error!("an answer could not be serialised: {error}"),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.port.set_onmessage(None);
        self.port.close();
    }
}

/// Reads a message through JSON: robust against cycles, deep nesting and unusual objects.
fn read(data: &JsValue, to_json: &Function) -> Result<Call, Refused> {
    match to_json.call1(&JsValue::NULL, data).ok().and_then(|json| json.as_string()) {
        Some(json) => Call::read(&json),
        None => {
            let message = "found what JSON cannot express, expected a call".into();
            Err((0, Error::InvalidRequest { param: "message".into(), message }))
        }
    }
}
