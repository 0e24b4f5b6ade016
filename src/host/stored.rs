//! The prefixes of a model that are stored between visits: which conversations wait to be stored, and what is
//! written.

use std::{collections::VecDeque, ops::Range};

use futures::{FutureExt, future::LocalBoxFuture};

use super::{Host, Isolation, Tab, Task, models::Ready, preparing::Prepared, turns::ModelId};
use crate::{
    engine::{Ended, Engine, TabId},
    prefixes::{Prefixes, Run, Written},
    step::{EntryBlocks, Executor},
};

/// Conversations that wait; the oldest are dropped.
const MOST: usize = 16;

/// A read of a run's blocks; `None` if it has failed.
pub type RunRead = LocalBoxFuture<'static, Option<EntryBlocks>>;

/// What a model stores, and has stored.
pub struct Storing {
    prefixes: Prefixes,
    /// The salt of the tabs that share their prefixes: only these are stored.
    salt: u64,
    /// Tokens of conversations that have ended.
    waiting: VecDeque<Vec<u32>>,
    is_writing: bool,
    /// Whether the storage refuses more.
    is_full: bool,
}

impl Storing {
    /// Stores conversations with this salt beside what is stored already.
    fn new(prefixes: Prefixes, salt: u64) -> Storing {
        Storing { prefixes, salt, waiting: VecDeque::new(), is_writing: false, is_full: false }
    }

    /// Adds conversations that have ended. Returns whether to store a run of one.
    fn add(&mut self, ended: Vec<Ended>) -> bool {
        for Ended { tokens, is_sound } in ended {
            if !is_sound {
                self.prefixes.forget(&tokens, 0);
            } else if !self.is_full {
                self.waiting.push_back(tokens);
            }
        }
        while self.waiting.len() > MOST {
            self.waiting.pop_front();
        }
        !self.waiting.is_empty() && !self.is_writing
    }

    /// The next run to store, and the read of its blocks.
    fn next_run(&mut self, engine: &mut Engine<impl Executor>) -> Option<(Run, RunRead)> {
        while let Some(tokens) = self.waiting.front().filter(|_| !self.is_writing) {
            let on_device = engine.on_device(tokens, self.salt);
            let Some(run) = self.prefixes.missing(tokens, on_device) else {
                self.waiting.pop_front();
                continue;
            };
            let Range { start, end } = run.entries;
            let read = engine.read_prefix(tokens, self.salt, start..end)?;
            self.is_writing = true;
            return Some((run, read.map(Result::ok).boxed_local()));
        }
        None
    }

    /// Records what came of writing a run. Returns the slots to delete and the record to write.
    fn written(&mut self, run: Run, written: Written) -> Option<(Vec<u32>, Vec<u8>)> {
        self.is_writing = false;
        match written {
            Written::Bytes(bytes) => {
                let dropped = self.prefixes.insert(Run { bytes, ..run });
                self.is_writing = true;
                return Some((dropped, self.prefixes.record()));
            }
            Written::Refused => {
                self.is_full = true;
                self.waiting.clear();
            }
            Written::Deleted => self.prefixes.clear(),
        }
        None
    }
}

impl<E: Executor> Ready<E> {
    /// Notes the conversations that have ended, if they are stored. Returns the task of storing a run of one.
    pub fn store_ended(&mut self, model: ModelId) -> Option<Task> {
        let ended = self.service.engine().take_ended();
        self.storing.as_mut()?.add(ended).then_some(Task::Write { model })
    }
}

impl<E: Executor + 'static> Host<E> {
    /// Has a loaded model store the prefixes of tabs that share them, and find what is stored.
    pub fn store_prefixes(&mut self, model: ModelId, prefixes: Prefixes) {
        let salt = self.salt(TabId(0), &Isolation::Shared);
        if let Some(ready) = self.models.ready(model) {
            ready.service.engine().note_ended_of(salt);
            ready.storing = Some(Storing::new(prefixes, salt));
        }
    }

    /// The next run of a model to store, with the read of its blocks: steps go on meanwhile.
    pub fn next_run(&mut self, model: ModelId) -> Option<(Run, RunRead)> {
        let ready = self.models.ready(model)?;
        ready.storing.as_mut()?.next_run(ready.service.engine())
    }

    /// Records what came of writing a run. Returns the slots of runs to delete, and the record to write.
    pub fn written(
        &mut self,
        model: ModelId,
        run: Run,
        written: Written,
    ) -> Option<(Vec<u32>, Vec<u8>)> {
        let ready = self.models.ready(model)?;
        let next = ready.storing.as_mut()?.written(run, written);
        self.tasks.extend(ready.store_ended(model));
        next
    }

    /// Records that the record of a model's runs was written.
    pub fn recorded(&mut self, model: ModelId) {
        let Some(ready) = self.models.ready(model) else { return };
        if let Some(storing) = &mut ready.storing {
            storing.is_writing = false;
        }
        self.tasks.extend(ready.store_ended(model));
    }

    /// Takes the blocks of a run that was read for a call; `None` if that has failed.
    pub fn read(
        &mut self,
        model: ModelId,
        (tab, id): (TabId, u32),
        run: &Run,
        blocks: Option<&EntryBlocks>,
    ) {
        let Some(ready) = self.models.ready(model) else { return };
        let Some(storing) = &mut ready.storing else { return };
        // Without a prompt the call was cancelled.
        let Some(prompt) = self.preparing.prompt(tab, id) else { return };
        match blocks {
            Some(blocks) => ready.service.engine().adopt(tab, prompt, storing.salt, blocks),
            None => storing.prefixes.forget(prompt, run.entries.start),
        }
    }

    /// Begins a call whose runs were read.
    pub fn begin_read(&mut self, tab: TabId, id: u32) {
        if let Some(prepared) = self.preparing.has_read(tab, id) {
            self.begin(prepared);
        }
    }

    /// Begins a call whose texts are tokens, once what is stored of its prefix was read.
    pub(super) fn read_or_begin(&mut self, prepared: Prepared<E>) {
        let Prepared { tab, id, .. } = prepared;
        let prompt = prepared.begin.as_ref().map_or(&[][..], |begin| &begin.prompt);
        match self.read_of(tab, id, prompt) {
            Some(read) => {
                self.preparing.read(prepared);
                self.tasks.push(read);
            }
            None => self.begin(prepared),
        }
    }

    /// The read of the stored runs that continue what is cached of a call's prompt, if there are any.
    fn read_of(&mut self, tab: TabId, id: u32, prompt: &[u32]) -> Option<Task> {
        let Tab { model, salt, .. } = self.tabs.get(&tab)?;
        let (model, salt) = ((*model)?, *salt);
        let ready = self.models.ready(model)?;
        let storing = ready.storing.as_mut().filter(|storing| storing.salt == salt)?;
        let engine = ready.service.engine();
        if let Some(row) = engine.row_time() {
            storing.prefixes.measured(row);
        }
        let (runs, within) = storing.prefixes.find(prompt, engine.cached(prompt, salt));
        let groups = storing.prefixes.shape().groups;
        (!runs.is_empty()).then_some(Task::Read { model, tab, id, runs, groups, within })
    }
}
