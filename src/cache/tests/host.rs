//! Blocks in host memory.

use super::*;

/// A cache of five usable blocks, 1 to 5, and this many host blocks; a step can save as many.
fn with_host(blocks: usize) -> KvCache {
    cache_of(6, None).with_host(HostMemory { blocks, saves: blocks, reads: 0 })
}

/// The copies of a step that is then over.
fn step(cache: &mut KvCache) -> [Vec<(u32, u32)>; 2] {
    let copies = cache.take_copies();
    cache.saved(&copies[0], &[]);
    cache.host.check_integrity();
    copies.map(|copies| copies.iter().map(|copy| (copy.from, copy.to)).collect())
}

#[test]
fn what_is_evicted_is_saved_and_restored_to_other_blocks() {
    let mut cache = with_host(8);
    let first = tokens(0, 48, 1);
    pass(&mut cache, &first);
    assert_eq!(step(&mut cache), [vec![], vec![]]);
    // Five blocks, of which three have the first one's: its end is evicted before its beginning.
    pass(&mut cache, &tokens(0, 80, 2));
    assert_eq!(step(&mut cache), [vec![(3, 0), (2, 1), (1, 2)], vec![]]);
    // The last token is never found.
    assert_eq!(lookup(&cache, &first, 0), 32);
    let table = admit(&mut cache, &first).expect("it fits");
    assert_eq!((table.cached(), table.restored()), (32, 32));
    let [saves, restores] = step(&mut cache);
    let restored = table.entries()[..2].iter().copied();
    assert!(restores.into_iter().eq([2, 1].into_iter().zip(restored)));
    // Those of the second one that were evicted.
    assert_eq!(saves.len(), 3);
    assert_eq!(table.len(), 3);
    assert_eq!(published(&cache, table.entries()), [true, true, false]);
}

#[test]
fn what_is_on_its_way_is_not_found_yet_nor_what_has_failed() {
    let mut cache = with_host(8);
    let first = tokens(0, 32, 1);
    pass(&mut cache, &first);
    pass(&mut cache, &tokens(0, 80, 2));
    let [saves, _] = cache.take_copies();
    assert_eq!((saves.len(), lookup(&cache, &first, 0)), (2, 0));
    let lost: Vec<u32> = saves.iter().skip(1).map(|save| save.to).collect();
    cache.saved(&saves, &lost);
    // The first block was evicted last.
    assert_eq!(lookup(&cache, &first, 0), 0);
    cache.check_integrity([], []);

    let mut cache = with_host(8);
    pass(&mut cache, &first);
    pass(&mut cache, &tokens(0, 80, 2));
    step(&mut cache);
    assert_eq!(lookup(&cache, &first, 0), 16);
    assert_eq!(lookup(&cache, &first, 1), 0, "of another salt");
}

#[test]
fn the_least_recently_used_give_way() {
    let mut cache = with_host(4);
    let [first, second] = [1, 2].map(|id| tokens(0, 32, id));
    for prompt in [&first, &second] {
        pass(&mut cache, prompt);
        pass(&mut cache, &tokens(0, 80, 9));
        step(&mut cache);
    }
    // Four host blocks: those of the first were saved before the others.
    assert_eq!((lookup(&cache, &first, 0), lookup(&cache, &second, 0)), (0, 16));
    assert_eq!(cache.host_usage(), 1.0);
    let mut table = admit(&mut cache, &second).expect("it fits");
    cache.release(&mut table);
    step(&mut cache);
    pass(&mut cache, &tokens(0, 80, 8));
    step(&mut cache);
    assert_eq!(lookup(&cache, &second, 0), 16, "it was used last");
}

#[test]
fn a_step_saves_no_more_than_it_can() {
    let mut cache = cache_of(6, None).with_host(HostMemory { blocks: 8, saves: 2, reads: 0 });
    pass(&mut cache, &tokens(0, 80, 1));
    pass(&mut cache, &tokens(0, 80, 2));
    assert_eq!(step(&mut cache)[0], [(5, 0), (4, 1)]);
}

#[test]
fn a_prefix_comes_back_no_faster_than_what_it_replaces_is_saved() {
    let mut cache = cache_of(6, None).with_host(HostMemory { blocks: 12, saves: 4, reads: 0 });
    let (first, second) = (tokens(0, 64, 1), tokens(0, 80, 2));
    pass(&mut cache, &first);
    pass(&mut cache, &second);
    assert_eq!(step(&mut cache)[0].len(), 4);
    let mut table = BlockTable::default();
    cache.hash(&mut table, &first);
    assert_eq!(cache.admit(&mut table, &first, 64, true, 0), Admission::Restoring);
    cache.check_integrity([], []);
    assert_eq!(step(&mut cache).map(|copies| copies.len()), [2, 2]);
    assert_eq!(cache.admit(&mut table, &first, 64, true, 0), Admission::Admitted);
    assert_eq!(step(&mut cache).map(|copies| copies.len()), [2, 1]);
    assert_eq!((table.cached(), table.restored()), (48, 48));
    assert_eq!(lookup(&cache, &second, 0), 64, "nothing of it is lost");
}

#[test]
fn a_block_that_was_not_written_yet_is_not_saved() {
    let mut cache = with_host(8);
    let first = tokens(0, 32, 1);
    pass(&mut cache, &first);
    let second = tokens(0, 80, 2);
    pass(&mut cache, &second);
    step(&mut cache);
    let mut table = admit(&mut cache, &first).expect("it fits");
    let restored = table.entries()[0];
    cache.release(&mut table);
    // No step has run: the restored block is taken for others.
    pass(&mut cache, &tokens(0, 80, 3));
    let [saves, restores] = step(&mut cache);
    assert_eq!(restores, []);
    // What it had before was, when the restore took it.
    assert_eq!(saves.iter().filter(|(from, _)| *from == restored).count(), 1, "{saves:?}");
    assert_eq!(lookup(&cache, &second, 0), 64);
    assert_eq!(lookup(&cache, &first, 0), 16, "the host has it still");
}

#[test]
fn a_reset_and_wrong_values_remove_them_too() {
    let first = tokens(0, 32, 1);
    let mut cache = with_host(8);
    pass(&mut cache, &first);
    pass(&mut cache, &tokens(0, 80, 2));
    step(&mut cache);
    let mut wrong = admit(&mut cache, &first).expect("it fits");
    step(&mut cache);
    cache.retract(&wrong);
    cache.release(&mut wrong);
    assert_eq!(lookup(&cache, &first, 0), 0);
    assert_ne!(cache.host_usage(), 0.0);
    assert!(cache.reset());
    assert_eq!(cache.host_usage(), 0.0);
}

#[test]
fn each_group_of_layers_has_blocks_of_its_own() {
    let window = Some(Window { sinks: 0, tokens: 16 });
    let groups = KvGroups::new([None, window]);
    let cache = KvCache::new(7, groups, true, 7);
    let mut cache = cache.with_host(HostMemory { blocks: 8, saves: 8, reads: 0 });
    let first = tokens(0, 48, 1);
    pass(&mut cache, &first);
    pass(&mut cache, &tokens(0, 48, 2));
    assert_eq!(step(&mut cache)[0].len(), 6);
    let table = admit(&mut cache, &first).expect("it fits");
    let [_, restores] = step(&mut cache);
    // Two entries are found; of the first the window hides a block.
    assert_eq!((table.cached(), table.restored(), restores.len()), (32, 32, 3));
    assert_eq!(table.entries()[1], NULL);
}
