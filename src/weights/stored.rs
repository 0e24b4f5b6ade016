//! A source that stores the files of another source locally and verifies them.
//!
//! A file is stored in chunks. If the digest of a chunk is known, from a manifest or an earlier
//! download, the chunk is read as a whole and returned only if its digest matches. A file that is
//! downloaded for the first time, with at most its SHA-256 known, is returned as it arrives and checked
//! at its end.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    pin::pin,
    rc::Rc,
    task::Poll,
};

use futures::{
    FutureExt,
    future::{LocalBoxFuture, join, poll_immediate},
};
use sha2::Sha256;

use super::{
    Chunk,
    hash::{Hash, sha256},
    reader::Reader,
    source::{ByteStream, Length, RangeSource, Source, missing},
    store::{Record, Store, chunk_key},
};
use crate::{
    error::{Error, Result},
    manifest::{CHUNK_BYTES, Digest, FileManifest, Manifest},
};

/// Attempts to download a chunk with the right digest.
const ATTEMPTS: usize = 2;

/// The files of a source, kept in a store and verified.
pub struct Stored<S, T> {
    shared: Rc<Shared<S, T>>,
}

struct Shared<S, T> {
    source: S,
    store: Option<T>,
    manifest: Option<Manifest>,
    chunk_bytes: u64,
    /// Records of the files that were read.
    records: RefCell<BTreeMap<String, Record>>,
    /// Files that did not exist.
    absent: RefCell<BTreeSet<String>>,
    /// Whether the store still accepts data.
    is_storing: Cell<bool>,
    /// The chunk that is being stored; resolves to whether that succeeded.
    pending: RefCell<Option<LocalBoxFuture<'static, bool>>>,
}

/// A file that is read from a store, a source, or both.
pub struct StoredStream<S: RangeSource, T: Store> {
    shared: Rc<Shared<S, T>>,
    file: String,
    listed: Option<FileManifest>,
    record: Record,
    /// Index of the current chunk.
    index: usize,
    /// Bytes of the chunks before it.
    before: u64,
    /// The download, from byte `from` of the file on, if there is one.
    download: Option<Reader<S::Stream>>,
    from: u64,
    /// Length of the file, as its reader has found.
    expected: Option<Length>,
    /// The stored entry of a chunk, opened while the chunk before it was read.
    ahead: Option<(usize, T::Stream)>,
    /// Bytes of a verified chunk that are not returned yet.
    ready: VecDeque<Chunk>,
    /// The part of a chunk that was returned before it could be verified.
    passing: Option<Part>,
    /// Digest of the chunks before, if the file's digest is to be checked.
    whole: Option<Sha256>,
    is_over: bool,
}

/// A chunk, as far as it was received.
#[derive(Default)]
struct Part {
    pieces: Vec<Chunk>,
    bytes: u64,
    hash: Hash,
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
        let unchecked = listed.as_ref().filter(|listed| record.sha256 != Some(listed.sha256));
        let mut stream = StoredStream {
            shared: self.shared.clone(),
            file: file.into(),
            whole: unchecked.map(|_| Sha256::default()),
            listed,
            record,
            index: 0,
            before: 0,
            download: None,
            from: 0,
            expected: None,
            ahead: None,
            ready: VecDeque::new(),
            passing: None,
            is_over: false,
        };
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

impl<S: RangeSource + 'static, T: Store> ByteStream for StoredStream<S, T> {
    fn length(&self) -> Option<u64> {
        let listed = self.listed.as_ref().and_then(|listed| listed.bytes);
        self.record.bytes.or(listed).or(self.record.length)
    }

    fn expect(&mut self, length: Length) {
        self.expected = Some(length);
        let is_known = self.length().is_some();
        if let Some(reader) = self.download.as_mut().filter(|_| !is_known) {
            reader.expect(length);
        }
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            if self.is_over {
                return Ok(None);
            }
            if self.is_complete() {
                self.end().await?;
            } else if let Some(digest) = self.digest() {
                self.verify(digest).await?;
            } else if let Some(piece) = self.pass().await? {
                return Ok(Some(piece));
            }
        }
    }
}

impl<S: RangeSource + 'static, T: Store> StoredStream<S, T> {
    fn address(&self) -> String {
        self.shared.source.address(&self.file)
    }

    /// The store's key of a chunk.
    fn key(&self, index: usize) -> String {
        chunk_key(&self.address(), index)
    }

    /// The listed digests of the chunks.
    fn listed(&self) -> &[Digest] {
        self.listed.as_ref().map_or(&[], |listed| &listed.chunks)
    }

    /// The digest that the current chunk must have, if known.
    fn digest(&self) -> Option<Digest> {
        self.listed().get(self.index).or(self.record.chunks.get(self.index)).copied()
    }

    /// Whether all chunks have been read, if their number is known.
    fn is_complete(&self) -> bool {
        match self.listed() {
            [] => self.record.bytes.is_some() && self.index == self.record.chunks.len(),
            chunks => self.index == chunks.len(),
        }
    }

    /// Makes the current chunk ready to return, if its digest matches.
    async fn verify(&mut self, digest: Digest) -> Result<()> {
        let part = match self.read_kept(digest).await {
            Some(part) => part,
            None => {
                let part = self.download_verified(digest).await?;
                self.keep(&part, digest).await;
                part
            }
        };
        self.ready = part.pieces.into();
        self.step(part.bytes, part.hash.whole);
        Ok(())
    }

    /// The stored chunk, if its digest matches.
    async fn read_kept(&mut self, digest: Digest) -> Option<Part> {
        let index = self.index;
        self.shared.settle().await;
        let mut stream = match self.ahead.take() {
            Some((ahead, stream)) if ahead == index => stream,
            _ => self.open_kept(index).await?,
        };
        let read = async {
            let mut part = self.new_part(self.whole.clone());
            while let Some(piece) = stream.next().await? {
                part.push(piece);
            }
            Ok::<_, Error>(part)
        };
        let (part, ahead) = join(read, self.open_kept(index + 1)).await;
        self.ahead = ahead.map(|stream| (index + 1, stream));
        let part = part.ok().filter(|part| part.hash.chunk() == Some(digest));
        if part.is_none() {
            self.shared.store.as_ref()?.delete(&self.key(index)).await;
        }
        part
    }

    /// The stored entry of a chunk.
    async fn open_kept(&self, index: usize) -> Option<T::Stream> {
        let store = self.shared.store.as_ref().filter(|_| index < self.record.chunks.len())?;
        store.get(&self.key(index)).await
    }

    /// Downloads the chunk, and once more if its digest does not match.
    async fn download_verified(&mut self, digest: Digest) -> Result<Part> {
        let mut found = None;
        for _ in 0..ATTEMPTS {
            let mut part = self.new_part(self.whole.clone());
            while let Some(piece) = self.download(part.bytes).await? {
                part.push(piece);
            }
            found = part.hash.chunk();
            if found == Some(digest) {
                return Ok(part);
            }
            self.download = None;
        }
        if self.listed().is_empty() {
            // More likely the file has changed since it was first trusted: the next load starts anew.
            self.forget().await;
        }
        let found = found.map_or(String::new(), String::from);
        Err(self.damaged(format!("chunk {} with BLAKE3 {digest}", self.index), found))
    }

    /// Returns the next bytes of a chunk with an unknown digest; `None` at the end of the file.
    async fn pass(&mut self) -> Result<Option<Chunk>> {
        let mut part = match self.passing.take() {
            Some(part) => part,
            None => {
                let whole = self.whole.take();
                self.new_part(whole)
            }
        };
        match self.download(part.bytes).await? {
            Some(piece) => {
                part.push(piece.clone());
                if !self.shared.is_storing.get() {
                    part.pieces.clear();
                }
                self.passing = Some(part);
                Ok(Some(piece))
            }
            None => {
                let is_last = part.bytes < self.shared.chunk_bytes;
                if is_last {
                    self.record.bytes = Some(self.before + part.bytes);
                }
                if let Some(digest) = part.hash.chunk().filter(|_| part.bytes > 0) {
                    self.keep(&part, digest).await;
                }
                self.step(part.bytes, part.hash.whole);
                if is_last {
                    self.end().await?;
                }
                Ok(None)
            }
        }
    }

    /// Advances to the next chunk.
    fn step(&mut self, bytes: u64, whole: Option<Sha256>) {
        self.before += bytes;
        self.whole = whole;
        self.index += 1;
    }

    /// Checks the file, after all its bytes were received.
    async fn end(&mut self) -> Result<()> {
        self.is_over = true;
        self.expect_listed(Some(self.before)).await?;
        if let Some(listed) = &self.listed {
            let expected = listed.sha256;
            if let Some(found) = self.whole.take().map(sha256) {
                if found != expected {
                    self.forget().await;
                    return Err(self.damaged(format!("SHA-256 {expected}"), found.to_string()));
                }
                // A record from before is stored again, with the digest.
                self.record.is_sealed = false;
            }
            self.record.sha256 = Some(expected);
        }
        self.record.bytes = Some(self.before);
        if self.record.is_whole() {
            self.note();
        }
        Ok(())
    }

    /// Refuses a file that does not have the listed length.
    async fn expect_listed(&mut self, found: Option<u64>) -> Result<()> {
        let listed = self.listed.as_ref().and_then(|listed| listed.bytes);
        match listed.zip(found) {
            Some((listed, found)) if listed != found => {
                self.forget().await;
                Err(self.damaged(format!("{listed} bytes"), format!("{found} bytes")))
            }
            _ => Ok(()),
        }
    }

    /// Keeps the record for the end of the load, or until the file is opened again.
    fn note(&self) {
        self.shared.records.borrow_mut().insert(self.file.clone(), self.record.clone());
    }

    /// The next bytes of the chunk, after `had` bytes; `None` at its end.
    async fn download(&mut self, had: u64) -> Result<Option<Chunk>> {
        let limit = self.shared.chunk_bytes - had;
        if limit == 0 {
            return Ok(None);
        }
        let at = self.before + had;
        let is_there =
            self.download.as_ref().is_some_and(|reader| self.from + reader.position() == at);
        if !is_there && !self.begin_download(at).await? {
            return Err(missing(&self.shared.source, &self.file));
        }
        match &mut self.download {
            Some(reader) => self.shared.meanwhile(reader.next(limit)).await,
            None => Ok(None),
        }
    }

    /// Starts to download the file from byte `at` on. Returns false if it does not exist.
    async fn begin_download(&mut self, at: u64) -> Result<bool> {
        let Some(stream) = self.shared.source.open_at(&self.file, at).await? else {
            return Ok(false);
        };
        let (length, version) = (stream.length(), stream.version().map(str::to_owned));
        self.expect_listed(length).await?;
        let Record { length: had_length, version: had_version, .. } = &self.record;
        let is_other = had_length.zip(length).is_some_and(|(had, has)| had != has)
            || had_version.as_ref().zip(version.as_ref()).is_some_and(|(had, has)| had != has);
        // If the digest is known, it decides instead.
        if is_other && self.digest().is_none() {
            let expected = describe(*had_length, had_version.as_deref());
            self.forget().await;
            return Err(self.damaged(expected, describe(length, version.as_deref())));
        }
        self.record.length = length.or(self.record.length);
        self.record.version = version.or(self.record.version.take());
        if self.shared.is_storing.get()
            && let (Some(store), Some(length)) = (&self.shared.store, self.length())
            && store.room().await.is_some_and(|room| room < length - at.min(length))
        {
            self.shared.is_storing.set(false);
        }
        self.from = at;
        let mut reader = Reader::new(stream);
        if let Some(length) = self.length().map(Length::Exactly).or(self.expected) {
            reader.expect(length);
        }
        self.download = Some(reader);
        Ok(true)
    }

    /// Stores the chunk while the load goes on.
    async fn keep(&mut self, part: &Part, digest: Digest) {
        match self.record.chunks.get_mut(self.index) {
            Some(had) => *had = digest,
            None => self.record.chunks.push(digest),
        }
        self.note();
        self.shared.settle().await;
        if !self.shared.is_storing.get() {
            return;
        }
        let (shared, address, record) = (self.shared.clone(), self.address(), self.record.clone());
        let (key, pieces) = (self.key(self.index), part.pieces.clone());
        let mut put = async move {
            let Some(store) = &shared.store else { return false };
            store.put(&key, &pieces).await && record.write(store, &address).await
        }
        .boxed_local();
        // Starts it; it goes on while more is read.
        match poll_immediate(&mut put).await {
            Some(is_kept) => self.shared.is_storing.set(is_kept),
            None => drop(self.shared.pending.replace(Some(put))),
        }
    }

    /// Deletes the file from the store.
    async fn forget(&mut self) {
        self.shared.settle().await;
        // An open entry cannot be deleted.
        self.ahead = None;
        self.shared.records.borrow_mut().remove(&self.file);
        if let Some(store) = &self.shared.store {
            self.record.delete(store, &self.address()).await;
        }
    }

    fn new_part(&self, whole: Option<Sha256>) -> Part {
        let is_digested = self.digest().is_some() || self.shared.is_storing.get();
        let chunk = is_digested.then(Default::default);
        Part { hash: Hash { chunk, whole }, ..Part::default() }
    }

    fn damaged(&self, expected: String, found: String) -> Error {
        Error::Integrity { what: self.shared.source.locate(&self.file), expected, found }
    }
}

impl<S, T> Shared<S, T> {
    /// Awaits a future while a chunk is being stored: it counts once its record is stored, too.
    async fn meanwhile<F: Future>(&self, wanted: F) -> F::Output {
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
    async fn settle(&self) {
        let pending = self.pending.take();
        if let Some(pending) = pending
            && !pending.await
        {
            self.is_storing.set(false);
        }
    }
}

impl Part {
    fn push(&mut self, piece: Chunk) {
        self.hash.update(&piece);
        self.bytes += piece.len() as u64;
        self.pieces.push(piece);
    }
}

/// The source's description of a file.
fn describe(length: Option<u64>, version: Option<&str>) -> String {
    let length = length.map_or("unknown length".into(), |bytes| format!("{bytes} bytes"));
    format!("{length}, version {}", version.unwrap_or("unknown"))
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
