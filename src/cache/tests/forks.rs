//! Forks: sequences that share the first tokens of another.

use super::*;

#[test]
fn share_full_blocks_and_copy_a_partial_one() {
    for (shared, blocks, copies) in [
        (48, &[1, 2, 3, 5][..], vec![]),
        (50, &[1, 2, 3, 5], vec![BlockCopy { from: 4, to: 5 }]),
        (16, &[1, 5, 6, 7], vec![]),
        (20, &[1, 5, 6, 7], vec![BlockCopy { from: 2, to: 5 }]),
    ] {
        let mut cache = cache();
        let prompt = tokens(50, 10, 1);
        let mut parent = run(&mut cache, &prompt);
        let fork = cache.fork(&parent, shared, 60, 0).expect("it fits");
        assert_eq!((fork.0.entries(), fork.1), (blocks, copies), "{shared} tokens");
        cache.check_integrity([&parent, &fork.0], []);

        let mut child = fork.0;
        let own = tokens(shared, 60 - shared, 2);
        cache.publish(&mut child, &own);
        assert_eq!(lookup(&cache, &own, 0), 48);
        assert_eq!(lookup(&cache, &prompt, 0), 48);
        cache.release(&mut parent);
        cache.check_integrity([&child], []);
    }
}

#[test]
fn publish_a_shared_block_once() {
    let mut cache = cache();
    let prompt = tokens(33, 0, 0);
    let mut parent = admit(&mut cache, &prompt).expect("it fits");
    let (mut child, _) = cache.fork(&parent, 33, 34, 0).expect("it fits");
    cache.publish(&mut parent, &prompt);
    cache.publish(&mut child, &prompt);
    assert_eq!(cache.stats().stored, 2);
    assert_eq!(child.hashes, parent.hashes);
    cache.check_integrity([&parent, &child], []);
}

#[test]
fn change_nothing_if_they_do_not_fit() {
    let mut cache = cache();
    let parent = run(&mut cache, &tokens(120, 0, 0)); // leaves two blocks
    assert_eq!(cache.fork(&parent, 120, 145, 0), None);
    assert_eq!(cache.fork(&parent, 120, 144, 1), None);
    assert_eq!(cache.free(), 2);
    cache.check_integrity([&parent], []);
    let (child, copies) = cache.fork(&parent, 120, 120, 1).expect("it fits");
    assert_eq!((child.len(), copies), (8, vec![BlockCopy { from: 8, to: 9 }]));
}

#[test]
fn retire_blocks_beyond_those_of_their_parent() {
    let mut cache = cache_of(20, Some(Window { sinks: 32, tokens: 16 }));
    let prompt = tokens(96, 0, 0);
    let mut parent = run(&mut cache, &prompt);
    cache.retire(&mut parent, 96);
    assert_eq!(parent.entries(), [1, 2, 0, 0, 0, 6]);
    let (mut child, copies) = cache.fork(&parent, 20, 96, 0).expect("sinks are still there");
    assert_eq!((child.len(), copies), (6, vec![BlockCopy { from: 2, to: child.blocks[1] }]));
    cache.retire(&mut child, 96);
    assert_eq!(child.entries()[2..5], [NULL; 3]);
    cache.check_integrity([&parent, &child], []);
}

#[test]
fn need_the_blocks_in_their_window() {
    let mut cache = cache_of(11, Some(Window { sinks: 0, tokens: 32 }));
    let mut parent = run(&mut cache, &tokens(96, 0, 0));
    cache.retire(&mut parent, 80); // positions up to 48
    for (tokens, fits) in [(96, true), (79, true), (78, false), (20, false)] {
        let mut fork = cache.fork(&parent, tokens, tokens + 1, 0);
        assert_eq!(fork.is_some(), fits, "{tokens} tokens");
        cache.check_integrity([&parent].into_iter().chain(fork.iter().map(|(fork, _)| fork)), []);
        if let Some((table, _)) = &mut fork {
            cache.release(table);
        }
    }
}
