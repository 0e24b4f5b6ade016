//! The KV cache as the scheduler sees it: the blocks of [`BLOCK_SIZE`] tokens that each sequence holds,
//! and the cached prefixes that a new sequence can share.
//!
//! The layers of a model are in groups: those of a group see the same positions and share blocks, so that
//! layers with a window keep a window's blocks. All groups take their blocks from one pool.
//!
//! Where a cached block is evicted, the host keeps its content, as far as it has room. A prefix is found on
//! the device and in host memory alike; what is in host memory is written to free blocks before the
//! next step, so that it need not be computed again.
//!
//! The executor stores the keys and values; here are only block ids. A freed block stays cached, that
//! is, can be found by its content, until it is taken again. Blocks without cached content are taken
//! first, then the cached blocks freed longest ago (LRU), the end of a sequence before its beginning.
//!
//! A block belongs to the owner that took it last, until it is free and not cached. An owner that has
//! its share of the blocks evicts its own cached blocks before those of others.

mod block_table;
mod free_list;
mod host;
mod links;
mod owners;
mod prefix_index;
#[cfg(test)]
mod tests;
mod view;

pub use self::block_table::BlockTable;

use self::{
    block_table::NULL, free_list::FreeList, host::HostTier, owners::Owners,
    prefix_index::PrefixIndex, view::View,
};
use crate::step::{BLOCK_SIZE, BlockCopy, HostMemory, KvGroups, MAX_GROUPS};

/// A fixed pool of KV blocks with reference counts and the index of cached prefixes.
#[derive(Clone, Debug)]
pub struct KvCache {
    references: Vec<u32>, // [blocks]
    free: FreeList,       // the blocks without a reference, the next to be taken first
    owners: Owners,
    index: PrefixIndex,
    host: HostTier,
    views: Vec<View>, // [groups]
    prefix_caching: bool,
    stats: CacheStats,
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

/// Where a block of a cached prefix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cached {
    /// A window hides it from all rows after the prefix.
    Hidden,
    Device(u32),
    Host(u32),
}

impl Cached {
    /// Its block on the device; the null block without.
    fn on_device(&self) -> u32 {
        match self {
            Cached::Device(block) => *block,
            Cached::Hidden | Cached::Host(_) => NULL,
        }
    }
}

/// What became of a sequence that asked for blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    Admitted,
    /// Not yet: the next step restores a part of its prefix.
    Restoring,
    /// Too few blocks are free.
    NoRoom,
}

/// Protects the blocks of a prefix from eviction.
#[derive(Debug)]
pub struct Pin(BlockTable);

impl Pin {
    /// How many tokens of the prefix are held.
    pub fn tokens(&self) -> usize {
        self.0.cached
    }
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

    /// Hashes the full blocks of a sequence's tokens that are not hashed yet: blocks are found and
    /// published by their hashes.
    pub fn hash(&self, table: &mut BlockTable, tokens: &[u32]) {
        if !self.prefix_caching {
            return;
        }
        while let Some(content) = self.index.content(tokens, table.hashes.len()) {
            let parent = self.parent(table, table.hashes.len());
            table.hashes.push(self.index.hash(parent, content));
        }
    }

    /// Tokens of the longest cached prefix of a [hashed](KvCache::hash) sequence, in whole blocks. The
    /// last token never counts, because its logits must be computed.
    pub fn lookup(&self, table: &BlockTable, tokens: &[u32]) -> usize {
        let found = self.find(table, tokens, tokens.len().saturating_sub(1), true);
        found.len() / table.groups * BLOCK_SIZE
    }

    /// The same in a few probes, for an order of many sequences: exact unless blocks were evicted from
    /// the middle of a prefix.
    pub fn estimate(&self, table: &BlockTable) -> usize {
        let has = |hash: &u64| self.index.has(*hash) || self.host.has(*hash);
        table.hashes.partition_point(has) * BLOCK_SIZE
    }

    /// Gives the empty table of a [hashed](KvCache::hash) sequence room for `room` tokens; it shares
    /// the longest cached prefix if `use_prefix`. Nothing is changed if fewer than `spare` blocks would stay
    /// free.
    ///
    /// A step restores only so many blocks that what they replace can be saved: a sequence with more of its
    /// prefix in host memory is admitted by one of the next calls.
    pub fn admit(
        &mut self,
        table: &mut BlockTable,
        tokens: &[u32],
        room: usize,
        use_prefix: bool,
        spare: usize,
    ) -> Admission {
        debug_assert!(table.is_empty());
        let most = if use_prefix { tokens.len().saturating_sub(1) } else { 0 };
        let found = self.find(table, tokens, most, true);
        let takes_free = |cached: &&Cached| match cached {
            Cached::Hidden => false,
            Cached::Device(block) => self.references[*block as usize] == 0,
            Cached::Host(_) => true,
        };
        let missing = (room.div_ceil(BLOCK_SIZE) * table.groups).saturating_sub(found.len());
        if self.free() < found.iter().filter(takes_free).count() + missing + spare {
            return Admission::NoRoom;
        }
        table.blocks = found.iter().map(Cached::on_device).collect();
        self.share(table); // before any block is taken, which could be one of these
        let now = self.restorable(&found);
        self.restore(table, tokens, &found[..now]);
        if now < found.len() {
            // They stay cached meanwhile.
            let restored = table.restored;
            self.release(table);
            table.restored = restored;
            return Admission::Restoring;
        }
        (table.cached, table.published) = (table.len() * BLOCK_SIZE, table.len());
        self.extend(table, room);
        Admission::Admitted
    }

    /// How much of what was found, `[entries][groups]`, the next step can bring to the device: all of it, or whole
    /// entries before a block that is too much.
    fn restorable(&mut self, found: &[Cached]) -> usize {
        let groups = self.views.len();
        let of_host = |(at, cached): (usize, &Cached)| match cached {
            Cached::Host(block) => Some((at, *block)),
            Cached::Hidden | Cached::Device(_) => None,
        };
        let of_host: Vec<_> = found.iter().enumerate().filter_map(of_host).collect();
        let most = self.host.restorable(of_host.iter().map(|(_, block)| *block), groups);
        of_host.get(most).map_or(found.len(), |(at, _)| at / groups * groups)
    }

    /// Gives a table blocks for what was found in host memory, which the next step fills.
    fn restore(&mut self, table: &mut BlockTable, tokens: &[u32], found: &[Cached]) {
        let mut restored = None;
        for (at, cached) in found.iter().enumerate() {
            let Cached::Host(from) = *cached else { continue };
            let (entry, group) = (at / table.groups, at % table.groups);
            let Some(content) = self.index.content(tokens, entry) else { break };
            let Some(block) = self.allocate(table.owner) else { break };
            table.blocks[at] = block;
            let hash = PrefixIndex::of_group(table.hashes[entry], group);
            self.index.insert(block, hash, self.parent(table, entry), content);
            self.host.restore(from, block);
            if restored.replace(entry) != Some(entry) {
                table.restored += BLOCK_SIZE;
            }
        }
    }

    /// A table for prefixes of `tokens`, hashed.
    fn probe(&self, tokens: &[u32], salt: u64) -> BlockTable {
        let mut table = BlockTable::new(salt, 0, self.views.len());
        self.hash(&mut table, tokens);
        table
    }

    /// Tokens of the longest cached prefix, as in [`KvCache::lookup`].
    pub fn cached(&self, tokens: &[u32], salt: u64) -> usize {
        self.lookup(&self.probe(tokens, salt), tokens)
    }

    /// The device blocks of the longest prefix of `tokens` that is cached on the device, `[entries][groups]`;
    /// `None` where a window hides them from all rows after the prefix.
    pub fn on_device(&self, tokens: &[u32], salt: u64) -> Vec<Option<u32>> {
        let found = self.find(&self.probe(tokens, salt), tokens, tokens.len(), false);
        found.iter().map(|cached| Some(cached.on_device()).filter(|block| *block != NULL)).collect()
    }

    /// Gives blocks of `tokens` whose contents come from elsewhere, (entry, group), a place in host memory.
    /// Returns the host block of each; `None` for what is cached already, or has no room.
    pub fn adopt(
        &mut self,
        tokens: &[u32],
        salt: u64,
        blocks: &[(usize, usize)],
    ) -> Vec<Option<u32>> {
        let table = self.probe(tokens, salt);
        // What they continue does not give way to them.
        for found in self.find(&table, tokens, tokens.len(), true) {
            if let Cached::Host(block) = found {
                self.host.touch(block);
            }
        }
        let mut places = Vec::new();
        for &(entry, group) in blocks {
            let content = self.index.content(tokens, entry).filter(|_| entry < table.hashes.len());
            let Some(content) = content else {
                places.push(None);
                continue;
            };
            let hash = PrefixIndex::of_group(table.hashes[entry], group);
            let parent = self.parent(&table, entry);
            let is_cached = self.index.find(hash, parent, content).is_some()
                || self.host.find(hash, parent, content).is_some();
            places.push(if is_cached { None } else { self.host.adopt(hash, parent, content) });
        }
        places
    }

    /// Forgets the content of a host block that could not be set.
    pub fn disown(&mut self, block: u32) {
        self.host.remove(block);
    }

    /// Whether the next step has to restore blocks.
    pub fn restores(&self) -> bool {
        self.host.restores()
    }

    /// Moves the copies between device and host that the next step makes, saves and restores, out.
    pub fn take_copies(&mut self) -> [Vec<BlockCopy>; 2] {
        self.host.take_copies()
    }

    /// Records that a step with these saves is over; for those to the host blocks `lost` there was no memory.
    pub fn saved(&mut self, saves: &[BlockCopy], lost: &[u32]) {
        self.host.saved(saves, lost);
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

    /// Adds the full blocks of `tokens` to the prefix cache. These are the first tokens of the
    /// sequence, as far as their keys and values are computed and final: drafts only once they are
    /// accepted. The cost is proportional to the new blocks since the last call.
    pub fn publish(&mut self, table: &mut BlockTable, tokens: &[u32]) {
        self.hash(table, tokens);
        for at in table.published..table.len().min(table.hashes.len()) {
            let Some(content) = self.index.content(tokens, at) else { break };
            let parent = self.parent(table, at);
            for group in 0..table.groups {
                let block = table.block(at, group);
                if block != NULL && !self.index.contains(block) {
                    let hash = PrefixIndex::of_group(table.hashes[at], group);
                    self.index.insert(block, hash, parent, content);
                    self.stats.stored += 1;
                }
            }
            table.published = at + 1;
        }
    }

    /// Removes the blocks of a table from the prefix cache: their keys and values may be wrong.
    pub fn retract(&mut self, table: &BlockTable) {
        for block in table.held() {
            self.stats.evicted += u64::from(self.index.remove(block));
        }
        for hash in &table.hashes {
            for group in 0..table.groups {
                self.host.forget(PrefixIndex::of_group(*hash, group));
            }
        }
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

    /// Holds the cached full blocks of a prefix until [`KvCache::unpin`]; none if nothing is cached.
    pub fn pin(&mut self, tokens: &[u32], salt: u64) -> Option<Pin> {
        let mut table = self.probe(tokens, salt);
        let found = self.find(&table, tokens, tokens.len(), false);
        table.blocks = found.iter().map(Cached::on_device).collect();
        table.cached = table.len() * BLOCK_SIZE;
        self.share(&table);
        (!table.is_empty()).then_some(Pin(table))
    }

    /// Unpins a prefix. Its blocks stay cached until they are evicted.
    pub fn unpin(&mut self, pin: Pin) {
        let Pin(mut table) = pin;
        self.release(&mut table);
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

    /// Saves to host memory of steps that are not over.
    pub fn saves_in_flight(&self) -> usize {
        self.host.saves_in_flight()
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

    /// The hash of the blocks of a table before one of them.
    fn parent(&self, table: &BlockTable, at: usize) -> u64 {
        match at.checked_sub(1) {
            Some(before) => table.hashes[before],
            None => self.index.root(table.salt),
        }
    }

    /// Where the blocks of the longest cached prefix of `tokens` are, of at most `most` of them,
    /// `[entries][groups]`; `or_host`: in host memory, too.
    ///
    /// Blocks that a group's window hides from all rows after the prefix need not be cached:
    /// ```text
    ///   sinks │ hidden           │ visible
    /// ├───────┼──────────────────┼─────────┤ prefix
    ///   cached  anything: null     cached
    /// ```
    fn find(&self, table: &BlockTable, tokens: &[u32], most: usize, or_host: bool) -> Vec<Cached> {
        let (mut blocks, mut parent) = (Vec::new(), self.index.root(table.salt));
        let (mut longest, mut cached_in_a_row) = (0, [0; MAX_GROUPS]);
        'entries: for (at, &hash) in table.hashes.iter().enumerate().take(most / BLOCK_SIZE) {
            let Some(content) = self.index.content(tokens, at) else { break };
            let mut suffices = true;
            for (group, view) in self.views.iter().enumerate() {
                let hash = PrefixIndex::of_group(hash, group);
                let in_host = || self.host.find(hash, parent, content).filter(|_| or_host);
                let on_device = self.index.find(hash, parent, content).map(Cached::Device);
                let block = on_device.or_else(|| in_host().map(Cached::Host));
                if block.is_none() && at < view.sinks {
                    break 'entries;
                }
                let cached = &mut cached_in_a_row[group];
                *cached = block.map_or(0, |_| *cached + 1);
                let hidden = view.hidden((at + 1) * BLOCK_SIZE);
                suffices &= *cached >= (at + 1).saturating_sub(hidden.end);
                blocks.push(block.unwrap_or(Cached::Hidden));
            }
            if suffices {
                longest = at + 1;
            }
            parent = hash;
        }
        blocks.truncate(longest * table.groups);
        for (group, view) in self.views.iter().enumerate() {
            let hidden = view.hidden(longest * BLOCK_SIZE);
            for entry in hidden.start..hidden.end.min(longest) {
                blocks[entry * table.groups + group] = Cached::Hidden;
            }
        }
        blocks
    }

    /// Adds a reference for each entry of a table; some of the blocks may be free.
    fn share(&mut self, table: &BlockTable) {
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
    fn extend(&mut self, table: &mut BlockTable, tokens: usize) {
        for _ in 0..table.missing(tokens) {
            let Some(block) = self.allocate(table.owner) else { break };
            table.blocks.push(block);
        }
    }

    /// Takes a free block for an owner, and evicts what it had cached: that is copied to CPU memory, if the step may
    /// still copy a block.
    fn allocate(&mut self, owner: u64) -> Option<u32> {
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
