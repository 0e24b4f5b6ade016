//! The prefixes of a model that are stored between visits: which conversations wait to be stored, and what is
//! written.

use std::{collections::VecDeque, ops::Range};

use futures::{FutureExt, future::LocalBoxFuture};

use crate::{
    engine::{Ended, Engine},
    prefixes::{Prefixes, Run, Written},
    step::{EntryBlocks, Executor},
};

/// Conversations that wait; the oldest are dropped.
const MOST: usize = 16;

/// A read of a run's blocks; `None` if it has failed.
pub type RunRead = LocalBoxFuture<'static, Option<EntryBlocks>>;

/// What a model stores, and has stored.
pub struct Storing {
    pub prefixes: Prefixes,
    /// The salt of the tabs that share their prefixes: only these are stored.
    pub salt: u64,
    /// Tokens of conversations that have ended.
    waiting: VecDeque<Vec<u32>>,
    pub is_writing: bool,
    /// Whether the storage refuses more.
    is_full: bool,
}

impl Storing {
    /// Stores conversations with this salt beside what is stored already.
    pub fn new(prefixes: Prefixes, salt: u64) -> Storing {
        Storing { prefixes, salt, waiting: VecDeque::new(), is_writing: false, is_full: false }
    }

    /// Adds conversations that have ended. Returns whether to store a run of one.
    pub fn add(&mut self, ended: Vec<Ended>) -> bool {
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
    pub fn next_run(&mut self, engine: &mut Engine<impl Executor>) -> Option<(Run, RunRead)> {
        while let Some(tokens) = self.waiting.front().filter(|_| !self.is_writing) {
            let found = engine.on_device(tokens, self.salt);
            let groups = self.prefixes.shape().groups;
            let Some(run) = self.prefixes.missing(tokens, found.len() / groups) else {
                self.waiting.pop_front();
                continue;
            };
            let Range { start, end } = run.entries;
            let read = engine.read_entries(start, &found[start * groups..end * groups])?;
            self.is_writing = true;
            return Some((run, read.map(Result::ok).boxed_local()));
        }
        None
    }

    /// Records that the record was written, or that all runs were deleted meanwhile.
    pub fn recorded(&mut self, is_deleted: bool) {
        self.is_writing = false;
        if is_deleted {
            self.forget();
        }
    }

    /// Records what came of writing a run. Returns the slots to delete and the record to write.
    pub fn written(&mut self, run: Run, written: Written) -> Option<(Vec<u32>, Vec<u8>)> {
        match written {
            // Its record is to be written.
            Written::Bytes(bytes) => {
                let dropped = self.prefixes.insert(Run { bytes, ..run });
                return Some((dropped, self.prefixes.record()));
            }
            Written::Refused => {
                self.is_full = true;
                self.waiting.clear();
            }
            Written::Deleted => self.forget(),
        }
        self.is_writing = false;
        None
    }

    /// Forgets all runs, which were deleted; so was what had ended before.
    fn forget(&mut self) {
        self.prefixes.clear();
        self.waiting.clear();
    }
}
