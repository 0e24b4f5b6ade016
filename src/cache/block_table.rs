//! Which blocks hold the tokens of one sequence.

use crate::step::BLOCK_SIZE;

/// The null block: an entry that no row looks at. It is neither free nor held.
pub(super) const NULL: u32 = 0;

/// The blocks of one sequence, in the order of its tokens. Only ever appended to, but that blocks
/// out of sight of all rows to come give way to the null block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockTable {
    pub(super) blocks: Vec<u32>,
    /// Hashes of the first blocks: those that were found in the cache or published since.
    pub(super) hashes: Vec<u64>,
    pub(super) salt: u64,
    /// Who has the blocks that it takes.
    pub(super) owner: u64,
    pub(super) cached: usize,
    /// Blocks before this one have been looked at for retirement.
    pub(super) retired: usize,
}

impl BlockTable {
    /// The block of positions 16·i .. 16·i + 15, for each i; the null block where no row looks any more.
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

    /// Tokens whose keys and values were found in the cache on admission; a fork has its parent's.
    pub fn cached(&self) -> usize {
        self.cached
    }

    /// Blocks to add before the table holds `tokens` tokens.
    pub(super) fn missing(&self, tokens: usize) -> usize {
        tokens.div_ceil(BLOCK_SIZE).saturating_sub(self.len())
    }

    /// Number of blocks that it holds.
    pub fn blocks_held(&self) -> usize {
        self.held().count()
    }

    /// The entries that count as references.
    pub(super) fn held(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.blocks.iter().copied().filter(|block| *block != NULL)
    }
}
