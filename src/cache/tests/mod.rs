//! The cache by example. Caches have the usable blocks 1 to 10 unless stated otherwise.

mod forks;
mod host;
mod owners;
mod prefixes;
mod windows;

use super::{block_table::NULL, prefixes::Cached, *};
use crate::step::{BLOCK_SIZE, BlockCopy, HostMemory, KvGroups, Window};

const BS: usize = BLOCK_SIZE;

/// A cache of ten usable blocks, 1 to 10.
fn cache() -> KvCache {
    cache_of(11, None)
}

fn cache_of(blocks: usize, window: Option<Window>) -> KvCache {
    KvCache::new(blocks, KvGroups::one(window), true, 7)
}

/// `common` tokens that all sequences share, then `own` tokens of sequence `id`.
fn tokens(common: usize, own: usize, id: u32) -> Vec<u32> {
    (0..common as u32).chain((0..own as u32).map(|i| 1000 * id + i)).collect()
}

fn admit(cache: &mut KvCache, tokens: &[u32]) -> Option<BlockTable> {
    admit_with(cache, tokens, 0, 0, tokens.len(), true, 0)
}

/// The table of a new sequence of a salt and an owner, hashed and admitted.
fn admit_with(
    cache: &mut KvCache,
    tokens: &[u32],
    salt: u64,
    owner: u64,
    room: usize,
    use_prefix: bool,
    spare: usize,
) -> Option<BlockTable> {
    let mut table = BlockTable::new(salt, owner, cache.views.len());
    cache.hash(&mut table, tokens);
    let admission = cache.admit(&mut table, tokens, room, use_prefix, spare);
    (admission == Admission::Admitted).then_some(table)
}

/// The blocks of all that is cached of a sequence, its last token too.
fn found(cache: &KvCache, tokens: &[u32], salt: u64) -> Vec<Cached> {
    let mut table = BlockTable::new(salt, 0, cache.views.len());
    cache.hash(&mut table, tokens);
    cache.find(&table, tokens, tokens.len(), true)
}

/// Tokens of the longest cached prefix.
fn lookup(cache: &KvCache, tokens: &[u32], salt: u64) -> usize {
    let mut table = BlockTable::new(salt, 0, cache.views.len());
    cache.hash(&mut table, tokens);
    cache.lookup(&table, tokens)
}

/// A sequence whose tokens are all computed.
fn run(cache: &mut KvCache, tokens: &[u32]) -> BlockTable {
    let mut table = admit(cache, tokens).expect("it fits");
    cache.publish(&mut table, tokens);
    table
}

/// A sequence that has run and has ended.
fn pass(cache: &mut KvCache, tokens: &[u32]) {
    let mut table = run(cache, tokens);
    cache.release(&mut table);
}

/// The free blocks, the next to be taken first.
fn free(cache: &KvCache) -> Vec<u32> {
    cache.free.iter().collect()
}

fn published(cache: &KvCache, blocks: &[u32]) -> Vec<bool> {
    blocks.iter().map(|block| cache.index.contains(*block)).collect()
}

fn references(cache: &KvCache, blocks: &[u32]) -> Vec<u32> {
    blocks.iter().map(|block| cache.references[*block as usize]).collect()
}

mod tables {
    use super::*;

    #[test]
    fn grow_by_whole_blocks_and_only_at_the_end() {
        let mut cache = cache_of(5, None);
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
    fn do_not_change_if_too_few_blocks_are_free() {
        let mut cache = cache_of(5, None);
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
    fn are_missed_when_lost() {
        let mut cache = cache_of(3, None);
        assert!(cache.reserve(&mut BlockTable::default(), 1));
        cache.check_integrity([], []);
    }

    #[test]
    #[should_panic(expected = "different parts of sequences")]
    fn do_not_share_different_parts() {
        let mut cache = cache_of(3, None);
        let mut table = BlockTable::default();
        assert!(cache.reserve(&mut table, 2 * BS));
        table.blocks = vec![1, 1];
        cache.check_integrity([&table], []);
    }
}

mod lookahead {
    use super::*;

    #[test]
    fn a_block_is_shared_with_the_same_token_after_it_alone() {
        let mut cache = cache().with_lookahead(1);
        let prompt = tokens(32, 0, 0);
        let follow = |next: u32| [&prompt[..], &[next, 7]].concat();
        let mut table = admit_with(&mut cache, &prompt, 0, 0, 33, true, 0).expect("it fits");
        cache.publish(&mut table, &prompt);
        assert_eq!(lookup(&cache, &follow(5), 0), 16);
        cache.publish(&mut table, &follow(5)[..33]);
        assert_eq!([5, 6].map(|next| lookup(&cache, &follow(next), 0)), [32, 16]);
    }

    #[test]
    fn an_identical_prompt_hits_all_but_the_block_of_its_end() {
        for length in [48, 37, 33] {
            let mut cache = cache().with_lookahead(1);
            let prompt = tokens(length, 0, 0);
            pass(&mut cache, &prompt);
            assert_eq!(lookup(&cache, &prompt, 0), 32, "{length} tokens");
        }
    }

    #[test]
    fn with_a_window_a_block_must_match_the_token_after_it_too() {
        let window = Some(Window { sinks: 0, tokens: 32 });
        let mut cache = cache_of(11, window).with_lookahead(1);
        let prompt = tokens(32, 1, 1);
        pass(&mut cache, &prompt);
        let other = tokens(32, 1, 2);
        assert_eq!([&prompt, &other].map(|tokens| lookup(&cache, tokens, 0)), [32, 16]);
        cache.index.remove(1);
        assert_eq!([&prompt, &other].map(|tokens| lookup(&cache, tokens, 0)), [0, 0]);
    }
}
