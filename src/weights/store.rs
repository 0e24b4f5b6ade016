//! Where files are kept on the user's machine: entries by name, and a record of each file.

use serde::{Deserialize, Serialize};

use super::{
    Chunk,
    source::{ByteStream, read_to_end},
};
use crate::manifest::Digest;

/// Keeps bytes by key between visits.
///
/// Whatever it may forget, spoil or refuse, a load goes on without it; so nothing here fails.
#[allow(async_fn_in_trait)] // single-threaded by design: no future crosses threads
pub trait Store: 'static {
    type Stream: ByteStream;

    /// Opens an entry, if it is there.
    async fn get(&self, key: &str) -> Option<Self::Stream>;

    /// Keeps an entry, in place of an earlier one of that key, whole or not at all. Returns true if
    /// and only if it is kept.
    async fn put(&self, key: &str, bytes: &[Chunk]) -> bool;

    /// Forgets an entry.
    async fn delete(&self, key: &str);

    /// Bytes that may be added, if that is known.
    async fn room(&self) -> Option<u64>;
}

/// What is known of a file that is kept, in part or as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Bytes of each chunk but the last.
    pub chunk_bytes: u64,
    /// Digests of the first chunks, which were kept when they first came.
    pub chunks: Vec<Digest>,
    /// Length of the file, once all of it has come.
    pub bytes: Option<u64>,
    /// What the source said of it.
    pub length: Option<u64>,
    pub version: Option<String>,
    /// SHA-256 of the file, where it was checked.
    pub sha256: Option<Digest>,
    /// Whether a model has been loaded from the file.
    pub is_sealed: bool,
    /// Whether a model has been loaded without the file, which there was none of.
    pub is_absent: bool,
}

impl Record {
    /// The record of a file, if there is one that can be used.
    pub async fn read(store: &impl Store, address: &str, chunk_bytes: u64) -> Option<Record> {
        let mut stream = store.get(&key(address)).await?;
        let bytes = read_to_end(address, &mut stream).await.ok()?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        let fits = record.bytes.is_none() || record.is_whole();
        (record.chunk_bytes == chunk_bytes && fits).then_some(record)
    }

    /// Whether the digest of every chunk of the file is known.
    pub fn is_whole(&self) -> bool {
        let chunks = self.chunks.len() as u64;
        self.bytes.is_some_and(|bytes| bytes.div_ceil(self.chunk_bytes) == chunks)
    }

    /// Keeps the record.
    pub async fn write(&self, store: &impl Store, address: &str) -> bool {
        // Serialising what was made of plain data does not fail.
        let Ok(json) = serde_json::to_vec(self) else { return false };
        store.put(&key(address), &[json.into()]).await
    }

    /// Forgets a file.
    pub async fn delete(&self, store: &impl Store, address: &str) {
        store.delete(&key(address)).await;
        for index in 0..self.chunks.len() {
            store.delete(&chunk_key(address, index)).await;
        }
    }
}

/// Names the record of a file.
fn key(address: &str) -> String {
    format!("{address}?tabloom")
}

/// Names a chunk of a file.
pub(super) fn chunk_key(address: &str, index: usize) -> String {
    format!("{address}?tabloom={index}")
}
