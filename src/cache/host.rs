//! Cached blocks in host memory: what was evicted from the device.

use super::{free_list::FreeList, prefix_index::PrefixIndex};
use crate::step::{BlockCopy, HostMemory};

/// The host blocks, found by content as the device's are, and the copies that the next step makes.
#[derive(Clone, Debug)]
pub struct HostTier {
    order: FreeList, // all host blocks, the least recently used first
    index: PrefixIndex,
    arriving: Vec<u32>, // [blocks] saves whose step is not over
    memory: HostMemory,
    /// Whether copies pay: where computing is faster, nothing is saved or restored.
    pub pays: bool,
    saves: Vec<BlockCopy>,
    restores: Vec<BlockCopy>,
}

impl HostTier {
    /// An empty tier whose blocks are found as those of `device`.
    pub fn new(memory: HostMemory, device: &PrefixIndex) -> HostTier {
        let blocks = memory.blocks;
        HostTier {
            order: FreeList::new(blocks),
            index: PrefixIndex::new(blocks, device.lookahead, device.seed),
            arriving: vec![0; blocks],
            memory,
            pays: true,
            saves: Vec::new(),
            restores: Vec::new(),
        }
    }

    /// Its size.
    pub fn memory(&self) -> HostMemory {
        self.memory
    }

    /// The share of the host blocks that hold something, from 0 to 1.
    pub fn usage(&self) -> f64 {
        self.index.len() as f64 / self.arriving.len().max(1) as f64
    }

    /// The host block with this content.
    pub fn find(&self, hash: u64, parent: u64, content: &[u32]) -> Option<u32> {
        let found = self.index.find(hash, parent, content);
        found.filter(|block| self.arriving[*block as usize] == 0)
    }

    /// Whether a block of this hash is kept.
    pub fn has(&self, hash: u64) -> bool {
        self.index.has(hash)
    }

    /// Keeps the content of a device block that is taken for another, if that pays, unless a step saves too much.
    pub fn save(&mut self, block: u32, hash: u64, parent: u64, content: &[u32]) {
        let before = self.restores.len();
        self.restores.retain(|restore| restore.to != block);
        if self.restores.len() < before {
            // It does not have this content yet, which came from here.
            return;
        }
        if let Some(known) = self.index.find(hash, parent, content) {
            return self.touch(known);
        }
        let has_room = self.pays && self.saves.len() < self.memory.saves;
        let Some(to) = self.order.first().filter(|_| has_room) else { return };
        self.index.remove(to);
        self.index.insert(to, hash, parent, content);
        self.arriving[to as usize] += 1;
        self.touch(to);
        self.saves.push(BlockCopy { from: block, to });
    }

    /// A host block for a content that comes from elsewhere, the least recently used that no copy needs.
    pub fn adopt(&mut self, hash: u64, parent: u64, content: &[u32]) -> Option<u32> {
        let needed = |block: &u32| {
            self.arriving[*block as usize] > 0
                || self.restores.iter().any(|restore| restore.from == *block)
        };
        let to = self.order.iter().find(|block| !needed(block))?;
        self.index.remove(to);
        self.index.insert(to, hash, parent, content);
        self.touch(to);
        Some(to)
    }

    /// Forgets the content of a host block.
    pub fn remove(&mut self, block: u32) {
        self.index.remove(block);
    }

    /// How many of a prefix's blocks, those in host memory, the next step can restore: half of what it can save is
    /// left for what rows replace, but those of an entry, `groups`, can always be. They all count as used, the first
    /// as the last.
    pub fn restorable(
        &mut self,
        of_prefix: impl DoubleEndedIterator<Item = u32>,
        groups: usize,
    ) -> usize {
        of_prefix.rev().for_each(|block| self.touch(block));
        (self.memory.saves / 2).max(groups).saturating_sub(self.restores.len())
    }

    /// Whether the next step has to restore blocks.
    pub fn restores(&self) -> bool {
        !self.restores.is_empty()
    }

    /// Has the next step write the content of a host block to a device block.
    pub fn restore(&mut self, from: u32, to: u32) {
        self.touch(from);
        self.restores.push(BlockCopy { from, to });
    }

    /// Moves the copies of the next step, saves and restores, out.
    pub fn take_copies(&mut self) -> [Vec<BlockCopy>; 2] {
        [&mut self.saves, &mut self.restores].map(std::mem::take)
    }

    /// Records that a step with these saves is over; those to the blocks `lost` have failed.
    pub fn saved(&mut self, saves: &[BlockCopy], lost: &[u32]) {
        for save in saves {
            self.arriving[save.to as usize] -= 1;
        }
        for block in lost {
            self.index.remove(*block);
        }
    }

    /// Forgets what is kept under a hash.
    pub fn forget(&mut self, hash: u64) {
        while let Some(block) = self.index.first(hash) {
            self.index.remove(block);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.index.clear();
    }

    /// Saves of steps that are not over.
    pub fn saves_in_flight(&self) -> usize {
        self.arriving.iter().sum::<u32>() as usize - self.saves.len()
    }

    /// Checks that blocks and hashes refer to each other, and that only saves of steps are awaited.
    ///
    /// # Panics
    /// If that does not hold, which is a defect.
    pub fn check_integrity(&self) {
        self.index.check_integrity();
        assert_eq!(self.order.iter().count(), self.arriving.len(), "a host block is lost");
        assert!(self.saves.len() <= self.memory.saves);
    }

    /// Counts a block as used.
    pub fn touch(&mut self, block: u32) {
        self.order.remove(block);
        self.order.push_back(block);
    }
}
