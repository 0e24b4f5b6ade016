//! The pool of KV blocks: who holds which, and which is taken next.

use super::{
    block_table::{BlockTable, NULL, Pin},
    free_list::FreeList,
    host::HostTier,
    owners::Owners,
    prefix_index::PrefixIndex,
    view::View,
};
use crate::step::{BLOCK_SIZE, BlockCopy, HostMemory, KvGroups};

/// A fixed pool of KV blocks with reference counts and the index of cached prefixes.
#[derive(Clone, Debug)]
pub struct KvCache {
    pub(super) references: Vec<u32>, // [blocks]
    pub(super) free: FreeList,       // the blocks without a reference, the next to be taken first
    pub(super) owners: Owners,
    pub(super) index: PrefixIndex,
    pub(super) host: HostTier,
    pub(super) views: Vec<View>, // [groups]
    pub(super) prefix_caching: bool,
    pub(super) stats: CacheStats,
}

/// Statistics of cached blocks since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Blocks that were added to the prefix cache.
    pub stored: u64,
    /// Cached blocks that were evicted.
    pub evicted: u64,
    /// How often the prefix cache was cleared.
    pub resets: u64,
}

impl KvCache {
    /// A cache of `blocks` blocks, all free but the null block. `prefix_caching`: sequences share
    /// cached prefixes. The seed should be random: it makes hashes unpredictable.
    pub fn new(blocks: usize, groups: KvGroups, prefix_caching: bool, seed: u64) -> KvCache {
        let mut free = FreeList::new(blocks);
        free.remove(NULL);
        let index = PrefixIndex::new(blocks, 0, seed);
        KvCache {
            host: HostTier::new(HostMemory::NONE, &index),
            references: vec![0; blocks],
            free,
            owners: Owners::new(blocks, blocks),
            index,
            views: groups.windows().map(View::new).collect(),
            prefix_caching,
            stats: CacheStats::default(),
        }
    }

    /// The same cache, empty, for a model whose keys and values also depend on this many tokens after
    /// their own, like those of a draft head.
    pub fn with_lookahead(self, lookahead: usize) -> KvCache {
        let index = PrefixIndex::new(self.references.len(), lookahead, self.index.seed);
        KvCache { host: HostTier::new(self.host.memory(), &index), index, ..self }
    }

    /// The same cache, empty, with room in host memory for what is evicted.
    pub fn with_host(self, memory: HostMemory) -> KvCache {
        let memory = if self.prefix_caching { memory } else { HostMemory::NONE };
        KvCache { host: HostTier::new(memory, &self.index), ..self }
    }

    /// Tokens after their own that keys and values depend on.
    pub fn lookahead(&self) -> usize {
        self.index.lookahead
    }

    /// The same cache, empty. An owner may have this share of the usable blocks, held or cached, before
    /// it has to evict its own.
    pub fn with_share(self, share: f64) -> KvCache {
        let most = (share * self.usable() as f64) as usize;
        KvCache { owners: Owners::new(self.references.len(), most), ..self }
    }

    /// Blocks that tables can hold.
    pub fn usable(&self) -> usize {
        self.references.len().saturating_sub(1)
    }

    /// Blocks that no table holds, cached or not.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// The share of usable blocks that are held, from 0 to 1.
    pub fn usage(&self) -> f64 {
        (self.usable() - self.free()) as f64 / self.usable().max(1) as f64
    }

    /// The share of the host blocks that hold something, from 0 to 1.
    pub fn host_usage(&self) -> f64 {
        self.host.usage()
    }

    /// Blocks that belong to an owner, held or cached.
    pub fn owned(&self, owner: u64) -> usize {
        self.owners.blocks(owner)
    }

    /// Statistics of cached blocks so far.
    pub fn stats(&self) -> CacheStats {
        self.stats
    }

    /// Grows `table` to hold `tokens` tokens. Returns false, with nothing changed, if too few blocks
    /// are free.
    #[must_use]
    pub fn reserve(&mut self, table: &mut BlockTable, tokens: usize) -> bool {
        let fits = table.missing(tokens) <= self.free();
        if fits {
            self.extend(table, tokens);
        }
        fits
    }

    /// Frees the blocks that no row at position `computed` or later attends to.
    pub fn retire(&mut self, table: &mut BlockTable, computed: usize) {
        for group in 0..table.groups {
            let hidden = self.views[group].hidden(computed);
            let end = hidden.end.min(table.len());
            for at in (hidden.start.max(table.retired[group])..end).rev() {
                let block = std::mem::replace(&mut table.blocks[at * table.groups + group], NULL);
                self.drop_reference(block);
            }
            table.retired[group] = table.retired[group].max(end);
        }
    }

    /// A table with room for `room` tokens for a sequence that shares its first `tokens` tokens with
    /// `parent`, which has computed them. Full blocks are shared; those of a partial entry have to be copied.
    /// None, with nothing changed, if fewer than `spare` blocks would stay free or the parent has freed
    /// blocks that the new sequence needs.
    pub fn fork(
        &mut self,
        parent: &BlockTable,
        tokens: usize,
        room: usize,
        spare: usize,
    ) -> Option<(BlockTable, Vec<BlockCopy>)> {
        let entries = tokens.div_ceil(BLOCK_SIZE);
        for (group, view) in self.views.iter().enumerate() {
            if (view.hidden(tokens).end..entries).any(|at| parent.block(at, group) == NULL) {
                return None;
            }
        }
        let (full, room) = (tokens / BLOCK_SIZE, room.max(tokens));
        let mut table = parent.clone();
        table.blocks.truncate(full * table.groups);
        // Those of its own tokens: a hash has tokens after its block, too.
        table.hashes.truncate(tokens.saturating_sub(self.index.lookahead) / BLOCK_SIZE);
        table.restored = 0;
        table.published = table.published.min(full);
        table.retired = table.retired.map(|retired| retired.min(full));
        if self.free() < table.missing(room) + spare {
            return None;
        }
        self.share(&table);
        self.extend(&mut table, room);
        let copies = (full * table.groups..entries * table.groups)
            .map(|at| BlockCopy { from: parent.blocks[at], to: table.blocks[at] });
        let copies = copies.collect();
        Some((table, copies))
    }

    /// Frees all blocks of `table` and empties it. No step in flight may use them.
    pub fn release(&mut self, table: &mut BlockTable) {
        for block in std::mem::take(&mut table.blocks).into_iter().rev() {
            self.drop_reference(block);
        }
        (table.cached, table.restored, table.published) = (0, 0, 0);
        table.retired.fill(0);
    }

    /// Clears the prefix cache. Does nothing and returns false if a block is held.
    pub fn reset(&mut self) -> bool {
        let idle = self.free() == self.usable();
        if idle {
            self.index.clear();
            self.host.clear();
            self.owners = Owners::new(self.references.len(), self.owners.most);
            self.stats.resets += 1;
        }
        idle
    }

    /// Removes an owner. Its blocks count for no share, and stay cached until they are evicted.
    pub fn forget(&mut self, owner: u64) {
        self.owners.forget(owner);
    }

    /// Checks the cache against all tables and pins in use: every block is either free or has one
    /// reference per table, and shared blocks are at the same place in each.
    ///
    /// # Panics
    /// If that does not hold, which is a defect.
    pub fn check_integrity<'a>(
        &self,
        tables: impl IntoIterator<Item = &'a BlockTable>,
        pins: impl IntoIterator<Item = &'a Pin>,
    ) {
        let pinned = pins.into_iter().map(|pin| &pin.0);
        let mut entries = vec![0; self.references.len()];
        let mut places = vec![None; self.references.len()];
        for table in tables.into_iter().chain(pinned) {
            for (at, block) in table.blocks.iter().enumerate().filter(|(_, block)| **block != NULL)
            {
                entries[*block as usize] += 1;
                let place = *places[*block as usize].get_or_insert(at);
                assert_eq!(place, at, "block {block} is shared by different parts of sequences");
            }
        }
        assert_eq!(self.references, entries, "references do not match the block tables");

        let mut is_free = vec![false; entries.len()];
        for block in self.free.iter() {
            let twice = std::mem::replace(&mut is_free[block as usize], true);
            assert!(
                block != NULL && !twice,
                "block {block} must not be in the free list, or not twice"
            );
        }
        let mut blocks = entries.iter().zip(is_free).skip(1);
        assert!(
            blocks.all(|(entries, is_free)| (*entries == 0) == is_free),
            "the free list is not the blocks without a reference"
        );

        self.owners.check_integrity(self.free.iter());
        self.index.check_integrity();
        self.host.check_integrity();
    }

    /// Adds a reference for each entry of a table; some of the blocks may be free.
    pub(super) fn share(&mut self, table: &BlockTable) {
        for block in table.held() {
            let references = &mut self.references[block as usize];
            *references += 1;
            if *references == 1 {
                self.free.remove(block);
                self.owners.hold(block);
            }
        }
    }

    /// Adds free blocks to a table until it has room for `tokens` tokens; there must be enough.
    pub(super) fn extend(&mut self, table: &mut BlockTable, tokens: usize) {
        for _ in 0..table.missing(tokens) {
            let Some(block) = self.allocate(table.owner) else { break };
            table.blocks.push(block);
        }
    }

    /// Takes a free block for an owner, and evicts what it had cached: that is copied to CPU memory, if the step may
    /// still copy a block.
    pub(super) fn allocate(&mut self, owner: u64) -> Option<u32> {
        let block = self.next_free(owner)?;
        self.free.remove(block);
        self.owners.assign(block, owner);
        if let Some((hash, parent, content)) = self.index.key(block) {
            self.host.save(block, hash, parent, content);
            self.stats.evicted += u64::from(self.index.remove(block));
        }
        self.references[block as usize] = 1;
        Some(block)
    }

    /// The free block that this owner takes next.
    fn next_free(&self, owner: u64) -> Option<u32> {
        let first = self.free.first()?;
        let due = || self.owners.due(owner).unwrap_or(first);
        Some(if self.index.contains(first) { due() } else { first })
    }

    fn drop_reference(&mut self, block: u32) {
        if block == NULL {
            return;
        }
        let references = &mut self.references[block as usize];
        *references -= 1;
        if *references > 0 {
            return;
        }
        if self.index.contains(block) {
            self.free.push_back(block);
            self.owners.free(block);
        } else {
            self.free.push_front(block);
            self.owners.unassign(block);
        }
    }
}
