use super::*;

const BS: usize = BLOCK_SIZE;

fn cache(blocks: usize) -> KvCache {
    KvCache::new(blocks, None, true, fastrand::u64(..))
}

#[test]
fn tables_grow_by_whole_blocks_and_only_at_the_end() {
    let mut cache = cache(5);
    let mut table = BlockTable::default();
    for (tokens, blocks) in [(0, 0), (1, 1), (16, 1), (17, 2), (5, 2), (48, 3)] {
        assert!(cache.reserve(&mut table, tokens));
        assert_eq!(table.entries(), Vec::from_iter(1..=blocks), "for {tokens} tokens");
        cache.check_integrity([&table], []);
    }
    assert_eq!(cache.usage(), 0.75);
    assert!(table.covering(0).is_empty());
    assert_eq!(table.covering(32), [1, 2]);
    assert_eq!(table.covering(33), [1, 2, 3]);
}

#[test]
fn a_reservation_that_does_not_fit_changes_nothing() {
    let mut cache = cache(5);
    let [mut a, mut b] = [(); 2].map(|()| BlockTable::default());
    assert!(cache.reserve(&mut a, 3 * BS));
    assert!(!cache.reserve(&mut b, 2 * BS));
    assert!(b.is_empty());
    assert!(cache.reserve(&mut b, BS));
    assert!(!cache.reserve(&mut a, 4 * BS));
    cache.check_integrity([&a, &b], []);
}

#[test]
#[should_panic(expected = "references do not match")]
fn a_lost_table_is_noticed() {
    let mut cache = cache(3);
    assert!(cache.reserve(&mut BlockTable::default(), 1));
    cache.check_integrity([], []);
}
