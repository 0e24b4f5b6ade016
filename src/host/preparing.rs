//! Calls whose texts are being tokenised, in pieces between steps, or whose prefixes are being read from storage.

use std::collections::VecDeque;

use futures::{FutureExt, future::LocalBoxFuture};

use super::protocol::Value;
use crate::{
    Result,
    engine::{RequestId, TabId},
    service::{Prompts, Service},
};

/// The calls, in the order of their turns.
pub struct Preparing<E> {
    waiting: VecDeque<Call<E>>,
    /// Their prefixes are being read.
    reading: Vec<Prepared<E>>,
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
pub struct Begin<E> {
    /// The tokens of its prompt, of the first if it has several; empty if nothing is generated.
    pub prompt: Vec<u32>,
    pub begin: Start<E>,
}

type Start<E> = Box<dyn FnOnce(&mut Service<E>) -> Result<Begun>>;

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
        Preparing { waiting: VecDeque::new(), reading: Vec::new(), done: Vec::new() }
    }

    /// Does the first piece of a call's work. Returns the call if that was all.
    pub fn insert<T: Prompts + 'static>(
        &mut self,
        tab: TabId,
        id: u32,
        work: LocalBoxFuture<'static, Result<T>>,
        begin: impl FnOnce(&mut Service<E>, T) -> Result<Begun> + 'static,
    ) -> Option<Prepared<E>> {
        let work = work.map(|prepared| {
            prepared.map(|prepared| Begin {
                prompt: prepared.prompt().to_vec(),
                begin: Box::new(move |service: &mut Service<E>| begin(service, prepared)),
            })
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

    /// Adds a call whose prefix is being read.
    pub fn read(&mut self, call: Prepared<E>) {
        self.reading.push(call);
    }

    /// The prompt of a call whose prefix is being read.
    pub fn prompt(&self, tab: TabId, id: u32) -> Option<&[u32]> {
        let call = self.reading.iter().find(|call| (call.tab, call.id) == (tab, id))?;
        call.begin.as_ref().ok().map(|begin| &begin.prompt[..])
    }

    /// Removes and returns a call whose prefix was read.
    pub fn has_read(&mut self, tab: TabId, id: u32) -> Option<Prepared<E>> {
        let at = self.reading.iter().position(|call| (call.tab, call.id) == (tab, id))?;
        Some(self.reading.remove(at))
    }

    /// Removes a tab's calls, or only the call `id`.
    pub fn remove(&mut self, tab: TabId, id: Option<u32>) {
        let stays = |(of, call)| of != tab || id.is_some_and(|id| call != id);
        self.waiting.retain(|call| stays((call.tab, call.id)));
        self.reading.retain(|call| stays((call.tab, call.id)));
    }

    /// Whether a call of this tab has this id.
    pub fn contains(&self, tab: TabId, id: u32) -> bool {
        let mut waiting = self.waiting.iter().map(|call| (call.tab, call.id));
        let mut reading = self.reading.iter().map(|call| (call.tab, call.id));
        waiting.any(|call| call == (tab, id)) || reading.any(|call| call == (tab, id))
    }

    /// Whether no call is left to tokenise.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
