use pollster::block_on;
use proptest::prelude::*;

use super::*;
use crate::{
    manifest::Digest,
    step::{BLOCK_SIZE, EntryBlocks},
    weights::{Chunk, Store, tests::server::MemoryStore},
};

const SHAPE: Shape = Shape { run: 4, groups: 2, lookahead: 0 };
const ROOT: Digest = Digest([7; 32]);
/// Entries of a host memory in which everything fits.
const ALL: usize = 1 << 20;
/// Words of a block.
const WORDS: usize = 8;

fn prefixes(most_bytes: u64, record: &[u8]) -> Prefixes {
    Prefixes::new(ROOT, SHAPE, most_bytes, record)
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).collect()
}

/// Blocks whose second group sees a window: the first entry is hidden.
fn blocks(run: &Run) -> EntryBlocks {
    let present: Vec<bool> = (0..run.entries.len() * 2).map(|at| at != 1).collect();
    let count = present.iter().filter(|present| **present).count() * WORDS;
    let words = (0..count as u32).map(|word| word * 31 + run.entries.start as u32).collect();
    EntryBlocks { first_entry: run.entries.start, present, words }
}

/// Stores all of a conversation; returns the slots that were deleted for it.
fn store(prefixes: &mut Prefixes, tokens: &[u32], bytes: u64) -> Vec<u32> {
    let mut dropped = Vec::new();
    for _ in 0..100 {
        let Some(run) = prefixes.missing(tokens, tokens.len() / BLOCK_SIZE) else { return dropped };
        dropped.extend(prefixes.insert(Run { bytes, ..run }));
    }
    panic!("it is never stored");
}

/// Tokens of a prompt that are stored.
fn stored(prefixes: &mut Prefixes, prompt: &[u32]) -> usize {
    let (runs, _) = prefixes.find(prompt, 0, ALL);
    let mut end = 0;
    for run in &runs {
        assert_eq!(run.entries.start, end, "no gap");
        end = run.entries.end;
    }
    end * BLOCK_SIZE
}

#[test]
fn a_conversation_that_grows_is_stored_in_runs_and_its_last_one_replaced() {
    let mut prefixes = prefixes(1000, b"");
    for (count, runs, found) in
        [(255, 0, 0), (256, 4, 256), (300, 5, 288), (310, 5, 304), (390, 6, 384)]
    {
        store(&mut prefixes, &tokens(count), 10);
        assert_eq!(prefixes.bytes(), 10 * runs, "{count} tokens");
        assert_eq!(stored(&mut prefixes, &tokens(count + 1)), found);
    }
    // The last token is computed, for its logits.
    assert_eq!(stored(&mut prefixes, &tokens(384)), 320);
    // One that goes on otherwise shares what comes before.
    let mut other = tokens(390);
    other[320] = 5;
    assert_eq!(stored(&mut prefixes, &other), 320);
    store(&mut prefixes, &other, 10);
    assert_eq!((stored(&mut prefixes, &other), prefixes.bytes()), (384, 70));
    prefixes.forget(&tokens(390), 4);
    assert_eq!((stored(&mut prefixes, &other), prefixes.bytes()), (64, 20));
}

#[test]
fn only_what_is_worth_it_is_read_and_no_longer_than_computing_takes() {
    use std::time::Duration;
    let mut prefixes = prefixes(1000, b"");
    store(&mut prefixes, &tokens(512), 10);
    let prompt = tokens(600);
    let starts = |runs: &[Run]| runs.iter().map(|run| run.entries.start).collect::<Vec<_>>();
    let (runs, within) = prefixes.find(&prompt, 300, ALL);
    assert_eq!((starts(&runs), within), (vec![16, 20, 24, 28], Duration::from_secs(1)));
    prefixes.measured(Duration::from_millis(3));
    assert_eq!(prefixes.find(&prompt, 300, ALL).1, Duration::from_millis(3 * 212));
    assert_eq!(prefixes.find(&prompt, 449, ALL).0, []);
    // Nor more than there is room for.
    for (most, read) in [(16, vec![16, 20, 24, 28]), (15, vec![16, 20, 24]), (7, vec![])] {
        assert_eq!(starts(&prefixes.find(&prompt, 300, most).0), read, "{most} entries");
    }
    // The next visit knows what computing took.
    let mut next = Prefixes::new(ROOT, SHAPE, 1000, &prefixes.record());
    assert_eq!(
        next.find(&prompt, 448, ALL),
        (vec![runs[3].clone()], Duration::from_millis(3 * 64))
    );
}

#[test]
fn other_models_options_and_versions_find_nothing() {
    let mut own = prefixes(1000, b"");
    store(&mut own, &tokens(512), 10);
    let mut other = Prefixes::new(Digest([8; 32]), SHAPE, 1000, &own.record());
    assert_eq!(stored(&mut other, &tokens(600)), 0);
    let mut ahead = Prefixes::new(ROOT, Shape { lookahead: 1, ..SHAPE }, 1000, &own.record());
    assert_eq!(stored(&mut ahead, &tokens(600)), 0);
    // Both share the room, and no slot is used twice.
    store(&mut other, &tokens(512), 10);
    assert_eq!(other.bytes(), 160);
    assert_eq!(
        (
            stored(&mut other, &tokens(600)),
            stored(&mut prefixes(1000, &other.record()), &tokens(600))
        ),
        (512, 512)
    );
}

#[test]
fn a_record_of_rubbish_is_an_empty_one() {
    for record in ["", "{", "[]", r#"{"runs": 5}"#, r#"{"runs": [{"slot": -1}]}"#] {
        assert_eq!(prefixes(1000, record.as_bytes()).bytes(), 0, "{record}");
    }
    let key = "7".repeat(64);
    let run = format!(
        r#"{{"slot": 1, "key": "{key}", "entries": {{"start": 4, "end": 4}}, "bytes": 9}}"#
    );
    assert_eq!(prefixes(1000, format!(r#"{{"runs": [{run}]}}"#).as_bytes()).bytes(), 0);
}

proptest! {
    /// Conversations that grow, fork and come back within limited room.
    #[test]
    fn what_is_found_was_stored_and_the_limit_holds(
        most in 0..30_u64,
        turns in prop::collection::vec((0..5_u32, 0..700_usize, any::<bool>()), 1..40),
    ) {
        let mut prefixes = prefixes(most, b"");
        for (who, count, again) in turns {
            let at = |at: u32| if at < 100 { at } else { at + who };
            let tokens: Vec<u32> = (0..count as u32).map(at).collect();
            store(&mut prefixes, &tokens, 1);
            prop_assert!(prefixes.bytes() <= most);
            let found = stored(&mut prefixes, &tokens);
            prop_assert!(found < count.max(1));
            let entries = count / BLOCK_SIZE;
            if count >= 256 && most > entries.div_ceil(SHAPE.run) as u64 {
                // Without its last token, which is computed.
                let last = (entries - 1) / SHAPE.run * SHAPE.run;
                let usable = if entries * BLOCK_SIZE < count { entries } else { last };
                prop_assert!(found >= usable * BLOCK_SIZE, "{found} of {count}");
            }
            if again {
                prefixes = self::prefixes(most, &prefixes.record());
            }
        }
    }

    #[test]
    fn a_file_that_was_cut_or_changed_is_no_run(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let run = Run { slot: 0, key: ROOT, entries: 4..8, bytes: 0 };
        let file = run.encode(&blocks(&run));
        prop_assert_eq!(run.decode(&file, 2), Some(blocks(&run)));
        let at = at.index(file.len());
        prop_assert_eq!(run.decode(&file[..at], 2), None);
        let mut changed = file.clone();
        changed[at] ^= 1 << bit;
        prop_assert_eq!(run.decode(&changed, 2), None);
        let other = Run { key: Digest([1; 32]), ..run };
        prop_assert_eq!(other.decode(&file, 2), None);
    }
}

const ADDRESS: &str = "https://example.org/model/";

fn open(store: &MemoryStore) -> (RunFiles<MemoryStore>, Vec<u8>) {
    block_on(RunFiles::open(store.clone(), ADDRESS.into()))
}

/// Writes a run of a conversation and the record.
fn write(files: &RunFiles<MemoryStore>, prefixes: &mut Prefixes) -> Option<Run> {
    let run = prefixes.missing(&tokens(256), 16)?;
    let Written::Bytes(bytes) = block_on(files.write(&run, &blocks(&run))) else { return None };
    let run = Run { bytes, ..run };
    let dropped = prefixes.insert(run.clone());
    let is_deleted = block_on(files.write_record(&run, prefixes.record(), &dropped));
    (!is_deleted).then_some(run)
}

#[test]
fn runs_are_kept_beside_their_model_until_the_next_visit() {
    let store = MemoryStore::default();
    let (files, record) = open(&store);
    assert_eq!(record, b"");
    let mut before = prefixes(10_000, &record);
    let run = write(&files, &mut before).expect("it is written");
    assert_eq!(store.keys(), [format!("{ADDRESS}?tabloom-kv"), format!("{ADDRESS}?tabloom-kv=0")]);
    let (files, record) = open(&store);
    let mut after = prefixes(10_000, &record);
    let (found, _) = after.find(&tokens(300), 0, ALL);
    assert_eq!(found, std::slice::from_ref(&run));
    assert_eq!(block_on(files.read(&run, 2)), Some(blocks(&run)));

    let key = format!("{ADDRESS}?tabloom-kv=0");
    store.edit(&key, |file| file.push(0));
    assert_eq!(block_on(files.read(&run, 2)), None, "longer than it was");
    store.evict(&key);
    assert_eq!(block_on(files.read(&run, 2)), None, "gone");
    after.forget(&tokens(300), 0);
    assert_eq!(after.bytes(), 0);
}

#[test]
fn nothing_is_written_to_a_full_store_nor_beside_what_was_deleted() {
    let store = MemoryStore::default();
    let (files, _) = open(&store);
    store.limit(100, true);
    assert_eq!(write(&files, &mut prefixes(10_000, b"")), None);
    store.limit(100, false);
    assert_eq!(write(&files, &mut prefixes(10_000, b"")), None);
    assert_eq!(store.bytes(), 0);
    store.limit(10_000, true);
    let mut kept = prefixes(10_000, b"");
    assert!(write(&files, &mut kept).is_some());
    for key in store.keys() {
        store.evict(&key);
    }
    let run = kept.missing(&tokens(256), 16).expect("there is more");
    assert_eq!(block_on(files.write(&run, &blocks(&run))), Written::Deleted);
    assert_eq!(store.keys(), [""; 0]);
    // What comes later is stored anew.
    kept.clear();
    assert!(write(&files, &mut kept).is_some());
    assert_eq!(store.keys().len(), 2);
    // Deleted between a run's file and the record.
    let run = kept.missing(&tokens(512), 32).expect("there is more");
    store.keys().iter().for_each(|key| store.evict(key));
    block_on(store.put(&format!("{ADDRESS}?tabloom-kv={}", run.slot), &[Chunk::from(vec![1])]));
    assert!(block_on(files.write_record(&run, kept.record(), &[])));
    assert_eq!(store.keys(), [""; 0]);
}

#[test]
fn runs_that_give_way_are_deleted() {
    let store = MemoryStore::default();
    let (files, _) = open(&store);
    let mut prefixes = prefixes(1100, b"");
    while write(&files, &mut prefixes).is_some() {}
    let held = prefixes.bytes();
    assert!(held > 600 && held <= 1100, "{held} bytes");
    let other: Vec<u32> = (1000..1256).collect();
    let run = prefixes.missing(&other, 16).expect("it is not stored");
    let Written::Bytes(bytes) = block_on(files.write(&run, &blocks(&run))) else {
        panic!("it is written");
    };
    let dropped = prefixes.insert(Run { bytes, ..run.clone() });
    assert!(!dropped.is_empty());
    assert!(!block_on(files.write_record(&run, prefixes.record(), &dropped)));
    assert_eq!(store.bytes() as u64, prefixes.bytes() + prefixes.record().len() as u64);
}
