//! The files of runs, in the site's storage.

use std::cell::Cell;

use super::run::Run;
use crate::{
    step::EntryBlocks,
    weights::{ByteStream, Chunk, Store},
};

/// Longest record of runs.
const RECORD_BYTES: u64 = 16 << 20;

/// Reads and writes the runs of one model. Their keys follow the model's address, so that they are listed and
/// deleted with it.
pub struct RunFiles<S> {
    store: S,
    address: String,
    /// Whether the store has a record of the runs.
    has_record: Cell<bool>,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Written {
    /// Bytes of the file.
    Bytes(u64),
    /// The storage refuses, or has little room.
    Refused,
    /// All runs were deleted meanwhile, by a page; nothing was written.
    Deleted,
}

impl<S: Store> RunFiles<S> {
    /// The files beside the model of this address, and the record of what they hold; empty without one.
    pub async fn open(store: S, address: String) -> (RunFiles<S>, Vec<u8>) {
        let files = RunFiles { store, address, has_record: Cell::new(false) };
        let record = files.load(&files.record_key(), RECORD_BYTES).await;
        files.has_record.set(record.is_some());
        (files, record.unwrap_or_default())
    }

    /// The blocks of a run; `None` if its file is not there or not as it was written.
    pub async fn read(&self, run: &Run, groups: usize) -> Option<EntryBlocks> {
        let file = self.load(&self.key(run.slot), run.bytes).await?;
        run.decode(&file, groups)
    }

    /// Writes the file of a run.
    pub async fn write(&self, run: &Run, blocks: &EntryBlocks) -> Written {
        if self.are_deleted().await {
            return Written::Deleted;
        }
        let file = run.encode(blocks);
        let bytes = file.len() as u64;
        let fits = self.store.room().await.is_none_or(|room| 2 * bytes <= room);
        match fits && self.store.put(&self.key(run.slot), &[Chunk::from(file)]).await {
            true => Written::Bytes(bytes),
            false => Written::Refused,
        }
    }

    /// Writes the record after the file of `run`, and deletes the files of runs that it does not have any more.
    /// Returns true if a page has deleted all runs meanwhile: then `run` is deleted as well.
    pub async fn write_record(&self, run: &Run, record: Vec<u8>, dropped: &[u32]) -> bool {
        if self.are_deleted().await {
            self.store.delete(&self.key(run.slot)).await;
            return true;
        }
        let is_kept = self.store.put(&self.record_key(), &[Chunk::from(record)]).await;
        self.has_record.set(self.has_record.get() || is_kept);
        for slot in dropped {
            self.store.delete(&self.key(*slot)).await;
        }
        false
    }

    /// Whether a page has deleted all runs, and with them the record.
    async fn are_deleted(&self) -> bool {
        let is_gone = self.has_record.get() && self.store.get(&self.record_key()).await.is_none();
        self.has_record.set(self.has_record.get() && !is_gone);
        is_gone
    }

    fn record_key(&self) -> String {
        format!("{}?tabloom-kv", self.address)
    }

    fn key(&self, slot: u32) -> String {
        format!("{}={slot}", self.record_key())
    }

    /// A file of at most so many bytes.
    async fn load(&self, key: &str, most: u64) -> Option<Vec<u8>> {
        let mut stream = self.store.get(key).await?;
        let mut file = Vec::new();
        while let Some(chunk) = stream.next().await.ok()? {
            let start = file.len();
            if (start + chunk.len()) as u64 > most {
                return None;
            }
            file.resize(start + chunk.len(), 0);
            chunk.copy_to(&mut file[start..]);
        }
        Some(file)
    }
}
