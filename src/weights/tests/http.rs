//! Downloads from a server that misbehaves.

use super::server::{Act::*, *};
use super::*;
use std::time::Duration;

const FILE: &str = "model.safetensors";

fn random(length: usize, rng: &mut fastrand::Rng) -> Vec<u8> {
    (0..length).map(|_| rng.u8(..)).collect()
}

/// 10,000 bytes behind a server that has sent a file before.
fn script() -> (Script, Vec<u8>) {
    let bytes = random(10_000, &mut fastrand::Rng::new());
    let script =
        Script::new([(FILE.into(), bytes.clone()), ("config.json".into(), b"{}".to_vec())]);
    (script, bytes)
}

/// Reads a file of a server that has been reached before.
fn read(script: &Script) -> Result<Vec<u8>> {
    let source = script.source();
    block_on(source.read("config.json"))?;
    block_on(source.read(FILE))
}

/// How often a reader waits before it fails.
const PATIENCE: usize = 5;

#[test]
fn an_interrupted_download_is_resumed() {
    let faults = [
        vec![Drop(2500)],
        vec![Drop(2500), Refuse, Status(503), Status(429), Drop(1)],
        vec![Drop(2500), IgnoreRange],
        vec![DropAll(2500), DropAll(2501), DropAll(9000), IgnoreRange],
        vec![Hang(4000), Silent],
        vec![End(4000), End(0), End(1)],
        vec![Refuse, Drop(0), Serve],
        vec![Drop(2500), Page],
        vec![Drop(10_000)],
    ];
    for hides_length in [false, true] {
        for acts in &faults {
            if hides_length && matches!(acts[0], End(_)) {
                continue; // undetectable
            }
            let (script, bytes) = script();
            if hides_length {
                script.hide_length();
            }
            script.act(FILE, acts.clone());
            assert_eq!(read(&script), Ok(bytes), "{acts:?}, {hides_length}");
        }
    }
}

#[test]
fn received_bytes_are_not_requested_again() {
    let (script, bytes) = script();
    script.act(FILE, [Drop(2500), Drop(0), Drop(4000)]);
    assert_eq!(read(&script), Ok(bytes));
    assert_eq!(script.asked(FILE), [0, 2500, 2500, 6500]);
}

#[test]
fn interruptions_at_random_bytes_change_no_byte() {
    let mut rng = fastrand::Rng::with_seed(seed());
    for _ in 0..200 {
        let length = rng.usize(1..5000);
        let bytes = random(length, &mut rng);
        let script =
            Script::new([(FILE.into(), bytes.clone()), ("config.json".into(), b"{}".to_vec())]);
        script.cut(rng.usize(1..2000));
        if rng.bool() {
            script.hide_length();
        }
        // A server that ignores ranges may break off before the position of the reader.
        let drops = rng.usize(0..10);
        let acts: Vec<Act> = std::iter::repeat_with(|| rng.usize(1..length + 1))
            .flat_map(|kept| [DropAll(kept), Drop(kept)])
            .take(drops)
            .collect();
        script.act(FILE, acts.clone());
        assert_eq!(read(&script), Ok(bytes), "{acts:?}");
    }
}

#[test]
fn waits_grow_and_end() {
    let (script, _) = script();
    script.act(FILE, [Drop(2500)]);
    script.act(FILE, vec![Refuse; 100]);
    let error = read(&script).unwrap_err();
    assert!(matches!(error, Error::Fetch { .. }), "{error}");
    let waits: Vec<Duration> = script.waits();
    assert_eq!(waits.len(), PATIENCE);
    assert!(waits.is_sorted_by(|a, b| a < b), "{waits:?}");
    assert!(waits.iter().sum::<Duration>() < Duration::from_secs(30));
    assert_eq!(script.asked(FILE).len(), 1 + PATIENCE);

    // Each received byte resets the attempts.
    let (script, bytes) = self::script();
    script.act(FILE, (0..50).flat_map(|_| [Drop(10), Refuse]));
    assert_eq!(read(&script), Ok(bytes));
}

#[test]
fn an_address_that_never_worked_is_refused_at_once() {
    for (act, words) in [
        (Refuse, "network error"),
        (Status(503), "HTTP status 503"),
        (Status(403), "HTTP status 403"),
        (Silent, "sent nothing"),
    ] {
        let (script, _) = script();
        script.act(FILE, [act]);
        let error = block_on(script.source().read(FILE)).unwrap_err();
        assert!(matches!(error, Error::Fetch { .. }) && error.to_string().contains(words));
        assert_eq!(script.asked(FILE), [0]);
    }
    let (script, _) = script();
    script.act(FILE, [Page]);
    let error = block_on(script.source().read(FILE)).unwrap_err();
    assert!(matches!(&error, Error::Malformed { found, .. } if found.contains("HTML")), "{error}");
    assert!(block_on(script.source().open("absent")).unwrap().is_none());
}

#[test]
fn permanent_errors_are_not_retried() {
    for status in [400, 401, 403, 404, 451] {
        let (script, _) = script();
        script.act(FILE, [Drop(2500), Status(status)]);
        assert!(matches!(read(&script), Err(Error::Fetch { .. })), "{status}");
        assert_eq!(script.asked(FILE).len(), 2);
    }
}

#[test]
fn a_body_shorter_than_announced_is_an_error() {
    let (script, _) = script();
    script.act(FILE, vec![End(300); 100]);
    // Each attempt gets 300 bytes, until all are received.
    assert!(read(&script).is_ok());

    let (script, _) = self::script();
    script.act(FILE, [End(300)]);
    script.act(FILE, vec![End(0); 100]);
    let what = format!("{FOLDER}{FILE}");
    assert_eq!(read(&script), Err(Error::Truncated { what, expected: 10_000, found: 300 }));
}

#[test]
fn a_file_that_changes_during_the_download_is_an_error() {
    let changes: [fn(&Script, Vec<u8>); 3] = [
        |script, bytes| script.set(FILE, bytes[..9999].to_vec()),
        |script, bytes| script.set(FILE, [bytes, vec![0]].concat()),
        |script, _| script.set_version("\"two\""),
    ];
    for change in changes {
        for then in [Serve, IgnoreRange] {
            let (script, bytes) = script();
            script.set_version("\"one\"");
            script.act(FILE, [Drop(2500), then]);
            let source = script.source();
            let mut stream = block_on(source.open(FILE)).unwrap().unwrap();
            block_on(stream.next()).unwrap();
            change(&script, bytes);
            let error = loop {
                match block_on(stream.next()) {
                    Ok(chunk) => assert!(chunk.is_some(), "the end of the file"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::Integrity { .. }), "{error}");
        }
    }
}

#[test]
fn a_file_can_be_opened_at_any_byte() {
    let (script, bytes) = script();
    let source = script.source();
    for start in [0, 1, 999, 5000, 9999, 10_000] {
        for act in [Serve, IgnoreRange, Drop(1), DropAll(5500)] {
            script.act(FILE, [act]);
            let mut stream = block_on(source.open_at(FILE, start)).unwrap().unwrap();
            assert_eq!(stream.length(), Some(10_000));
            let mut found: Vec<u8> = Vec::new();
            while let Some(chunk) = block_on(stream.next()).unwrap() {
                found.extend(chunk.as_slice());
            }
            assert_eq!(found, bytes[start as usize..]);
        }
    }
    assert!(block_on(source.open_at("absent", 5)).unwrap().is_none());
}

#[test]
fn a_checkpoint_loads_despite_server_errors() {
    let whole = load(&tiny_source(), &Quantise::KEEP).unwrap();
    let script = Script::new(sharded_source().files);
    script.act("model.safetensors.index.json", [Drop(20)]);
    script.act("a.safetensors", [Drop(700), Hang(900), Status(502), IgnoreRange]);
    script.act("b.safetensors", [Refuse, Drop(2), Refuse, Drop(3000)]);
    assert_eq!(load(&script.source(), &Quantise::KEEP).unwrap(), whole);

    script.act("b.safetensors", [Serve, Status(404)]);
    let error = load(&script.source(), &Quantise::KEEP).unwrap_err();
    assert!(matches!(&error, Error::Fetch { what, .. } if what.ends_with("b.safetensors")));
}

#[test]
fn a_sparing_reader_is_sent_little_more_than_it_reads() {
    let bytes = random(1_000_000, &mut fastrand::Rng::new());
    let first = 64 << 10;
    for hides_length in [false, true] {
        let script = Script::new([(FILE.into(), bytes.clone())]);
        if hides_length {
            script.hide_length();
        }
        let source = HttpSource::sparing(script.clone(), FOLDER);
        let mut stream = block_on(source.open(FILE)).unwrap().unwrap();
        block_on(stream.next()).unwrap();
        assert_eq!(stream.length(), (!hides_length).then_some(1_000_000));
        drop(stream);
        assert_eq!(script.asked_parts(FILE), [(0, Some(first))]);
        assert_eq!(block_on(source.read(FILE)).unwrap(), bytes);
        let parts = [(0, first), (first, 5 * first), (5 * first, 21 * first)];
        assert_eq!(script.asked_parts(FILE)[1..], parts.map(|(start, end)| (start, Some(end))));
        for acts in
            [vec![IgnoreRange], vec![Drop(2500), Refuse, Drop(70_000)], vec![Serve, Drop(1), Serve]]
        {
            script.act(FILE, acts.clone());
            assert_eq!(block_on(source.read(FILE)).as_ref(), Ok(&bytes), "{acts:?}");
        }
        assert!(block_on(source.open("absent")).unwrap().is_none());
    }
}

#[test]
fn a_sparing_reader_finds_the_end_where_a_piece_ends() {
    for hides_length in [false, true] {
        let bytes = vec![1; 64 << 10];
        let script = Script::new([(FILE.into(), bytes.clone())]);
        if hides_length {
            script.hide_length();
        }
        let source = Parallel::new(HttpSource::sparing(script.clone(), FOLDER));
        assert_eq!(block_on(source.read(FILE)).unwrap(), bytes);
    }
}
