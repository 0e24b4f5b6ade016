//! What a host does for prefixes that are stored between visits.

use super::{
    Host, Info, Isolation, Options, Tab, Task,
    preparing::Prepared,
    storing::{RunRead, Storing},
    turns::ModelId,
};
use crate::{
    engine::TabId,
    manifest::Digest,
    prefixes::{Prefixes, Run, Written},
    step::{EntryBlocks, Executor},
};

/// A digest of all that the keys and values of given tokens depend on. `version`: the engine's; `files`: those of the
/// model and of its drafter.
pub fn prefix_root(version: &str, options: &Options, info: &Info, files: [Digest; 2]) -> Digest {
    let Options { quantize, kv, sliding_window, draft, gpu, .. } = options;
    // Rotations may depend on the context.
    let Info { model, device, adapter, context, .. } = info;
    let depends = format!(
        "{version} {model} {files:?} {quantize:?} {kv:?} {sliding_window:?} {draft:?} {gpu:?} {device} {adapter} {context}"
    );
    Digest(blake3::hash(depends.as_bytes()).into())
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
        let has_more = ready.store_ended();
        self.tasks.extend(has_more.then_some(Task::Write { model }));
        next
    }

    /// Records that the record of a model's runs was written, or that a page has deleted all of them meanwhile.
    pub fn recorded(&mut self, model: ModelId, is_deleted: bool) {
        let Some(ready) = self.models.ready(model) else { return };
        if let Some(storing) = &mut ready.storing {
            storing.recorded(is_deleted);
        }
        let has_more = ready.store_ended();
        self.tasks.extend(has_more.then_some(Task::Write { model }));
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
        let (cached, most) = (engine.cached(prompt, salt), engine.host_entries());
        let (runs, within) = storing.prefixes.find(prompt, cached, most);
        let groups = storing.prefixes.shape().groups;
        (!runs.is_empty()).then_some(Task::Read { model, tab, id, runs, groups, within })
    }
}
