//! Large files in parts, from a misbehaving server.

use super::server::{Act::*, *};
use super::*;

const FILE: &str = "model.safetensors";
const PART: u64 = 1000;

/// A file of this many bytes, on a slow server that has sent a file before.
fn script(length: usize, rng: &mut fastrand::Rng) -> (Script, Vec<u8>) {
    let bytes: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
    let script =
        Script::new([(FILE.into(), bytes.clone()), ("config.json".into(), b"{}".to_vec())]);
    script.cut(100);
    script.dawdle();
    block_on(script.source().read("config.json")).unwrap();
    (script, bytes)
}

fn open(script: &Script, start: u64) -> ParallelStream<Script> {
    let source = Parallel::with_parts(script.source(), PART);
    block_on(source.open_at(FILE, start)).unwrap().expect("the file is there")
}

/// The rest of a file.
fn drain(stream: &mut ParallelStream<Script>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(piece) = block_on(stream.next())? {
        assert!(!piece.is_empty());
        bytes.extend_from_slice(piece.as_slice());
    }
    Ok(bytes)
}

/// Compares without printing thousands of numbers.
fn assert_same(found: &[u8], expected: &[u8]) {
    let place = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!((found.len(), place), (expected.len(), None), "bytes and the first that differs");
}

#[test]
fn a_large_file_comes_in_parts_a_few_at_a_time() {
    let (script, bytes) = script(20_000, &mut fastrand::Rng::new());
    assert_same(&drain(&mut open(&script, 0)).unwrap(), &bytes);
    let asked = script.asked_parts(FILE);
    assert_eq!(asked[0], (0, None));
    let (first, _) = asked[1];
    // The first transfer delivers until the parts take over, and no more.
    assert!((PART..3 * PART).contains(&first), "{first}");
    for (i, part) in asked[1..].iter().enumerate() {
        let start = first + i as u64 * PART;
        assert_eq!(*part, (start, Some(20_000.min(start + PART))));
    }
    assert_eq!(asked.last().unwrap().1, Some(20_000));
    // How many run at once depends on the server; four is the limit.
    let (now, most) = script.transfers();
    assert!(now == 0 && (2..=4).contains(&most), "{now} transfers, {most} at most");
}

#[test]
fn small_files_and_headers_take_one_transfer() {
    let (script, bytes) = script(2 * PART as usize, &mut fastrand::Rng::new());
    assert_same(&drain(&mut open(&script, 0)).unwrap(), &bytes);
    assert_eq!(script.asked_parts(FILE), [(0, None)]);

    let (script, bytes) = self::script(20_000, &mut fastrand::Rng::new());
    let mut stream = open(&script, 0);
    let head = block_on(stream.next()).unwrap().unwrap();
    assert_eq!(head.as_slice(), &bytes[..head.len()]);
    drop(stream);
    assert_eq!(script.asked_parts(FILE), [(0, None)]);
    assert_eq!(script.transfers().0, 0);

    // A server that hides the length may not have that many bytes.
    script.hide_length();
    assert_same(&drain(&mut open(&script, 0)).unwrap(), &bytes);
    assert_eq!(script.asked_parts(FILE), [(0, None); 2]);
}

/// Other origins hide the length of a compressed body, and the range of a part.
#[test]
fn a_known_length_allows_parts_from_a_server_that_hides_it() {
    for (expected, asked_behind) in [(20_000, 0), (19_000, 0), (21_000, 3)] {
        let (script, bytes) = script(20_000, &mut fastrand::Rng::new());
        script.hide_length();
        let mut stream = open(&script, 0);
        stream.expect(Length::Exactly(expected));
        let length = bytes.len().min(expected as usize);
        assert_same(&drain(&mut stream).unwrap(), &bytes[..length]);
        let asked = script.asked_parts(FILE);
        assert!(asked.len() >= 17, "{asked:?}");
        let behind = asked.iter().filter(|(start, end)| *start >= 20_000 || end.is_none()).count();
        assert_eq!(behind, 1 + asked_behind, "{asked:?}");
    }
}

/// A GGUF file may go on after its last tensor; its digest is that of all of it.
#[test]
fn what_follows_a_least_length_comes_with_the_last_part() {
    for (least, is_short) in [(20_000, true), (19_990, true), (18_500, true), (12_000, false)] {
        let (script, bytes) = script(20_000, &mut fastrand::Rng::new());
        script.hide_length();
        let mut stream = open(&script, 0);
        stream.expect(Length::AtLeast(least));
        assert_same(&drain(&mut stream).unwrap(), &bytes);
        let asked = script.asked_parts(FILE);
        let open: Vec<u64> =
            asked[1..].iter().filter(|(_, end)| end.is_none()).map(|(start, _)| *start).collect();
        assert!(open.iter().all(|start| *start < least), "nothing behind its end: {asked:?}");
        // A long rest is read piece by piece over one transfer, not held in memory.
        assert_eq!(open.len(), if is_short { 1 } else { 2 }, "{asked:?}");
    }
}

#[test]
fn a_server_without_parts_is_read_over_the_first_transfer() {
    let (script, bytes) = script(20_000, &mut fastrand::Rng::new());
    script.act(FILE, [Serve]);
    script.act(FILE, vec![IgnoreRange; 100]);
    assert_same(&drain(&mut open(&script, 0)).unwrap(), &bytes);
    let asked = script.asked_parts(FILE);
    let whole = asked.iter().filter(|(_, end)| end.is_none()).count();
    // Three besides the first transfer, and one more in its place.
    assert_eq!((asked.len(), whole), (5, 1));
}

#[test]
fn parts_of_a_changed_file_are_not_joined() {
    let (script, _) = script(20_000, &mut fastrand::Rng::new());
    script.set_version("\"a\"");
    let mut stream = open(&script, 0);
    block_on(stream.next()).unwrap();
    script.set_version("\"b\"");
    let error = drain(&mut stream).unwrap_err();
    assert!(matches!(error, Error::Integrity { .. }), "{error}");

    let (script, bytes) = self::script(20_000, &mut fastrand::Rng::new());
    let mut stream = open(&script, 0);
    block_on(stream.next()).unwrap();
    script.set(FILE, bytes[..19_000].to_vec());
    let error = drain(&mut stream).unwrap_err();
    assert!(matches!(error, Error::Integrity { .. }), "{error}");
}

#[test]
fn dropping_the_stream_ends_all_transfers() {
    let (script, _) = script(20_000, &mut fastrand::Rng::new());
    let mut stream = open(&script, 0);
    while script.transfers().0 < 2 {
        block_on(stream.next()).unwrap().expect("the file is longer");
    }
    drop(stream);
    assert_eq!(script.transfers().0, 0);
}

#[test]
fn random_server_errors_change_no_byte() {
    let mut rng = fastrand::Rng::with_seed(seed());
    for _ in 0..200 {
        let length = rng.usize(1..30_000);
        let (script, bytes) = script(length, &mut rng);
        script.cut(rng.usize(1..3000));
        let start = rng.usize(..=length);
        let act = |rng: &mut fastrand::Rng| match rng.u8(..10) {
            0 => Drop(rng.usize(..2000)),
            1 => DropAll(rng.usize(..length + 1)),
            2 => End(rng.usize(..2000)),
            3 => Hang(rng.usize(..2000)),
            4 => Refuse,
            5 => Status(503),
            6 => Page,
            7 => IgnoreRange,
            8 => Silent,
            _ => Serve,
        };
        // The first request is for what there is; five failures without progress end the load.
        let acts: Vec<Act> = (0..rng.usize(..5)).map(|_| act(&mut rng)).collect();
        script.act(FILE, [Serve]);
        script.act(FILE, acts.clone());
        println!("{length} from {start}: {acts:?}");
        assert_same(&drain(&mut open(&script, start as u64)).unwrap(), &bytes[start..]);
    }
}
