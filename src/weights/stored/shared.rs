//! What a stored source and its streams share.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    pin::pin,
    task::Poll,
};

use futures::future::LocalBoxFuture;

use super::super::store::Record;
use crate::manifest::Manifest;

/// The source and its store, and what has been learnt of their files.
pub(super) struct Shared<S, T> {
    pub(super) source: S,
    pub(super) store: Option<T>,
    pub(super) manifest: Option<Manifest>,
    pub(super) chunk_bytes: u64,
    /// Records of the files that were read.
    pub(super) records: RefCell<BTreeMap<String, Record>>,
    /// Files that did not exist.
    pub(super) absent: RefCell<BTreeSet<String>>,
    /// Whether the store still accepts data.
    pub(super) is_storing: Cell<bool>,
    /// The chunk that is being stored; resolves to whether that succeeded.
    pub(super) pending: RefCell<Option<LocalBoxFuture<'static, bool>>>,
}

impl<S, T> Shared<S, T> {
    /// Awaits a future while a chunk is being stored: it counts once its record is stored, too.
    pub(super) async fn meanwhile<F: Future>(&self, wanted: F) -> F::Output {
        let mut wanted = pin!(wanted);
        poll_fn(|context| {
            let mut pending = self.pending.borrow_mut();
            let stored = pending.as_mut().map(|pending| pending.as_mut().poll(context));
            if let Some(Poll::Ready(is_kept)) = stored {
                *pending = None;
                self.is_storing.set(is_kept && self.is_storing.get());
            }
            drop(pending);
            wanted.as_mut().poll(context)
        })
        .await
    }

    /// Waits until nothing is being stored.
    pub(super) async fn settle(&self) {
        let pending = self.pending.take();
        if let Some(pending) = pending
            && !pending.await
        {
            self.is_storing.set(false);
        }
    }
}
