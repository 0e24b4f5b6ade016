//! Events of a host, and how they reach its loop.

use futures::channel::{mpsc::UnboundedSender, oneshot};
use wasm_bindgen::JsValue;

use super::port::Port;
use crate::{
    Result,
    engine::TabId,
    executor::AnyExecutor,
    host::{Call, Info, Inspection, ModelId, Progress, Refused},
    service::Service,
};

/// An event for the host's loop.
pub enum Event {
    Connected(Port),
    /// A message, and the files of a local model to load.
    Called(TabId, Result<Call, Refused>, JsValue),
    Gone(TabId),
    Sized(ModelId, u64, oneshot::Sender<()>),
    Progress(ModelId, Progress),
    Loaded(ModelId, Box<Result<(Service<AnyExecutor>, Info)>>),
    Inspected(TabId, u32, Result<Inspection>),
    /// An idle model may have work again.
    Woken,
}

/// Sends an event to the loop, which lives as long as the worker.
pub fn send(inbox: &UnboundedSender<Event>, event: Event) {
    let _ = inbox.unbounded_send(event);
}
