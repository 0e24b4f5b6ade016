//! A file of a store and a source: each chunk is read where it is, verified, and kept.

use std::{collections::VecDeque, rc::Rc};

use futures::{
    FutureExt,
    future::{join, poll_immediate},
};
use sha2::Sha256;

use super::{
    super::{
        Chunk,
        hash::{Hash, sha256},
        reader::Reader,
        source::{ByteStream, Length, RangeSource, missing},
        store::{Record, Store, chunk_key},
    },
    shared::Shared,
};
use crate::{
    error::{Error, Result},
    manifest::{Digest, FileManifest},
};

/// Attempts to download a chunk with the right digest.
const ATTEMPTS: usize = 2;

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
    /// A file from its beginning; `record`: what is known of it.
    pub(super) fn new(
        shared: Rc<Shared<S, T>>,
        file: &str,
        listed: Option<FileManifest>,
        record: Record,
    ) -> StoredStream<S, T> {
        let unchecked = listed.as_ref().filter(|listed| record.sha256 != Some(listed.sha256));
        StoredStream {
            shared,
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
        }
    }

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
    pub(super) async fn begin_download(&mut self, at: u64) -> Result<bool> {
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
