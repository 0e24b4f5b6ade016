//! Invalid files: those of `fuzz/seeds`, and new changes of them.
//!
//! `fuzz` has the targets, and coverage-guided search. Here each file has to end with a result or an
//! error, and use memory in proportion to its size.
#![cfg(not(target_arch = "wasm32"))] // reads a folder, and counts allocations

#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::{fs, path::Path};

use fastrand::Rng;

/// Changed files per target.
const CHANGED: usize = 10_000;
/// Most bytes that a target may hold at a time per byte of its file, besides a constant.
const HELD_PER_BYTE: u64 = 200;
/// Numbers that cause overflows.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    i32::MAX as u64,
    u32::MAX as u64,
    1 << 32,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 31,
    u64::MAX,
];
/// Replacements of a value or a name in JSON.
const VALUES: [&str; 14] = [
    "null",
    "true",
    "0",
    "-1",
    "0.5",
    "1e308",
    "4294967296",
    "18446744073709551615",
    "\"\"",
    "\"x\"",
    "[]",
    "{}",
    "[[]]",
    "\"\\ud83d\\ude42\"",
];

/// Runs a target on its seeds, and on changes of them; any file may use `most` MiB.
fn run(name: &str, target: fn(&[u8]), most: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let entries = fs::read_dir(&folder).expect("a folder of seeds");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("a seed")).collect();
    assert!(!seeds.is_empty(), "{} is empty", folder.display());
    for (path, seed) in paths.iter().zip(&seeds) {
        println!("{}", path.display());
        check(target, seed, most);
    }

    let seed = fastrand::u64(..);
    let last = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}"));
    println!("seed {seed}; the last file is {}", last.display());
    let mut rng = Rng::with_seed(seed);
    for _ in 0..CHANGED {
        let file = changed(&mut rng, &seeds);
        fs::write(&last, &file).expect("a file");
        check(target, &file, most);
    }
}

fn check(target: fn(&[u8]), file: &[u8], most: u64) {
    let held = allocation_counter::measure(|| target(file)).bytes_max;
    let most = (most << 20) + HELD_PER_BYTE * file.len() as u64;
    assert!(held <= most, "a file of {} bytes took {held}, more than {most}", file.len());
}

/// One of the files with a few changes.
fn changed(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut file = seeds[rng.usize(..seeds.len())].clone();
    for _ in 0..=rng.usize(..4) {
        change(rng, &mut file, seeds);
    }
    file
}

fn change(rng: &mut Rng, file: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let run = run_of(rng, file.len());
    match rng.u8(..9) {
        0 => {
            if let Some(byte) = file.get_mut(run.start) {
                *byte ^= 1 << rng.u8(..8);
            }
        }
        1 => file[run].iter_mut().for_each(|byte| *byte = rng.u8(..)),
        2 => drop(file.drain(run)),
        3 => file.truncate(run.start),
        4 => {
            let copy = file[run.clone()].repeat(1 + rng.usize(..4));
            file.splice(run.start..run.start, copy);
        }
        5 => {
            let other = &seeds[rng.usize(..seeds.len())];
            let part = other[run_of(rng, other.len())].to_vec();
            file.splice(run, part);
        }
        6 => {
            let bytes = EDGES[rng.usize(..EDGES.len())].to_le_bytes();
            let width = [1, 2, 4, 8][rng.usize(..4)];
            let end = file.len().min(run.start + width);
            let start = run.start;
            file[start..end].copy_from_slice(&bytes[..end - start]);
        }
        // A value, or a name, of JSON.
        7 => {
            if let Some(token) = token(rng, file) {
                file.splice(token, VALUES[rng.usize(..VALUES.len())].bytes());
            }
        }
        _ => {
            let Some(one) = token(rng, file) else { return };
            let Some(other) = token(rng, file) else { return };
            let other = file[other].to_vec();
            file.splice(one, other);
        }
    }
}

/// A range of bytes, mostly a short one.
fn run_of(rng: &mut Rng, length: usize) -> std::ops::Range<usize> {
    let start = rng.usize(..=length);
    let most = if rng.u8(..4) == 0 { length } else { 16 };
    start..length.min(start + rng.usize(..=most))
}

/// A number, a word or a text in a JSON file or a template.
fn token(rng: &mut Rng, file: &[u8]) -> Option<std::ops::Range<usize>> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"\"._+-".contains(byte);
    let from = rng.usize(..=file.len());
    let start = from + file[from..].iter().position(is_word)?;
    let length = file[start..].iter().position(|byte| !is_word(byte));
    Some(start..length.map_or(file.len(), |length| start + length))
}

#[test]
fn safetensors() {
    run("safetensors", targets::safetensors, 1);
}

#[test]
fn checkpoint() {
    run("checkpoint", targets::checkpoint, 48);
}

#[test]
fn gguf() {
    run("gguf", targets::gguf, 48);
}

#[test]
fn draft() {
    run("draft", targets::draft, 12);
}

#[test]
fn config() {
    run("config", targets::config, 4);
}

#[test]
fn tokenizer() {
    run("tokenizer", targets::tokenizer, 48);
}

#[test]
fn template() {
    // The library repeats texts to 100 MB.
    run("template", targets::template, 1024);
}
