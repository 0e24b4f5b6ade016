//! The block tables of all slots, which the device keeps between steps.

use crate::{
    Error, Result,
    step::{BLOCK_SIZE, Capacity, KvGroups, MAX_GROUPS, SeqPlan, StepPlan},
};

/// The host's copy of the device's tables, `[seqs][ceil(context / 16)][groups]` KV block ids.
///
/// Every index that a kernel reads from a table is checked here once, when it is set: an out-of-bounds
/// index would silently corrupt device memory. Blocks that no later row attends to may be anything.
#[derive(Clone, Debug)]
pub struct BlockTables {
    /// One table of ceil(context / 16) entries per slot.
    pub words: Vec<u32>,
    capacity: Capacity,
    slots: Vec<Slot>, // [seqs]
}

/// The group of a layer among those of its model: which block of an entry has its keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvGroup {
    pub index: usize,
    pub count: usize,
}

impl KvGroup {
    /// That of all layers.
    pub const ALL: KvGroup = KvGroup { index: 0, count: 1 };
}

/// State of a slot's table.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Entries that are set.
    len: usize,
    /// Of each group: entries from here on have checked blocks, and so have those of the sinks.
    sound: [usize; MAX_GROUPS],
}

impl BlockTables {
    /// Empty tables.
    pub fn new(capacity: &Capacity) -> BlockTables {
        BlockTables {
            words: vec![0; Self::words(capacity)],
            capacity: *capacity,
            slots: vec![Slot::default(); capacity.seqs],
        }
    }

    /// Tables with the entries of one plan.
    ///
    /// # Errors
    /// Those of [`BlockTables::update`].
    pub fn of(plan: &StepPlan, capacity: &Capacity) -> Result<BlockTables> {
        let mut tables = BlockTables::new(capacity);
        tables.update(plan, |_, _| {})?;
        Ok(tables)
    }

    /// Words of all tables.
    pub fn words(capacity: &Capacity) -> usize {
        capacity.seqs * Self::stride(capacity)
    }

    /// Words of one table.
    fn stride(capacity: &Capacity) -> usize {
        capacity.context.div_ceil(BLOCK_SIZE) * capacity.groups.count()
    }

    /// What the groups of layers attend to.
    pub fn groups(&self) -> KvGroups {
        self.capacity.groups
    }

    /// First word of the table of `slot`.
    pub fn start(&self, slot: u32) -> usize {
        slot as usize * Self::stride(&self.capacity)
    }

    /// The KV slot (16·block + offset) of a position in the layers of a group; the sequence's table starts
    /// at `table`.
    pub fn kv_slot(&self, group: KvGroup, table: u32, position: usize) -> usize {
        let entry = table as usize + position / BLOCK_SIZE * group.count;
        self.words[entry + group.index] as usize * BLOCK_SIZE + position % BLOCK_SIZE
    }

    /// Applies the entries of a plan and calls `on_change` with the changed words: the index of the
    /// first, and their values.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if a row is out of range or would read an entry that is not set or no
    /// block.
    pub fn update(
        &mut self,
        plan: &StepPlan,
        mut on_change: impl FnMut(usize, &[u32]),
    ) -> Result<()> {
        for seq in &plan.seqs {
            let slot = self.check(seq)?;
            self.slots[seq.slot as usize] = slot;
            let end = self.start(seq.slot) + slot.len * self.groups().count();
            let at = end - seq.blocks.len();
            let known = self.words[at..].iter().zip(&seq.blocks);
            let same = known.take_while(|(known, new)| known == new).count();
            let new = &seq.blocks[same..];
            if !new.is_empty() {
                self.words[at + same..][..new.len()].copy_from_slice(new);
                on_change(at + same, new);
            }
        }
        Ok(())
    }

    /// The state of the slot with the entries of `seq`, if its rows may then run.
    fn check(&self, seq: &SeqPlan) -> Result<Slot> {
        let Capacity { blocks, context, groups, .. } = self.capacity;
        let (start, count) = (seq.start as usize, seq.rows());
        let end = start + seq.unverified as usize + count;
        let slot = self.slots.get(seq.slot as usize).and_then(|kept| {
            let first = if seq.blocks.is_empty() { kept.len } else { seq.first_entry as usize };
            let entries = seq.blocks.chunks_exact(groups.count());
            let len = first + entries.len();
            let whole = entries.remainder().is_empty() && len <= context.div_ceil(BLOCK_SIZE);
            // A new sequence does not reuse the table of the one before it.
            let valid = whole && (start > 0 || first == 0);
            if first > kept.len || !valid || count == 0 || end > context.min(len * BLOCK_SIZE) {
                return None;
            }
            let mut slot = Slot { len, ..Slot::default() };
            for (group, window) in groups.windows().enumerate() {
                let is_null = |entry: &[u32]| entry[group] as usize >= blocks;
                let first_null = entries.clone().position(is_null).map(|at| first + at);
                let last_null = entries.clone().rposition(is_null).map(|at| first + at);
                let sound = last_null.map_or(kept.sound[group].min(first), |at| at + 1);
                let sinks = window.map_or(0, |window| window.sinks / BLOCK_SIZE);
                let visible = window.map_or(0, |window| window.start(start) / BLOCK_SIZE);
                if sound > visible || first_null.is_some_and(|at| at < sinks) {
                    return None;
                }
                slot.sound[group] = sound;
            }
            Some(slot)
        });
        slot.ok_or_else(|| Error::InvalidRequest {
            param: "step".into(),
            message: format!(
                "slot {} has {count} rows from position {start} over {} blocks from {}; limits are {:?}",
                seq.slot,
                seq.blocks.len(),
                seq.first_entry,
                self.capacity
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{HostMemory, RowTokens, Window};

    const CAPACITY: Capacity = Capacity {
        rows: 64,
        seqs: 4,
        logit_rows: 4,
        blocks: 10,
        context: 100,
        vocab: 100,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };
    const NULL: u32 = u32::MAX;

    fn rows(slot: u32, start: u32, count: usize, first_entry: u32, blocks: &[u32]) -> SeqPlan {
        let tokens = RowTokens::Known(vec![1; count]);
        SeqPlan { slot, start, tokens, first_entry, blocks: blocks.into(), ..Default::default() }
    }

    /// The changed words, or none if the plan is refused.
    fn update(tables: &mut BlockTables, seq: SeqPlan) -> Option<Vec<(usize, Vec<u32>)>> {
        let plan = StepPlan { seqs: vec![seq], ..Default::default() };
        let mut changes = Vec::new();
        let updated = tables.update(&plan, |at, new| changes.push((at, new.to_vec())));
        updated.ok().map(|()| changes)
    }

    #[test]
    fn a_table_grows_by_new_entries_and_restarts_with_a_new_sequence() {
        let mut tables = BlockTables::new(&CAPACITY);
        let mut seq = |start, count, first, blocks: &[u32]| {
            update(&mut tables, rows(2, start, count, first, blocks))
        };
        // Tables of 7 entries: slot 2 starts at 14.
        assert_eq!(seq(0, 20, 0, &[7, 3]), Some(vec![(14, vec![7, 3])]));
        assert_eq!(seq(20, 12, 2, &[]), Some(vec![]));
        assert_eq!(seq(32, 1, 2, &[9]), Some(vec![(16, vec![9])]));
        // The whole table again: known entries cause no change.
        assert_eq!(seq(33, 1, 0, &[7, 3, 9]), Some(vec![]));
        assert_eq!(seq(34, 20, 0, &[7, 3, 9, 1]), Some(vec![(17, vec![1])]));
        assert_eq!(seq(0, 16, 0, &[7]), Some(vec![]));
        assert_eq!(seq(16, 1, 1, &[]), None, "the old table is gone");
        assert_eq!(tables.kv_slot(KvGroup::ALL, 14, 17), 3 * 16 + 1);
    }

    #[test]
    fn rows_over_missing_entries_are_refused() {
        let bad = [
            rows(0, 0, 0, 0, &[1]),
            rows(4, 0, 1, 0, &[1]),
            rows(0, 16, 1, 0, &[1]),
            rows(0, 0, 1, 0, &[10]),
            rows(0, 0, 1, 0, &[]),
            rows(0, 16, 1, 1, &[1]),
            rows(0, 90, 11, 0, &[1, 2, 3, 4, 5, 6, 7]),
            rows(0, 1, 1, 0, &[1, 2, 3, 4, 5, 6, 7, 8]),
            rows(0, 64, 1, 0, &[NULL, 2, 3, 4, 5]),
        ];
        for seq in bad {
            let found = update(&mut BlockTables::new(&CAPACITY), seq.clone());
            assert_eq!(found, None, "{seq:?}");
        }
    }

    #[test]
    fn blocks_must_cover_the_case_that_all_drafts_are_accepted() {
        let behind = |start, blocks: &[u32]| {
            let seq = SeqPlan { unverified: 7, ..rows(0, start, 2, 0, blocks) };
            update(&mut BlockTables::new(&CAPACITY), seq).is_some()
        };
        assert!(behind(7, &[1]) && !behind(8, &[1]));
        let most = [1, 2, 3, 4, 5, 6, 7];
        assert!(behind(91, &most) && !behind(92, &most));
    }

    #[test]
    fn entries_outside_the_window_may_be_anything() {
        let window = Some(Window { sinks: 16, tokens: 20 });
        let capacity = Capacity { groups: KvGroups::one(window), ..CAPACITY };
        let accepted = |seq| update(&mut BlockTables::new(&capacity), seq).is_some();
        // A row at 67 attends to 0 .. 15 and 48 .. 67; one at 66 also to 47, which is in block 2.
        assert!(accepted(rows(0, 67, 5, 0, &[1, NULL, NULL, 4, 5])));
        assert!(!accepted(rows(0, 66, 5, 0, &[1, NULL, NULL, 4, 5])));
        assert!(!accepted(rows(0, 67, 5, 0, &[NULL, 2, 3, 4, 5])));
        assert!(!accepted(rows(0, 67, 5, 0, &[1, 2, 3, NULL, 5])));
        // A row behind drafts must be valid even if all of them are rejected.
        let behind =
            |start, blocks: &[u32]| SeqPlan { unverified: 7, ..rows(0, start, 2, 0, blocks) };
        assert!(accepted(behind(67, &[1, NULL, NULL, 4, 5])));
        assert!(!accepted(behind(66, &[1, NULL, NULL, 4, 5])));

        // Nor do earlier rows run on a table that was set for later ones.
        let mut tables = BlockTables::new(&capacity);
        assert!(update(&mut tables, rows(0, 67, 1, 0, &[1, NULL, NULL, 4, 5])).is_some());
        assert!(update(&mut tables, rows(0, 60, 1, 5, &[])).is_none());
        assert!(update(&mut tables, rows(0, 60, 1, 1, &[2, 3, 4])).is_some());
    }

    #[test]
    fn each_group_has_its_block_in_an_entry_and_keeps_its_window() {
        let window = Some(Window { sinks: 0, tokens: 20 });
        let capacity = Capacity { groups: KvGroups::new([None, window]), ..CAPACITY };
        let mut tables = BlockTables::new(&capacity);
        let [wide, narrow] = [0, 1].map(|index| KvGroup { index, count: 2 });
        // Tables of 7 entries of two blocks: slot 1 starts at 14.
        let first = update(&mut tables, rows(1, 0, 20, 0, &[1, 2, 3, 4]));
        assert_eq!(first, Some(vec![(14, vec![1, 2, 3, 4])]));
        assert_eq!(tables.kv_slot(wide, 14, 17), 3 * 16 + 1);
        assert_eq!(tables.kv_slot(narrow, 14, 17), 4 * 16 + 1);
        let next = update(&mut tables, rows(1, 20, 20, 1, &[3, 4, 5, 6]));
        assert_eq!(next, Some(vec![(18, vec![5, 6])]));
        assert_eq!(update(&mut tables, rows(1, 40, 20, 3, &[])), None, "a fourth entry is missing");

        let accepted = |blocks: &[u32]| {
            update(&mut BlockTables::new(&capacity), rows(0, 67, 5, 0, blocks)).is_some()
        };
        assert!(accepted(&[1, NULL, 2, NULL, 3, NULL, 4, 5, 6, 7]));
        assert!(!accepted(&[1, NULL, 2, NULL, 3, NULL, 4, NULL, 6, 7]));
        assert!(!accepted(&[NULL, 1, 2, NULL, 3, NULL, 4, 5, 6, 7]));
        assert!(!accepted(&[1, NULL, 2, NULL, 3, NULL, 4, 5, 6]), "half an entry");
    }
}
