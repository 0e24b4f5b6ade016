//! A source that stores the files of another source locally and verifies them.
//!
//! A file is stored in chunks. If the digest of a chunk is known, from a manifest or an earlier
//! download, the chunk is read as a whole and returned only if its digest matches. A file that is
//! downloaded for the first time, with at most its SHA-256 known, is returned as it arrives and checked
//! at its end.

mod shared;
mod stream;

use std::{cell::Cell, rc::Rc};

use super::{
    source::{RangeSource, Source},
    store::{Record, Store},
};
use crate::{
    error::{Error, Result},
    manifest::{CHUNK_BYTES, Digest, FileManifest, Manifest},
};
use shared::Shared;
pub use stream::StoredStream;

/// The files of a source, kept in a store and verified.
pub struct Stored<S, T> {
    shared: Rc<Shared<S, T>>,
}

impl<S: RangeSource + 'static, T: Store> Stored<S, T> {
    /// Reads `source` through `store`.
    ///
    /// Files must match `manifest`; unless that is partial, files that it does not list do not exist.
    pub fn new(source: S, store: Option<T>, manifest: Option<Manifest>) -> Stored<S, T> {
        Stored::with_chunks(source, store, manifest, CHUNK_BYTES)
    }

    pub(super) fn with_chunks(
        source: S,
        store: Option<T>,
        manifest: Option<Manifest>,
        chunk_bytes: u64,
    ) -> Stored<S, T> {
        let is_storing = Cell::new(store.is_some());
        let (records, absent, pending) = Default::default();
        Stored {
            shared: Rc::new(Shared {
                source,
                store,
                manifest,
                chunk_bytes,
                records,
                absent,
                is_storing,
                pending,
            }),
        }
    }

    /// Whether everything read so far is stored.
    pub fn is_stored(&self) -> bool {
        self.shared.is_storing.get()
    }

    /// A digest of all files that were read; `None` if the content of one is not known.
    pub fn digest(&self) -> Option<Digest> {
        let records = self.shared.records.borrow();
        let mut hasher = blake3::Hasher::new();
        for (file, record) in records.iter().filter(|(_, record)| !record.is_absent) {
            if !record.is_whole() {
                return None;
            }
            hasher.update(file.as_bytes()).update(&[0]);
            record.chunks.iter().for_each(|chunk| {
                hasher.update(&chunk.0);
            });
        }
        (hasher.count() > 0).then(|| Digest(hasher.finalize().into()))
    }

    /// Ends a load. On success the files are kept for good; after an error, files that may have caused
    /// it are deleted.
    pub async fn finish<M>(&self, loaded: Result<M>) -> Result<M> {
        let shared = &self.shared;
        shared.settle().await;
        let Some(store) = &shared.store else { return loaded };
        let records = shared.records.take();
        let unsealed = records.into_iter().filter(|(_, record)| !record.is_sealed);
        match &loaded {
            Ok(_) if shared.is_storing.get() => {
                let absent = shared.absent.take().into_iter().map(|file| {
                    let chunk_bytes = shared.chunk_bytes;
                    (file, Record { chunk_bytes, is_absent: true, ..Record::default() })
                });
                for (file, record) in unsealed.chain(absent) {
                    // A file that was not read to its end has to be fetched again.
                    let is_kept = (record.is_whole() || record.is_absent)
                        && Record { is_sealed: true, ..record }
                            .write(store, &shared.source.address(&file))
                            .await;
                    if !is_kept {
                        shared.is_storing.set(false);
                    }
                }
            }
            Err(error) if blames_files(error) => {
                for (file, record) in unsealed.filter(|(_, record)| record.sha256.is_none()) {
                    record.delete(store, &shared.source.address(&file)).await;
                }
            }
            _ => {}
        }
        loaded
    }

    /// The record of a file, if it agrees with the listed digests; otherwise a new one.
    async fn recall(&self, file: &str, listed: Option<&FileManifest>) -> Record {
        let Shared { store, records, chunk_bytes, .. } = &*self.shared;
        let had = records.borrow().get(file).cloned();
        if let Some(record) = had {
            return record;
        }
        let new = Record { chunk_bytes: *chunk_bytes, ..Record::default() };
        let Some(store) = store else { return new };
        let address = self.shared.source.address(file);
        let Some(record) = Record::read(store, &address, *chunk_bytes).await else { return new };
        let agrees = |listed: &FileManifest| {
            !record.is_absent
                && record.sha256.is_none_or(|sha256| sha256 == listed.sha256)
                && listed.bytes.is_none_or(|bytes| record.bytes.is_none_or(|had| had == bytes))
        };
        if listed.is_none_or(agrees) {
            records.borrow_mut().insert(file.into(), record.clone());
            return record;
        }
        record.delete(store, &address).await;
        new
    }
}

impl<S: RangeSource + 'static, T: Store> Source for Stored<S, T> {
    type Stream = StoredStream<S, T>;

    async fn open(&self, file: &str) -> Result<Option<StoredStream<S, T>>> {
        let manifest = self.shared.manifest.as_ref();
        let listed = manifest.and_then(|manifest| manifest.files.get(file)).cloned();
        if listed.is_none() && manifest.is_some_and(|manifest| !manifest.is_partial) {
            return Ok(None);
        }
        self.shared.settle().await;
        let record = self.recall(file, listed.as_ref()).await;
        if record.is_absent {
            return Ok(None);
        }
        let is_new = record.chunks.is_empty() && record.bytes.is_none();
        let mut stream = StoredStream::new(self.shared.clone(), file, listed, record);
        let is_there = match is_new {
            true => stream.begin_download(0).await,
            false => Ok(true),
        };
        if let Ok(false) | Err(Error::Malformed { .. }) = is_there {
            self.shared.absent.borrow_mut().insert(file.into());
        }
        Ok(is_there?.then_some(stream))
    }

    fn gguf(&self) -> Option<&str> {
        self.shared.source.gguf()
    }

    fn locate(&self, file: &str) -> String {
        self.shared.source.locate(file)
    }
}

/// Whether stored files may have caused the error. Files with wrong digests are already deleted.
fn blames_files(error: &Error) -> bool {
    !matches!(
        error,
        Error::Fetch { .. }
            | Error::MissingPart { .. }
            | Error::Integrity { .. }
            | Error::Aborted
            | Error::Closed
            | Error::NoGpu { .. }
            | Error::DeviceLost { .. }
            | Error::DeviceLostAgain { .. }
            | Error::Gpu { .. }
            | Error::Pipeline { .. }
            | Error::OutOfMemory { .. }
            | Error::TooLarge { .. }
            | Error::OverBudget { .. }
            | Error::InvalidRequest { .. }
    )
}
