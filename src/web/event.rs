//! Events of a host, and how they reach its loop.

use futures::channel::{mpsc::UnboundedSender, oneshot};
use wasm_bindgen::JsValue;

use super::{loaded::LoadedModel, port::Port};
use crate::{
    Result,
    engine::TabId,
    host::{Call, Inspection, ModelId, Progress, Refused},
    prefixes::{Run, Written},
    step::EntryBlocks,
};

/// An event for the host's loop.
pub enum Event {
    Connected(Port),
    /// A message, and the files of a local model to load.
    Called(TabId, Result<Call, Refused>, JsValue),
    Gone(TabId),
    Sized(ModelId, u64, oneshot::Sender<()>),
    Progress(ModelId, Progress),
    Loaded(ModelId, Box<Result<LoadedModel>>),
    Inspected(TabId, u32, Result<Inspection>),
    /// A run of a model's prefixes was written, or was not.
    Written(ModelId, Run, Written),
    /// The record of them was written, or all had been deleted.
    Recorded(ModelId, bool),
    /// A run was read for a call, or could not be.
    Read(ModelId, (TabId, u32), Run, Option<EntryBlocks>, oneshot::Sender<()>),
    /// All runs of a call were read, or time is up.
    ReadAll(TabId, u32),
    /// An idle model may have work again.
    Woken,
}

/// Sends an event to the loop, which lives as long as the worker.
pub fn send(inbox: &UnboundedSender<Event>, event: Event) {
    let _ = inbox.unbounded_send(event);
}
