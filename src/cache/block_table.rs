//! The block table of a sequence.

use crate::step::{BLOCK_SIZE, MAX_GROUPS};

/// The null block, which no row reads. It is neither free nor held.
pub(super) const NULL: u32 = 0;

/// The KV blocks of one sequence, in the order of its tokens: an entry for every 16 tokens, with a block for
/// each group of layers. Append-only, except that blocks outside their group's window of all later rows are
/// replaced by the null block. Empty while the sequence waits.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockTable {
    pub(super) blocks: Vec<u32>, // [entries][groups]
    pub(super) groups: usize,
    /// Hashes of the sequence's first full blocks, each with all before it; kept while it waits.
    pub(super) hashes: Vec<u64>,
    pub(super) salt: u64,
    /// Owner of the blocks that it takes.
    pub(super) owner: u64,
    pub(super) cached: usize,
    pub(super) restored: usize,
    /// Entries before this index were found in the cache, or are published.
    pub(super) published: usize,
    /// Of each group: entries before this index have been checked by [`super::KvCache::retire`].
    pub(super) retired: [usize; MAX_GROUPS],
}

impl Default for BlockTable {
    fn default() -> BlockTable {
        BlockTable::new(0, 0, 1)
    }
}

impl BlockTable {
    /// An empty table for a model with this many groups of layers. Only sequences of the same salt share
    /// blocks.
    pub fn new(salt: u64, owner: u64, groups: usize) -> BlockTable {
        BlockTable {
            salt,
            owner,
            groups,
            blocks: Vec::new(),
            hashes: Vec::new(),
            cached: 0,
            restored: 0,
            published: 0,
            retired: [0; MAX_GROUPS],
        }
    }

    /// Only sequences of the same salt share blocks.
    pub fn salt(&self) -> u64 {
        self.salt
    }

    /// Number of groups of layers.
    pub fn groups(&self) -> usize {
        self.groups
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

    /// The blocks of positions 16·i .. 16·i + 15 for each i, `[entries][groups]`; the null block where no
    /// later row attends.
    pub fn entries(&self) -> &[u32] {
        &self.blocks
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.blocks.len() / self.groups
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The entries of the first `tokens` tokens.
    pub fn covering(&self, tokens: usize) -> &[u32] {
        &self.blocks[..tokens.div_ceil(BLOCK_SIZE) * self.groups]
    }

    /// Tokens whose keys and values were found in the cache on admission; a fork inherits its parent's.
    pub fn cached(&self) -> usize {
        self.cached
    }

    /// How many of the [cached](BlockTable::cached) tokens were in host memory.
    pub fn restored(&self) -> usize {
        self.restored
    }

    /// Blocks to allocate before the table has room for `tokens` tokens.
    pub(super) fn missing(&self, tokens: usize) -> usize {
        tokens.div_ceil(BLOCK_SIZE).saturating_sub(self.len()) * self.groups
    }

    /// Number of blocks that it holds.
    pub fn blocks_held(&self) -> usize {
        self.held().count()
    }

    /// The block of a group in an entry.
    pub(super) fn block(&self, entry: usize, group: usize) -> u32 {
        self.blocks[entry * self.groups + group]
    }

    /// The blocks that it holds: all but null blocks. Each counts as a reference.
    pub(super) fn held(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.blocks.iter().copied().filter(|block| *block != NULL)
    }
}

/// Protects the blocks of a prefix from eviction.
#[derive(Debug)]
pub struct Pin(pub(super) BlockTable);

impl Pin {
    /// How many tokens of the prefix are held.
    pub fn tokens(&self) -> usize {
        self.0.cached
    }
}
