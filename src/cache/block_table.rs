//! The block table of a sequence.

use crate::step::BLOCK_SIZE;

/// The null block: an entry that no row reads. It is neither free nor held.
pub(super) const NULL: u32 = 0;

/// The KV blocks of one sequence, in the order of its tokens. Append-only, except that blocks outside
/// the window of all later rows are replaced by the null block. Empty while the sequence waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockTable {
    pub(super) blocks: Vec<u32>,
    /// Hashes of the sequence's first full blocks, each with all before it; kept while it waits.
    pub(super) hashes: Vec<u64>,
    pub(super) salt: u64,
    /// Owner of the blocks that it takes.
    pub(super) owner: u64,
    pub(super) cached: usize,
    /// Blocks before this index were found in the cache, or are published.
    pub(super) published: usize,
    /// Blocks before this index have been checked by [`super::KvCache::retire`].
    pub(super) retired: usize,
}

impl BlockTable {
    /// An empty table. Only sequences of the same salt share blocks.
    pub fn new(salt: u64, owner: u64) -> BlockTable {
        BlockTable { salt, owner, ..Default::default() }
    }

    /// Tokens in full blocks that two sequences have in common, as far as both are hashed.
    pub fn common(&self, other: &BlockTable) -> usize {
        let pairs = self.hashes.iter().zip(&other.hashes);
        // Equal hashes are those of equal tokens before them, too.
        let most = pairs.len();
        let (mut equal, mut unequal) = (0, most + 1);
        while equal + 1 < unequal {
            let middle = (equal + unequal) / 2;
            let same = self.hashes[middle - 1] == other.hashes[middle - 1];
            *(if same { &mut equal } else { &mut unequal }) = middle;
        }
        equal * BLOCK_SIZE
    }

    /// The block of positions 16·i .. 16·i + 15, for each i; the null block where no later row attends.
    pub fn entries(&self) -> &[u32] {
        &self.blocks
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The entries of the first `tokens` tokens.
    pub fn covering(&self, tokens: usize) -> &[u32] {
        &self.blocks[..tokens.div_ceil(BLOCK_SIZE)]
    }

    /// Tokens whose keys and values were found in the cache on admission; a fork inherits its parent's.
    pub fn cached(&self) -> usize {
        self.cached
    }

    /// Blocks to allocate before the table has room for `tokens` tokens.
    pub(super) fn missing(&self, tokens: usize) -> usize {
        tokens.div_ceil(BLOCK_SIZE).saturating_sub(self.len())
    }

    /// Number of blocks that it holds.
    pub fn blocks_held(&self) -> usize {
        self.held().count()
    }

    /// The blocks that it holds: all entries but null blocks. Each counts as a reference.
    pub(super) fn held(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.blocks.iter().copied().filter(|block| *block != NULL)
    }
}
