//! Finds blocks by what they hold: the tokens of a block and, through its parent's hash, all before.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::step::BLOCK_SIZE;

/// Published blocks by hash. Blocks with the same content may be there several times.
///
/// A block's content is its tokens and `lookahead` tokens after them, for models whose keys and
/// values depend on these as well.
#[derive(Clone, Debug)]
pub struct PrefixIndex {
    seed: u64,
    lookahead: usize,
    first: HashMap<u64, u32>,    // the block published first, by hash
    entries: Vec<Option<Entry>>, // [blocks]
    contents: Vec<u32>,          // [blocks][BLOCK_SIZE + lookahead] tokens
}

/// A published block, in the ring of those with the same hash.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    parent: u64,
    previous: u32,
    next: u32,
}

impl PrefixIndex {
    /// An index of up to `blocks` blocks. Hashes are unlike those of other seeds.
    pub fn new(blocks: usize, lookahead: usize, seed: u64) -> PrefixIndex {
        PrefixIndex {
            seed,
            lookahead,
            first: HashMap::with_capacity(blocks),
            entries: vec![None; blocks],
            contents: vec![0; blocks * (BLOCK_SIZE + lookahead)],
        }
    }

    /// The content of a sequence's block number `block`, if the tokens reach that far.
    pub fn content<'a>(&self, tokens: &'a [u32], block: usize) -> Option<&'a [u32]> {
        let start = block * BLOCK_SIZE;
        tokens.get(start..start + BLOCK_SIZE + self.lookahead)
    }

    /// What takes the place of the parent's hash for the first block of a sequence. It keeps
    /// sequences of different salts apart.
    pub fn root(&self, salt: u64) -> u64 {
        self.hash(salt, &[])
    }

    /// The hash of a block whose parent has the hash `parent`.
    pub fn hash(&self, parent: u64, content: &[u32]) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, parent, content).hash(&mut hasher);
        hasher.finish()
    }

    /// The block that was published first with this hash. Parent and content are compared, so that
    /// blocks whose hashes happen to be equal are told apart.
    pub fn find(&self, hash: u64, parent: u64, content: &[u32]) -> Option<u32> {
        let mut same_hash = self.ring(*self.first.get(&hash)?);
        same_hash.find(|&block| {
            self.entry(block).is_some_and(|entry| entry.parent == parent)
                && self.content_of(block) == content
        })
    }

    /// Publishes a block that is not in the index.
    pub fn insert(&mut self, block: u32, hash: u64, parent: u64, content: &[u32]) {
        debug_assert!(!self.contains(block));
        let first = *self.first.entry(hash).or_insert(block);
        let last = self.entry(first).map_or(block, |first| first.previous);
        self.entries[block as usize] = Some(Entry { hash, parent, previous: last, next: first });
        self.link(last, block);
        self.link(block, first);
        let width = content.len();
        self.contents[block as usize * width..][..width].copy_from_slice(content);
    }

    /// Forgets a block. Returns whether it was there.
    pub fn remove(&mut self, block: u32) -> bool {
        let Some(Entry { hash, previous, next, .. }) = self.entries[block as usize].take() else {
            return false;
        };
        if next == block {
            self.first.remove(&hash);
        } else {
            self.link(previous, next);
            if self.first[&hash] == block {
                self.first.insert(hash, next);
            }
        }
        true
    }

    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.first.clear();
        self.entries.fill(None);
    }

    /// Whether a block is published.
    pub fn contains(&self, block: u32) -> bool {
        self.entry(block).is_some()
    }

    /// Checks that every hash leads to its blocks, and that these have it.
    ///
    /// # Panics
    /// If that does not hold, which is a defect.
    pub fn check_integrity(&self) {
        let mut reached = 0;
        for (hash, first) in &self.first {
            for block in self.ring(*first) {
                let entry = self.entry(block).expect("a hash leads to a published block");
                assert_eq!(entry.hash, *hash, "block {block} is found under another's hash");
                reached += 1;
            }
        }
        let published = self.entries.iter().flatten().count();
        assert_eq!(reached, published, "a published block cannot be found");
    }

    fn entry(&self, block: u32) -> Option<&Entry> {
        self.entries[block as usize].as_ref()
    }

    fn content_of(&self, block: u32) -> &[u32] {
        let width = BLOCK_SIZE + self.lookahead;
        &self.contents[block as usize * width..][..width]
    }

    fn link(&mut self, previous: u32, next: u32) {
        if let Some(entry) = &mut self.entries[previous as usize] {
            entry.next = next;
        }
        if let Some(entry) = &mut self.entries[next as usize] {
            entry.previous = previous;
        }
    }

    /// The blocks with the hash of `first`, in the order of their publication.
    fn ring(&self, first: u32) -> impl Iterator<Item = u32> {
        let follow = move |block: &u32| self.entry(*block).map(|entry| entry.next);
        std::iter::successors(Some(first), move |block| follow(block).filter(|next| *next != first))
    }
}
