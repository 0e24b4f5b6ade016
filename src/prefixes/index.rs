//! Which runs are stored, and which to store, read and delete.

use std::time::Duration;

use blake3::Hasher;
use serde::{Deserialize, Serialize};

use super::run::Run;
use crate::{manifest::Digest, step::BLOCK_SIZE};

/// Shorter conversations are not stored.
const LEAST_TOKENS: usize = 256;
/// A shorter part of a prompt is computed rather than read.
const WORTH: usize = 64;
/// Longest read, while nothing is known of the time to compute a token.
const PATIENCE: Duration = Duration::from_secs(1);

/// The runs of a model that are stored, at most so many bytes, least recently used first.
///
/// A conversation's runs start at multiples of [`Shape::run`] entries. All but its last have that many; the
/// last is replaced once the conversation has grown.
#[derive(Debug)]
pub struct Prefixes {
    root: Digest,
    shape: Shape,
    most_bytes: u64,
    runs: Vec<Run>,
    /// Bytes of the largest run so far.
    largest: u64,
    /// Time to compute a token of a prompt, when it was last measured.
    row: Option<Duration>,
}

/// What the runs of a model have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Most entries of a run.
    pub run: usize,
    /// Groups of layers, which have a block each in an entry.
    pub groups: usize,
    /// Tokens after their own that keys and values depend on.
    pub lookahead: usize,
}

/// The stored form of the index.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    runs: Vec<Run>,
    row_nanos: Option<u64>,
}

impl Prefixes {
    /// The runs in a record, which may be any bytes. `root` is a digest of all that the keys and values of
    /// given tokens depend on.
    pub fn new(root: Digest, shape: Shape, most_bytes: u64, record: &[u8]) -> Prefixes {
        let Record { mut runs, row_nanos } = serde_json::from_slice(record).unwrap_or_default();
        runs.retain(|run| run.entries.start < run.entries.end && run.bytes <= most_bytes);
        let largest = runs.iter().map(|run| run.bytes).max().unwrap_or(0);
        Prefixes {
            root,
            shape,
            most_bytes,
            runs,
            largest,
            row: row_nanos.map(Duration::from_nanos),
        }
    }

    /// Its stored form.
    pub fn record(&self) -> Vec<u8> {
        let row_nanos = self.row.map(|row| row.as_nanos() as u64);
        let record = Record { runs: self.runs.clone(), row_nanos };
        serde_json::to_vec(&record).expect("plain data")
    }

    /// What its runs have in common.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// Sets the time to compute a token of a prompt.
    pub fn measured(&mut self, row: Duration) {
        self.row = Some(row);
    }

    /// The stored runs that continue a prompt of which `cached` tokens are cached, and how long reading
    /// them may take: computing takes as long. At most `most` entries: more would take each other's place.
    pub fn find(&mut self, prompt: &[u32], cached: usize, most: usize) -> (Vec<Run>, Duration) {
        let keys = self.keys(prompt, prompt.len().saturating_sub(1) / BLOCK_SIZE);
        let mut found = self.chain(&keys);
        self.touch(&found);
        found.retain(|run| run.entries.end * BLOCK_SIZE > cached);
        let first = found.first().map_or(0, |run| run.entries.start);
        found.retain(|run| run.entries.end <= first + most);
        let end = found.last().map_or(0, |run| run.entries.end * BLOCK_SIZE);
        if end < cached + WORTH {
            found.clear();
        }
        let rows = end.saturating_sub(cached) as u32;
        (found, self.row.map_or(PATIENCE, |row| row * rows))
    }

    /// The first run of a conversation that is not stored yet, of the `entries` entries that can be read.
    pub fn missing(&mut self, tokens: &[u32], entries: usize) -> Option<Run> {
        if entries * BLOCK_SIZE < LEAST_TOKENS {
            return None;
        }
        let keys = self.keys(tokens, entries);
        let stored = self.chain(&keys);
        self.touch(&stored);
        // A last run that is not full may have grown.
        let full = stored.iter().take_while(|run| run.entries.len() == self.shape.run).count();
        let start = full * self.shape.run;
        let end = entries.min(start + self.shape.run);
        let partial = stored.get(full);
        let done = partial.map_or(start, |run| run.entries.end);
        // Its own first runs must not make room for it.
        let chain_bytes: u64 = stored.iter().map(|run| run.bytes).sum();
        if done >= end || chain_bytes + self.largest > self.most_bytes {
            return None;
        }
        let free = || (0..).find(|slot| self.runs.iter().all(|run| run.slot != *slot));
        let slot = partial.map(|run| run.slot).or_else(free)?;
        Some(Run { slot, key: *keys.get(end - 1)?, entries: start..end, bytes: 0 })
    }

    /// Adds a run that was written. Returns the slots of those that gave way to it.
    pub fn insert(&mut self, run: Run) -> Vec<u32> {
        self.runs.retain(|other| other.slot != run.slot);
        self.largest = self.largest.max(run.bytes);
        self.runs.push(run);
        let mut dropped = Vec::new();
        while self.bytes() > self.most_bytes && !self.runs.is_empty() {
            dropped.push(self.runs.remove(0).slot);
        }
        dropped
    }

    /// Forgets the runs of a conversation from one of its entries on, as when one could not be read.
    pub fn forget(&mut self, tokens: &[u32], from: usize) {
        let keys = self.keys(tokens, tokens.len() / BLOCK_SIZE);
        self.runs.retain(|run| run.entries.start < from || !keys.contains(&run.key));
    }

    /// Forgets all runs.
    pub fn clear(&mut self) {
        self.runs.clear();
    }

    /// The stored runs of a sequence with these keys, from its start on without a gap.
    fn chain(&self, keys: &[Digest]) -> Vec<Run> {
        let mut chain: Vec<Run> = Vec::new();
        loop {
            let start = chain.last().map_or(0, |run| run.entries.end);
            let is_next = |run: &&Run| {
                let (first, end) = (run.entries.start, run.entries.end);
                first == start && keys.get(end - 1) == Some(&run.key)
            };
            let next = self.runs.iter().filter(is_next).max_by_key(|run| run.entries.end);
            let Some(next) = next else { return chain };
            chain.push(next.clone());
            if next.entries.len() != self.shape.run {
                return chain;
            }
        }
    }

    /// Marks the runs of a sequence as used: the last of them is to be deleted first.
    fn touch(&mut self, chain: &[Run]) {
        self.runs.retain(|run| chain.iter().all(|used| used.slot != run.slot));
        self.runs.extend(chain.iter().rev().cloned());
    }

    /// The keys of runs that end at each of the first `entries` entries.
    fn keys(&self, tokens: &[u32], entries: usize) -> Vec<Digest> {
        let mut before = self.root;
        let mut keys = Vec::new();
        for start in (0..entries).map(|entry| entry * BLOCK_SIZE) {
            let Some(content) = tokens.get(start..start + BLOCK_SIZE + self.shape.lookahead) else {
                break;
            };
            let mut hasher = Hasher::new_keyed(&before.0);
            content.iter().for_each(|token| {
                hasher.update(&token.to_le_bytes());
            });
            before = Digest(hasher.finalize().into());
            keys.push(before);
        }
        keys
    }
}
