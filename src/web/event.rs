//! What happens to a host, on its way to its loop.

use futures::channel::{mpsc::UnboundedSender, oneshot};
use wasm_bindgen::JsValue;

use super::port::Port;
use crate::{
    Result,
    engine::TabId,
    executor::AnyExecutor,
    host::{Call, Info, ModelId, Progress, Refused},
    service::Service,
};

/// Something that happened.
pub enum Event {
    Connected(Port),
    /// A message, and the files of a model to load.
    Called(TabId, Result<Call, Refused>, JsValue),
    Gone(TabId),
    Sized(ModelId, u64, oneshot::Sender<()>),
    Progress(ModelId, Progress),
    Loaded(ModelId, Box<Result<(Service<AnyExecutor>, Info)>>),
    /// A model that had nothing to do has something to do.
    Woken,
}

/// Hands an event to the loop, which lives as long as the worker.
pub fn tell(inbox: &UnboundedSender<Event>, event: Event) {
    let _ = inbox.unbounded_send(event);
}
