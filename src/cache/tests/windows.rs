//! The cache with an attention window.

use super::*;

/// A window of the last two blocks and a token.
const WINDOW: Option<Window> = Some(Window { sinks: 0, tokens: 32 });

#[test]
fn find_a_prefix_by_its_last_blocks() {
    let cases = [
        ("TF", 1),
        ("TTF", 2),
        ("TTFTFFTTFTTT", 12),
        ("TTFTFFTTFFF", 8),
        ("TTFTFFTTFFFT", 8),
        ("FTT", 3),
        ("FT", 0),
    ];
    for (cached, expected) in cases {
        let mut cache = cache_of(30, WINDOW);
        let prompt = tokens(cached.len() * BS, 1, 0);
        pass(&mut cache, &prompt);
        for (at, _) in cached.match_indices('F') {
            cache.index.remove(at as u32 + 1);
        }
        assert_eq!(lookup(&cache, &prompt, 0), expected * BS, "{cached}");
        let table = admit(&mut cache, &prompt).expect("it fits");
        let found = &table.entries()[..expected];
        let hidden = expected.saturating_sub(2);
        let null = found.iter().map(|block| *block == NULL);
        assert!(null.eq((0..expected).map(|at| at < hidden)), "{cached}: {found:?}");
        assert!(!table.entries()[expected..].contains(&NULL));
        cache.check_integrity([&table], []);
    }
}

#[test]
fn free_blocks_that_no_later_row_attends_to() {
    for (publish, order) in [(false, [3, 4, 2, 1, 7, 8, 9, 10]), (true, [7, 8, 9, 10, 1, 2, 4, 3])]
    {
        let mut cache = cache_of(11, WINDOW);
        let prompt = tokens(96, 1, 0);
        let mut table = admit(&mut cache, &prompt[..96]).expect("it fits");
        if publish {
            cache.publish(&mut table, &prompt);
        }
        for (computed, hidden) in
            [(0, 0), (46, 0), (47, 1), (47, 1), (62, 1), (63, 2), (0, 2), (95, 4)]
        {
            cache.retire(&mut table, computed);
            let entries = (1..=6).map(|block| if block <= hidden { NULL } else { block });
            assert_eq!(table.entries(), Vec::from_iter(entries), "{computed} computed");
            cache.check_integrity([&table], []);
        }
        assert_eq!(free(&cache), order);
        assert_eq!(lookup(&cache, &prompt, 0), if publish { 96 } else { 0 });
    }
}

#[test]
fn do_not_publish_hidden_blocks_but_hash_them_into_the_chain() {
    let mut cache = cache_of(11, WINDOW);
    let prompt = tokens(96, 1, 0);
    let mut table = admit(&mut cache, &prompt).expect("it fits");
    cache.retire(&mut table, 96);
    assert_eq!(table.entries(), [0, 0, 0, 0, 5, 6, 7]);
    cache.publish(&mut table, &prompt);
    assert_eq!(cache.stats().stored, 2);
    assert_eq!(lookup(&cache, &prompt, 0), 96);
    assert_eq!(lookup(&cache, &prompt[..90], 0), 0);
}

#[test]
fn hold_only_visible_blocks_of_a_cached_prefix() {
    // (window, blocks that a hit of ten blocks takes off the free list)
    for (window, visible) in [(None, 10), (Some(Window { sinks: 0, tokens: 80 }), 5)] {
        let mut cache = cache_of(31, window);
        let prompt = tokens(160, 160, 0);
        pass(&mut cache, &prompt[..160]);
        assert_eq!(admit_with(&mut cache, &prompt, 0, 0, 320, true, 21 - visible), None);
        let table =
            admit_with(&mut cache, &prompt, 0, 0, 320, true, 20 - visible).expect("it fits");
        assert_eq!((table.cached(), cache.free()), (160, 20 - visible));
    }
}

#[test]
fn with_sinks_keep_these_and_find_the_rest_by_the_visible_blocks() {
    let mut cache = cache_of(11, Some(Window { sinks: 16, tokens: 32 }));
    let prompt = tokens(96, 1, 0);
    let mut table = run(&mut cache, &prompt);
    assert_eq!(published(&cache, table.entries())[..6], [true; 6]);
    assert_eq!(lookup(&cache, &prompt, 0), 96);
    cache.retire(&mut table, 96);
    assert_eq!(table.entries(), [1, 0, 0, 0, 5, 6, 7]);
    assert_eq!(lookup(&cache, &prompt, 0), 96, "freed blocks are still cached");
    cache.check_integrity([&table], []);
    cache.release(&mut table);
    cache.index.remove(1);
    assert_eq!(lookup(&cache, &prompt, 0), 0, "sinks are always visible");
}
