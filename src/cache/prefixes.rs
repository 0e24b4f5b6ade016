//! Cached prefixes: found, shared, restored from host memory, published.

use super::{
    block_table::{BlockTable, NULL, Pin},
    pool::KvCache,
    prefix_index::PrefixIndex,
};
use crate::step::{BLOCK_SIZE, BlockCopy, MAX_GROUPS};

/// Where a block of a cached prefix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cached {
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

impl KvCache {
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
        let in_host = |hash: &u64| self.host.pays && self.host.has(*hash);
        let has = |hash: &u64| self.index.has(*hash) || in_host(hash);
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

    /// Sets whether blocks are copied to host memory and back: not where computing them again is faster.
    pub fn set_copying(&mut self, pays: bool) {
        self.host.pays = pays;
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

    /// Saves to host memory of steps that are not over.
    pub fn saves_in_flight(&self) -> usize {
        self.host.saves_in_flight()
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
    pub(super) fn find(
        &self,
        table: &BlockTable,
        tokens: &[u32],
        most: usize,
        or_host: bool,
    ) -> Vec<Cached> {
        let (mut blocks, mut parent) = (Vec::new(), self.index.root(table.salt));
        let (mut longest, mut cached_in_a_row) = (0, [0; MAX_GROUPS]);
        'entries: for (at, &hash) in table.hashes.iter().enumerate().take(most / BLOCK_SIZE) {
            let Some(content) = self.index.content(tokens, at) else { break };
            let mut suffices = true;
            for (group, view) in self.views.iter().enumerate() {
                let hash = PrefixIndex::of_group(hash, group);
                let in_host =
                    || self.host.find(hash, parent, content).filter(|_| or_host && self.host.pays);
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
}
