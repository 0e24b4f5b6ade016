//! Calls whose texts are being tokenised, in pieces between steps.

use std::collections::VecDeque;

use futures::{FutureExt, future::LocalBoxFuture};

use super::protocol::Value;
use crate::{
    Result,
    engine::{RequestId, TabId},
    service::Service,
};

/// The calls, in the order of their turns.
pub struct Preparing<E> {
    waiting: VecDeque<Call<E>>,
    done: Vec<Prepared<E>>,
}

struct Call<E> {
    tab: TabId,
    id: u32,
    /// Does a piece each time it is polled.
    work: LocalBoxFuture<'static, Result<Begin<E>>>,
}

/// A call that is ready to begin.
pub struct Prepared<E> {
    pub tab: TabId,
    pub id: u32,
    pub begin: Result<Begin<E>>,
}

/// Begins a call with what was prepared for it.
pub type Begin<E> = Box<dyn FnOnce(&mut Service<E>) -> Result<Begun>>;

/// A call that has begun.
pub enum Begun {
    /// It is over.
    Answered(Value),
    /// Its request is being answered: as a stream, if the page has credit for one.
    Request(RequestId, Option<u32>),
}

impl<E: 'static> Preparing<E> {
    /// No calls.
    pub fn new() -> Preparing<E> {
        Preparing { waiting: VecDeque::new(), done: Vec::new() }
    }

    /// Does the first piece of a call's work. Returns the call if that was all.
    pub fn insert<T: 'static>(
        &mut self,
        tab: TabId,
        id: u32,
        work: LocalBoxFuture<'static, Result<T>>,
        begin: impl FnOnce(&mut Service<E>, T) -> Result<Begun> + 'static,
    ) -> Option<Prepared<E>> {
        let work = work.map(|prepared| {
            let begin = |prepared| move |service: &mut Service<E>| begin(service, prepared);
            prepared.map(|prepared| Box::new(begin(prepared)) as Begin<E>)
        });
        let mut call = Call { tab, id, work: work.boxed_local() };
        let begin = (&mut call.work).now_or_never();
        if begin.is_none() {
            self.waiting.push_back(call);
        }
        begin.map(|begin| Prepared { tab, id, begin })
    }

    /// Does a piece of the work of the call whose turn it is.
    pub fn advance(&mut self) {
        let Some(mut call) = self.waiting.pop_front() else { return };
        match (&mut call.work).now_or_never() {
            Some(begin) => self.done.push(Prepared { tab: call.tab, id: call.id, begin }),
            None => self.waiting.push_back(call),
        }
    }

    /// Removes and returns the calls that are ready to begin, in order.
    pub fn take(&mut self) -> Vec<Prepared<E>> {
        std::mem::take(&mut self.done)
    }

    /// Removes a tab's calls, or only the call `id`.
    pub fn remove(&mut self, tab: TabId, id: Option<u32>) {
        self.waiting.retain(|call| call.tab != tab || id.is_some_and(|id| call.id != id));
    }

    /// Whether a call of this tab has this id.
    pub fn contains(&self, tab: TabId, id: u32) -> bool {
        self.waiting.iter().any(|call| call.tab == tab && call.id == id)
    }

    /// Whether no call is left.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
