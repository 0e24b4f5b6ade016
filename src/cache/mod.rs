//! The KV cache as the scheduler sees it: which blocks of [`BLOCK_SIZE`] tokens each sequence holds.
//!
//! The keys and values themselves live with the executor; here are only block ids.

mod free_list;

use self::free_list::FreeList;
use crate::step::BLOCK_SIZE;

/// The blocks that hold one sequence, in the order of its tokens. Only ever appended to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockTable(Vec<u32>);

impl BlockTable {
    /// The blocks of the first `tokens` tokens.
    pub fn covering(&self, tokens: usize) -> &[u32] {
        &self.0[..tokens.div_ceil(BLOCK_SIZE)]
    }
}

/// A fixed number of blocks, and how many tables hold each.
#[derive(Clone, Debug)]
pub struct KvCache {
    references: Vec<u32>, // [blocks]
    free: FreeList,       // the blocks without a reference
}

impl KvCache {
    /// A cache of `blocks` blocks, all free.
    pub fn new(blocks: usize) -> KvCache {
        KvCache { references: vec![0; blocks], free: FreeList::new(blocks) }
    }

    /// Grows `table` to hold `tokens` tokens. Where too few blocks are free, changes nothing and
    /// returns false.
    #[must_use]
    pub fn reserve(&mut self, table: &mut BlockTable, tokens: usize) -> bool {
        let missing = tokens.div_ceil(BLOCK_SIZE).saturating_sub(table.0.len());
        if missing > self.free.len() {
            return false;
        }
        for block in std::iter::from_fn(|| self.free.pop_front()).take(missing) {
            self.references[block as usize] += 1;
            table.0.push(block);
        }
        true
    }

    /// Gives up the blocks of `table`, the last first: a sequence's beginning stays in the pool longest.
    pub fn release(&mut self, table: &mut BlockTable) {
        for block in table.0.drain(..).rev() {
            let references = &mut self.references[block as usize];
            *references -= 1;
            if *references == 0 {
                self.free.push_back(block);
            }
        }
    }

    /// The share of blocks that are held, from 0 to 1.
    pub fn usage(&self) -> f64 {
        let held = self.references.len() - self.free.len();
        held as f64 / self.references.len().max(1) as f64
    }

    /// Checks the cache against all tables in use: every block is either free or counted once per
    /// table entry.
    ///
    /// # Panics
    /// If that does not hold, which is a defect.
    pub fn check_integrity<'a>(&self, tables: impl Iterator<Item = &'a BlockTable>) {
        let mut entries = vec![0; self.references.len()];
        tables.flat_map(|table| &table.0).for_each(|block| entries[*block as usize] += 1);
        assert_eq!(self.references, entries, "references do not match the block tables");

        let mut free: Vec<usize> = self.free.iter().map(|block| block as usize).collect();
        free.sort_unstable();
        let unheld: Vec<usize> = (0..entries.len()).filter(|block| entries[*block] == 0).collect();
        assert_eq!(free, unheld, "the free list is not the blocks without a reference");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_grow_by_whole_blocks_and_only_at_the_end() {
        let mut cache = KvCache::new(4);
        let mut table = BlockTable::default();
        for (tokens, blocks) in [(0, 0), (1, 1), (16, 1), (17, 2), (5, 2), (48, 3)] {
            assert!(cache.reserve(&mut table, tokens));
            assert_eq!(table, BlockTable((0..blocks).collect()), "for {tokens} tokens");
            cache.check_integrity([&table].into_iter());
        }
        assert_eq!(cache.usage(), 0.75);
        assert!(table.covering(0).is_empty());
        assert_eq!(table.covering(32), [0, 1]);
        assert_eq!(table.covering(33), [0, 1, 2]);
    }

    #[test]
    fn a_reservation_that_does_not_fit_changes_nothing() {
        let mut cache = KvCache::new(4);
        let [mut a, mut b] = [(); 2].map(|()| BlockTable::default());
        assert!(cache.reserve(&mut a, 3 * BLOCK_SIZE));
        assert!(!cache.reserve(&mut b, 2 * BLOCK_SIZE));
        assert_eq!(b, BlockTable::default());
        assert!(cache.reserve(&mut b, BLOCK_SIZE));
        assert!(!cache.reserve(&mut a, 4 * BLOCK_SIZE));
        cache.check_integrity([&a, &b].into_iter());
    }

    #[test]
    fn released_blocks_come_back_last_first_behind_those_free_for_longer() {
        let mut cache = KvCache::new(4);
        let mut table = BlockTable::default();
        assert!(cache.reserve(&mut table, 3 * BLOCK_SIZE));
        cache.release(&mut table);
        assert_eq!(table, BlockTable::default());
        assert_eq!(cache.free.iter().collect::<Vec<_>>(), [3, 2, 1, 0]);
        assert_eq!(cache.usage(), 0.0);
        cache.check_integrity([].into_iter());
    }

    #[test]
    #[should_panic(expected = "references do not match")]
    fn a_lost_table_is_noticed() {
        let mut cache = KvCache::new(2);
        assert!(cache.reserve(&mut BlockTable::default(), 1));
        cache.check_integrity([].into_iter());
    }
}
