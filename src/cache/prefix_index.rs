//! Finds blocks by content: the tokens of a block and, through its parent's hash, all tokens before.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::step::BLOCK_SIZE;

/// Cached blocks by hash. Several may have the same content.
///
/// The content of a block is its tokens and the `lookahead` tokens after them, for models whose keys
/// and values depend on these too.
#[derive(Clone, Debug)]
pub struct PrefixIndex {
    pub seed: u64,
    pub lookahead: usize,
    first: HashMap<u64, u32>,    // the block published first, by hash
    entries: Vec<Option<Entry>>, // [blocks]
    contents: Vec<u32>,          // [blocks][BLOCK_SIZE + lookahead] tokens
}

#[cfg(test)]
thread_local! {
    /// Tokens that a test has hashed.
    pub static HASHED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A cached block, in the ring of those with the same hash.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    parent: u64,
    previous: u32,
    next: u32,
}

impl PrefixIndex {
    /// An index of up to `blocks` blocks. Other seeds give other hashes.
    pub fn new(blocks: usize, lookahead: usize, seed: u64) -> PrefixIndex {
        PrefixIndex {
            seed,
            lookahead,
            first: HashMap::with_capacity(blocks),
            entries: vec![None; blocks],
            contents: vec![0; blocks * (BLOCK_SIZE + lookahead)],
        }
    }

    /// The content of block number `block` of a sequence, if there are enough tokens.
    pub fn content<'a>(&self, tokens: &'a [u32], block: usize) -> Option<&'a [u32]> {
        let start = block * BLOCK_SIZE;
        tokens.get(start..start + BLOCK_SIZE + self.lookahead)
    }

    /// The parent hash of a sequence's first block. It separates sequences of different salts.
    pub fn root(&self, salt: u64) -> u64 {
        self.hash(salt, &[])
    }

    /// The hash of a block whose parent has the hash `parent`.
    pub fn hash(&self, parent: u64, content: &[u32]) -> u64 {
        #[cfg(test)]
        HASHED.set(HASHED.get() + content.len());
        let mut hasher = DefaultHasher::new();
        (self.seed, parent, content).hash(&mut hasher);
        hasher.finish()
    }

    /// Where a group's block of this hash is found: of the groups of an entry each has a hash of its own.
    pub fn of_group(hash: u64, group: usize) -> u64 {
        hash ^ (group as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The block that was published first with this hash. Parent and content are compared too, because
    /// hashes can collide.
    pub fn find(&self, hash: u64, parent: u64, content: &[u32]) -> Option<u32> {
        let mut same_hash = self.ring(*self.first.get(&hash)?);
        same_hash.find(|&block| {
            self.entry(block).is_some_and(|entry| entry.parent == parent)
                && self.content_of(block) == content
        })
    }

    /// The block that was published first with this hash, whatever its content.
    pub fn first(&self, hash: u64) -> Option<u32> {
        self.first.get(&hash).copied()
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    /// Hash, parent's hash and content of a block.
    pub fn key(&self, block: u32) -> Option<(u64, u64, &[u32])> {
        let Entry { hash, parent, .. } = *self.entry(block)?;
        Some((hash, parent, self.content_of(block)))
    }

    /// Whether there is a block with this hash.
    pub fn has(&self, hash: u64) -> bool {
        self.first.contains_key(&hash)
    }

    /// Adds a block that is not in the index.
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

    /// Removes a block. Returns whether it was in the index.
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

    /// Removes all blocks.
    pub fn clear(&mut self) {
        self.first.clear();
        self.entries.fill(None);
    }

    /// Whether a block is in the index.
    pub fn contains(&self, block: u32) -> bool {
        self.entry(block).is_some()
    }

    /// Checks that hashes and blocks refer to each other.
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

    /// The blocks with the hash of `first`, in the order in which they were published.
    fn ring(&self, first: u32) -> impl Iterator<Item = u32> {
        let follow = move |block: &u32| self.entry(*block).map(|entry| entry.next);
        std::iter::successors(Some(first), move |block| follow(block).filter(|next| *next != first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: [u32; BLOCK_SIZE] = [7; BLOCK_SIZE];

    fn index(blocks: usize) -> PrefixIndex {
        PrefixIndex::new(blocks, 0, 7)
    }

    /// Publishes `CONTENT` of parent 0 under an arbitrary hash.
    fn insert(index: &mut PrefixIndex, hash: u64, block: u32) {
        index.insert(block, hash, 0, &CONTENT);
        index.check_integrity();
    }

    fn remove(index: &mut PrefixIndex, block: u32) -> bool {
        let removed = index.remove(block);
        index.check_integrity();
        removed
    }

    fn find(index: &PrefixIndex, hash: u64) -> Option<u32> {
        index.find(hash, 0, &CONTENT)
    }

    /// The hashes of a whole sequence.
    fn chain(index: &PrefixIndex, tokens: &[u32], salt: u64) -> Vec<u64> {
        let mut parent = index.root(salt);
        let contents = (0..).map_while(|block| index.content(tokens, block));
        let link = |content: &[u32]| {
            parent = index.hash(parent, content);
            parent
        };
        contents.map(link).collect()
    }

    #[test]
    fn removing_a_block_that_is_not_there_changes_nothing() {
        let mut index = index(101);
        insert(&mut index, 10, 0);
        assert!(!remove(&mut index, 100));
        assert_eq!(find(&index, 10), Some(0));
        assert!(remove(&mut index, 0));
        assert_eq!(find(&index, 10), None);
        assert!(!remove(&mut index, 0));
    }

    #[test]
    fn equal_blocks_are_all_kept_and_the_first_is_found() {
        let mut index = index(5);
        for block in [3, 1, 4] {
            insert(&mut index, 10, block);
            assert_eq!(find(&index, 10), Some(3));
        }
        assert!(remove(&mut index, 1));
        for (block, next) in [(3, Some(4)), (4, None)] {
            assert_eq!(find(&index, 10), Some(block));
            assert!(remove(&mut index, block));
            assert_eq!(find(&index, 10), next);
        }
        assert!(!remove(&mut index, 2));
    }

    #[test]
    fn an_evicted_block_leaves_those_with_the_same_hash() {
        let mut index = index(4);
        for (block, hash) in [10, 11, 12, 10].into_iter().enumerate() {
            insert(&mut index, hash, block as u32);
        }
        for (evicted, expected) in [
            (1, [Some(0), None, Some(2)]),
            (0, [Some(3), None, Some(2)]),
            (2, [Some(3), None, None]),
            (3, [None; 3]),
        ] {
            assert!(remove(&mut index, evicted));
            assert_eq!([10, 11, 12].map(|hash| find(&index, hash)), expected);
        }
        assert!(index.first.is_empty());
    }

    #[test]
    fn blocks_with_colliding_hashes_are_distinguished() {
        let mut index = index(4);
        let other = [8; BLOCK_SIZE];
        index.insert(1, 10, 0, &CONTENT);
        index.insert(2, 10, 0, &other);
        index.insert(3, 10, 5, &CONTENT);
        index.check_integrity();
        assert_eq!(index.find(10, 0, &CONTENT), Some(1));
        assert_eq!(index.find(10, 0, &other), Some(2));
        assert_eq!(index.find(10, 5, &CONTENT), Some(3));
        assert_eq!(index.find(10, 5, &other), None);
    }

    #[test]
    fn a_cleared_index_finds_nothing() {
        let mut index = index(2);
        insert(&mut index, 10, 1);
        index.clear();
        index.check_integrity();
        assert!(!index.contains(1));
        assert_eq!(find(&index, 10), None);
    }

    #[test]
    fn each_full_block_has_a_hash_of_its_tokens_and_all_before() {
        let index = index(1);
        let tokens: Vec<u32> = (0..2 * BLOCK_SIZE as u32).collect();
        let hashes = chain(&index, &tokens, 0);
        let first = index.hash(index.root(0), &tokens[..BLOCK_SIZE]);
        assert_eq!(hashes, [first, index.hash(first, &tokens[BLOCK_SIZE..])]);
        for partial in 0..BLOCK_SIZE {
            assert_eq!(chain(&index, &tokens[..BLOCK_SIZE + partial], 0), hashes[..1]);
        }
        let repeated = chain(&index, &[7; 2 * BLOCK_SIZE], 0);
        assert_ne!(repeated[0], repeated[1]);
        for changed in 0..BLOCK_SIZE {
            let mut tokens = tokens.clone();
            tokens[changed] += 1;
            assert!(chain(&index, &tokens, 0).iter().zip(&hashes).all(|(a, b)| a != b));
        }
    }

    #[test]
    fn salts_and_seeds_keep_whole_sequences_apart() {
        let index = index(1);
        let tokens = [7; 3 * BLOCK_SIZE];
        let hashes = chain(&index, &tokens, 1);
        assert_eq!(hashes, chain(&index, &tokens, 1));
        let same_seed = PrefixIndex::new(9, 0, index.seed);
        assert_eq!(hashes, chain(&same_seed, &tokens, 1));
        let other_seed = PrefixIndex::new(1, 0, index.seed ^ 1);
        for other in [chain(&index, &tokens, 2), chain(&other_seed, &tokens, 1)] {
            assert!(hashes.iter().zip(&other).all(|(a, b)| a != b));
        }
    }
}
