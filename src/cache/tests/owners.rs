//! Eviction if several owners share the cache.

use super::*;

/// A cache of ten blocks; an owner may have four before it evicts its own.
fn shared() -> KvCache {
    cache().with_share(0.4)
}

/// A prompt of this many blocks, different for each id, that has run for `owner`.
fn pass_for(cache: &mut KvCache, owner: u64, id: u32, blocks: usize) {
    let prompt = prompt(id, blocks);
    let mut table = admit_with(cache, &prompt, 0, owner, prompt.len(), true, 0).expect("it fits");
    cache.publish(&mut table, &prompt);
    cache.check_integrity([&table], []);
    cache.release(&mut table);
    cache.check_integrity([], []);
}

fn prompt(id: u32, blocks: usize) -> Vec<u32> {
    tokens(0, blocks * BS, id)
}

/// How many blocks of each prompt are cached.
fn found<const N: usize>(cache: &KvCache, ids: [u32; N], blocks: usize) -> [usize; N] {
    ids.map(|id| super::found(cache, &prompt(id, blocks), 0).len())
}

#[test]
fn owners_that_have_their_share_evict_their_own_oldest() {
    let mut cache = shared();
    pass_for(&mut cache, 1, 1, 3);
    for id in 2..6 {
        pass_for(&mut cache, 2, id, 2);
    }
    // The last owner also has the odd one of seven blocks without content.
    assert_eq!((cache.owned(1), cache.owned(2)), (3, 7));
    assert_eq!(found(&cache, [2, 3, 4, 5], 2), [1, 2, 2, 2], "ends before beginnings");
    for id in 6..20 {
        pass_for(&mut cache, 2, id, 2);
        assert_eq!(found(&cache, [1], 3), [3]);
        assert_eq!(found(&cache, [id - 2, id - 1, id], 2), [2; 3]);
    }
    assert_eq!((cache.owned(1), cache.owned(2)), (3, 7));
}

#[test]
fn owners_below_their_share_evict_the_oldest_of_all() {
    let mut cache = shared();
    pass_for(&mut cache, 1, 1, 8);
    pass_for(&mut cache, 2, 2, 2);
    pass_for(&mut cache, 2, 3, 2);
    assert_eq!((cache.owned(1), cache.owned(2)), (6, 4));
    assert_eq!(found(&cache, [2, 3], 2), [2; 2]);
    pass_for(&mut cache, 2, 4, 1);
    assert_eq!((cache.owned(1), cache.owned(2)), (6, 4));
    assert_eq!(found(&cache, [2, 3], 2), [1, 2]);
}

#[test]
fn owners_without_free_blocks_of_their_own_evict_the_oldest_of_all() {
    let mut cache = shared();
    pass_for(&mut cache, 1, 1, 5);
    let mut table = admit_with(&mut cache, &prompt(2, 5), 0, 2, 5 * BS, true, 0).expect("it fits");
    assert_eq!(cache.owned(2), 5);
    assert!(cache.reserve(&mut table, 8 * BS));
    assert_eq!(table.entries()[5..], [5, 4, 3]);
    assert_eq!((cache.owned(1), cache.owned(2)), (2, 8));
    cache.check_integrity([&table], []);
}

#[test]
fn blocks_without_content_are_taken_first_by_every_owner() {
    let mut cache = shared();
    pass_for(&mut cache, 1, 1, 6);
    let mut table = admit_with(&mut cache, &prompt(2, 2), 0, 1, 2 * BS, true, 0).expect("it fits");
    cache.release(&mut table);
    assert_eq!(cache.owned(1), 6, "blocks without content have no owner");
    let table = admit_with(&mut cache, &prompt(2, 6), 0, 1, 6 * BS, true, 0).expect("it fits");
    assert_eq!(table.entries(), [7, 8, 9, 10, 6, 5]);
    cache.check_integrity([&table], []);
}

#[test]
fn a_block_belongs_to_the_owner_that_took_it_not_to_those_that_share_it() {
    let mut cache = shared();
    pass_for(&mut cache, 1, 1, 3);
    let longer = prompt(1, 5);
    let mut table = admit_with(&mut cache, &longer, 0, 2, longer.len(), true, 0).expect("it fits");
    cache.publish(&mut table, &longer);
    assert_eq!((table.cached(), cache.owned(1), cache.owned(2)), (48, 3, 2));
    let (mut fork, _) = cache.fork(&table, 80, 100, 0).expect("it fits");
    assert_eq!((cache.owned(1), cache.owned(2)), (3, 4), "a fork has its parent's owner");
    cache.release(&mut table);
    cache.release(&mut fork);
    assert_eq!((cache.owned(1), cache.owned(2)), (3, 2));
    cache.check_integrity([], []);
}

#[test]
fn blocks_of_forgotten_owners_stay_cached_and_count_for_no_owner() {
    let mut cache = shared();
    pass_for(&mut cache, 1, 1, 3);
    let shared = prompt(1, 3);
    let mut held = admit_with(&mut cache, &shared, 0, 2, shared.len(), true, 0).expect("it fits");
    cache.forget(1);
    cache.forget(7);
    assert_eq!((cache.owned(1), cache.owned(2)), (0, 1));
    cache.release(&mut held);
    assert_eq!(found(&cache, [1], 3), [3]);
    // The name starts anew: it takes the six blocks without content, and then the oldest of all.
    for id in 2..6 {
        pass_for(&mut cache, 1, id, 1);
    }
    assert_eq!((cache.owned(1), found(&cache, [1], 3)), (4, [3]));
    pass_for(&mut cache, 1, 6, 4);
    assert_eq!(found(&cache, [1], 3), [3]);
    assert_eq!(found(&cache, [2, 3, 4, 5], 1), [0, 1, 1, 1]);
    pass_for(&mut cache, 3, 7, 1);
    assert_eq!(found(&cache, [1], 3), [2], "blocks without an owner are evicted like all others");
    cache.check_integrity([], []);
}

#[test]
fn places_of_forgotten_owners_are_reused() {
    let mut cache = shared();
    for owner in 0..1000 {
        pass_for(&mut cache, owner, owner as u32, 2);
        cache.forget(owner);
    }
    let places = cache.owners.owners.len();
    assert!(places <= 10 + 2, "{places} places for ten blocks");
    assert!(cache.reset());
    cache.check_integrity([], []);
}

#[test]
fn a_single_owner_takes_the_same_blocks_as_without_a_share() {
    let prompts = [(1, 3), (2, 4), (3, 5), (1, 3), (4, 2), (2, 4), (5, 9)];
    for share in [0.0, 0.3] {
        let [mut limited, mut plain] = [share, 1.0].map(|share| cache().with_share(share));
        for (id, blocks) in prompts {
            pass_for(&mut limited, 1, id, blocks);
            pass_for(&mut plain, id.into(), id, blocks);
            assert_eq!(free(&limited), free(&plain), "a share of {share}");
        }
    }
}
