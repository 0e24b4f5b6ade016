//! Prefixes: published, found, shared and evicted.

use super::*;

#[test]
fn are_shared_while_in_use_and_found_again_after_release() {
    let mut cache = cache();
    let prompts = [7, 5, 6].map(|own| tokens(48, own, own as u32));

    let mut first = run(&mut cache, &prompts[0]);
    assert_eq!((first.entries(), first.cached()), (&[1, 2, 3, 4][..], 0));
    assert_eq!(published(&cache, first.entries()), [true, true, true, false]);
    assert_eq!(references(&cache, first.entries()), [1; 4]);

    assert_eq!(lookup(&cache, &prompts[1], 0), 48);
    let mut second = run(&mut cache, &prompts[1]);
    assert_eq!((second.entries(), second.cached()), (&[1, 2, 3, 5][..], 48));
    assert_eq!(references(&cache, second.entries()), [2, 2, 2, 1]);
    assert_eq!(cache.free(), 5);
    cache.check_integrity([&first, &second], []);

    cache.release(&mut first);
    cache.release(&mut second);
    assert_eq!(first, BlockTable { hashes: first.hashes.clone(), ..Default::default() });
    assert_eq!(first.hashes.len(), 3, "while it waits, it needs no hashing to be found again");
    assert_eq!([cache.lookup(&first, &prompts[0]), cache.estimate(&first)], [48; 2]);
    // Blocks without content come first, then the ends of prefixes before their beginnings.
    assert_eq!(free(&cache), [5, 4, 6, 7, 8, 9, 10, 3, 2, 1]);

    let mut third = run(&mut cache, &prompts[2]);
    assert_eq!((third.entries(), third.cached()), (&[1, 2, 3, 5][..], 48));
    assert_eq!(free(&cache), [4, 6, 7, 8, 9, 10]);
    cache.check_integrity([&third], []);
    cache.release(&mut third);

    let all = admit(&mut cache, &[99; 160]).expect("it fits");
    assert_eq!((all.entries(), all.cached()), (&[5, 4, 6, 7, 8, 9, 10, 3, 2, 1][..], 0));
    assert_eq!((cache.free(), cache.usage()), (0, 1.0));
    assert_eq!(lookup(&cache, &prompts[0], 0), 0);
    cache.check_integrity([&all], []);
}

#[test]
fn grow_as_blocks_fill_up() {
    let mut cache = cache();
    let tokens = tokens(78, 0, 0);
    let mut table = run(&mut cache, &tokens[..55]);
    for (length, blocks, full) in [(59, 4, 3), (64, 4, 4), (78, 5, 4)] {
        assert!(cache.reserve(&mut table, length));
        cache.publish(&mut table, &tokens[..length]);
        assert_eq!(table.len(), blocks);
        let expected: Vec<bool> = (0..blocks).map(|at| at < full).collect();
        assert_eq!(published(&cache, table.entries()), expected, "{length} tokens");
    }
}

#[test]
fn have_the_same_hashes_however_many_tokens_are_hashed_at_a_time() {
    let mut cache = cache();
    let tokens = tokens(70, 0, 0);
    let whole = run(&mut cache, &tokens);
    let mut table = BlockTable::default();
    for length in 0..=tokens.len() {
        cache.hash(&mut table, &tokens[..length]);
        assert_eq!(table.hashes, whole.hashes[..length / BS]);
    }
}

#[test]
fn have_in_common_what_their_tokens_have_in_common() {
    let cache = cache();
    let table = |salt, tokens: &[u32]| {
        let mut table = BlockTable::new(salt, 0, 1);
        cache.hash(&mut table, tokens);
        table
    };
    let longest = table(0, &tokens(160, 0, 0));
    for common in [0, 15, 16, 47, 96, 159, 160] {
        let other = table(0, &tokens(common, 40, 1));
        let expected = common / BS * BS;
        assert_eq!([longest.common(&other), other.common(&longest)], [expected; 2], "{common}");
    }
    assert_eq!(longest.common(&table(1, &tokens(160, 0, 0))), 0, "another salt");
    assert_eq!(longest.common(&BlockTable::default()), 0);
}

#[test]
fn are_evicted_from_their_ends_the_oldest_first() {
    let mut cache = cache();
    let [a, b] = [tokens(0, 87, 1), tokens(0, 48, 2)];
    let mut tables = [&a, &b].map(|tokens| run(&mut cache, tokens));
    assert_eq!(cache.free(), 1);
    cache.release(&mut tables[0]);
    assert_eq!(free(&cache), [6, 10, 5, 4, 3, 2, 1]);
    cache.release(&mut tables[1]);
    assert_eq!(free(&cache), [6, 10, 5, 4, 3, 2, 1, 9, 8, 7]);
    let table = admit(&mut cache, &a[..35]).expect("it fits");
    assert_eq!((table.entries(), table.cached()), (&[1, 2, 6][..], 32));
    assert_eq!(cache.free(), 7);
}

#[test]
fn are_not_found_once_their_block_is_taken() {
    let mut cache = cache_of(2, None);
    let full = tokens(17, 0, 0);
    pass(&mut cache, &full[..16]);
    assert_eq!(lookup(&cache, &full, 0), 16);
    let table = admit(&mut cache, &[99; 15]).expect("it fits");
    assert_eq!(table.entries(), [1]);
    assert!(!cache.index.contains(1));
    assert_eq!(lookup(&cache, &full, 0), 0);
}

#[test]
fn are_not_evicted_for_the_request_that_hits_them() {
    let mut cache = cache_of(3, None);
    let tokens = tokens(32, 0, 0);
    pass(&mut cache, &tokens[..16]);
    pass(&mut cache, &tokens[16..]);
    // Block 1 is taken next, and block 2 has no cached parent.
    cache.free.remove(2);
    cache.free.push_back(2);
    assert_eq!(free(&cache), [1, 2]);
    let table = admit(&mut cache, &tokens).expect("it fits");
    assert_eq!((table.entries(), table.cached()), (&[1, 2][..], 16));
}

#[test]
fn are_neither_kept_nor_found_if_caching_is_off() {
    let mut cache = KvCache::new(5, KvGroups::FULL, false, 0);
    let prompt = tokens(64, 0, 0);
    let mut table = run(&mut cache, &prompt[..40]);
    assert_eq!(table.len(), 3);
    cache.release(&mut table);
    assert_eq!(lookup(&cache, &prompt, 0), 0);
    let table = admit(&mut cache, &prompt).expect("it fits");
    assert_eq!((table.len(), table.cached()), (4, 0));
    assert_eq!(admit(&mut cache, &[1]), None);
    assert_eq!(cache.stats(), CacheStats::default());
}

#[test]
fn leave_the_last_token_to_be_computed() {
    let mut cache = cache();
    let tokens = tokens(50, 0, 0);
    pass(&mut cache, &tokens);
    for (length, cached) in [(0, 0), (1, 0), (16, 0), (17, 16), (48, 32), (49, 48), (50, 48)] {
        assert_eq!(lookup(&cache, &tokens[..length], 0), cached, "of {length} tokens");
        let mut table = admit(&mut cache, &tokens[..length]).expect("it fits");
        assert_eq!(table.cached(), cached, "of {length} tokens");
        cache.release(&mut table);
    }
}

#[test]
fn do_not_change_for_a_request_that_does_not_fit() {
    let mut cache = cache();
    let first = run(&mut cache, &tokens(48, 0, 0));
    pass(&mut cache, &tokens(96, 0, 0)); // three more blocks
    let other = run(&mut cache, &tokens(0, 32, 1));
    assert_eq!(free(&cache), [9, 10, 6, 5, 4]);

    let long = tokens(96, 48, 2); // six cached blocks, two free ones besides
    assert_eq!(admit(&mut cache, &long), None);
    assert_eq!(references(&cache, &[1, 2, 3, 4, 5, 6]), [1, 1, 1, 0, 0, 0]);
    assert_eq!(free(&cache), [9, 10, 6, 5, 4]);

    let fitting = &long[..128];
    assert_eq!(
        admit_with(&mut cache, fitting, 0, 0, fitting.len(), true, 1),
        None,
        "one has to stay free"
    );
    let table = admit(&mut cache, fitting).expect("it fits");
    assert_eq!(table.entries(), [1, 2, 3, 4, 5, 6, 9, 10]);
    cache.check_integrity([&first, &other, &table], []);
}

#[test]
fn are_stored_twice_by_a_request_that_may_not_read_them() {
    let mut cache = cache();
    let prompt = tokens(48, 7, 0);
    let mut first = run(&mut cache, &prompt);
    let mut second =
        admit_with(&mut cache, &prompt, 0, 0, prompt.len(), false, 0).expect("it fits");
    assert_eq!((second.entries(), second.cached()), (&[5, 6, 7, 8][..], 0));
    cache.publish(&mut second, &prompt);
    assert_eq!(first.hashes, second.hashes);
    cache.check_integrity([&first, &second], []);
    assert_eq!(run(&mut cache, &prompt).entries()[..3], [1, 2, 3], "the first ones are found");

    cache = self::cache();
    for table in [&mut first, &mut second] {
        *table = admit_with(&mut cache, &prompt, 0, 0, prompt.len(), false, 0).expect("it fits");
        cache.publish(table, &prompt);
    }
    cache.release(&mut first);
    let others = admit_with(&mut cache, &[99; 96], 0, 0, 96, true, 0).expect("it fits");
    assert_eq!(others.entries(), [4, 9, 10, 3, 2, 1], "the first ones are evicted");
    assert_eq!(found(&cache, &prompt, 0), [5, 6, 7].map(Cached::Device));
}

#[test]
fn are_cleared_by_a_reset_unless_a_block_is_held() {
    let mut cache = cache();
    let prompt = tokens(48, 7, 0);
    let mut table = run(&mut cache, &prompt);
    assert!(!cache.reset());
    assert_eq!(lookup(&cache, &prompt, 0), 48);
    cache.release(&mut table);
    let pin = cache.pin(&prompt, 0).expect("it is cached");
    assert!(!cache.reset());
    cache.unpin(pin);
    assert!(cache.reset());
    assert_eq!(lookup(&cache, &prompt, 0), 0);
    assert_eq!(published(&cache, &Vec::from_iter(1..=10)), [false; 10]);
    cache.check_integrity([], []);
}

#[test]
fn are_counted_when_stored_and_evicted() {
    for blocks in [2, 3, 10] {
        let mut cache = cache_of(blocks + 1, None);
        let prompt = tokens(blocks * BS, 0, 0);
        let n = blocks as u64;
        pass(&mut cache, &prompt);
        assert_eq!(cache.stats(), CacheStats { stored: n, evicted: 0, resets: 0 });
        let mut table =
            admit_with(&mut cache, &prompt, 0, 0, prompt.len(), false, 0).expect("it fits");
        assert_eq!(cache.stats(), CacheStats { stored: n, evicted: n, resets: 0 });
        cache.publish(&mut table, &prompt);
        cache.publish(&mut table, &prompt);
        cache.release(&mut table);
        assert!(cache.reset());
        assert_eq!(cache.stats(), CacheStats { stored: 2 * n, evicted: n, resets: 1 });
    }
}

#[test]
fn are_separated_by_salts() {
    let mut cache = cache();
    let prompt = tokens(48, 7, 0);
    let mut table = admit_with(&mut cache, &prompt, 1, 0, prompt.len(), true, 0).expect("it fits");
    cache.publish(&mut table, &prompt);
    assert_eq!([0, 1, 2].map(|salt| lookup(&cache, &prompt, salt)), [0, 48, 0]);
    cache.release(&mut table);
    assert!(cache.pin(&prompt, 2).is_none());
    let other = admit_with(&mut cache, &prompt, 2, 0, prompt.len(), true, 0).expect("it fits");
    assert_eq!(other.cached(), 0);
}

#[test]
fn contain_only_computed_and_verified_tokens() {
    let mut cache = cache();
    let tokens = tokens(33, 0, 0);
    let mut table = admit_with(&mut cache, &tokens[..10], 0, 0, 33, true, 0).expect("it fits");
    for (verified, why, cached) in [
        (15, "the sixteenth token is known, its keys are not", 0),
        (16, "the step with the sixteenth token is over", 16),
        (31, "a draft was rejected", 16),
        (32, "a draft was accepted", 32),
    ] {
        cache.publish(&mut table, &tokens[..verified]);
        assert_eq!(lookup(&cache, &tokens, 0), cached, "{why}");
    }
}

#[test]
fn are_kept_by_a_pin() {
    let mut cache = cache();
    let prompt = tokens(48, 0, 0);
    assert!(cache.pin(&prompt, 0).is_none(), "nothing is cached");
    pass(&mut cache, &prompt);
    let pins = [&prompt[..40], &prompt].map(|prefix| cache.pin(prefix, 0).expect("cached"));
    assert_eq!([pins[0].tokens(), pins[1].tokens()], [32, 48]);
    cache.check_integrity([], &pins);
    assert_eq!(cache.free(), 7);
    pass(&mut cache, &[99; 112]);
    assert_eq!(lookup(&cache, &tokens(48, 1, 1), 0), 48, "all others were evicted");
    for (pin, free) in pins.into_iter().zip([7, 10]) {
        cache.unpin(pin);
        assert_eq!(cache.free(), free);
    }
    pass(&mut cache, &[98; 160]);
    assert_eq!(lookup(&cache, &prompt, 0), 0);
}

#[test]
fn that_are_long_take_only_one_block_for_their_end() {
    let mut cache = cache();
    let prompt = tokens(100, 0, 0);
    for room in [100, 112, 113] {
        let mut table = admit_with(&mut cache, &prompt, 0, 0, room, true, 0).expect("it fits");
        assert_eq!(table.len(), room.div_ceil(BS));
        cache.publish(&mut table, &prompt);
        cache.release(&mut table);
    }
    let table = admit_with(&mut cache, &prompt, 0, 0, 20, true, 0).expect("it fits");
    assert_eq!(table.len(), 6, "at least the cached blocks");
}
