//! Local storage of downloaded files: entries by key, and a record per file.

use serde::{Deserialize, Serialize};

use super::{
    Chunk,
    source::{ByteStream, read_to_end},
};
use crate::manifest::Digest;

/// Keeps bytes by key between visits.
///
/// A load goes on without whatever it loses, damages or refuses; so nothing here fails.
#[allow(async_fn_in_trait)] // single-threaded by design: no future crosses threads
pub trait Store: 'static {
    type Stream: ByteStream;

    /// Opens an entry, if it exists.
    async fn get(&self, key: &str) -> Option<Self::Stream>;

    /// Stores an entry, as a whole or not at all, and replaces an earlier one of that key. Returns true
    /// if and only if it is stored.
    async fn put(&self, key: &str, bytes: &[Chunk]) -> bool;

    /// Deletes an entry.
    async fn delete(&self, key: &str);

    /// Bytes that may be added, if known.
    async fn room(&self) -> Option<u64>;
}

/// What is known of a file that is stored in part or as a whole.
///
/// Records of other versions may have more fields, or fewer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// Bytes per chunk, except the last.
    pub chunk_bytes: u64,
    /// Digests of the first chunks, recorded when they were first downloaded.
    pub chunks: Vec<Digest>,
    /// Length of the file, once it is complete.
    pub bytes: Option<u64>,
    /// The source's description of the file.
    pub length: Option<u64>,
    pub version: Option<String>,
    /// SHA-256 of the file, if it was checked.
    pub sha256: Option<Digest>,
    /// Whether a model has been loaded from the file.
    pub is_sealed: bool,
    /// Whether a model has been loaded without this file because it did not exist.
    pub is_absent: bool,
}

impl Record {
    /// The record of a file, if there is a usable one.
    pub async fn read(store: &impl Store, address: &str, chunk_bytes: u64) -> Option<Record> {
        let mut stream = store.get(&key(address)).await?;
        let bytes = read_to_end(address, &mut stream).await.ok()?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        let fits = record.bytes.is_none() || record.is_whole();
        (record.chunk_bytes == chunk_bytes && fits).then_some(record)
    }

    /// Whether the digests of all chunks of the file are known.
    pub fn is_whole(&self) -> bool {
        let chunks = self.chunks.len() as u64;
        self.bytes.is_some_and(|bytes| bytes.div_ceil(self.chunk_bytes) == chunks)
    }

    /// Stores the record.
    pub async fn write(&self, store: &impl Store, address: &str) -> bool {
        // Serialising plain data does not fail.
        let Ok(json) = serde_json::to_vec(self) else { return false };
        store.put(&key(address), &[json.into()]).await
    }

    /// Deletes a file.
    pub async fn delete(&self, store: &impl Store, address: &str) {
        store.delete(&key(address)).await;
        for index in 0..self.chunks.len() {
            store.delete(&chunk_key(address, index)).await;
        }
    }
}

/// The key of a file's record.
fn key(address: &str) -> String {
    format!("{address}?tabloom")
}

/// The key of a chunk.
pub(super) fn chunk_key(address: &str, index: usize) -> String {
    format!("{address}?tabloom={index}")
}
