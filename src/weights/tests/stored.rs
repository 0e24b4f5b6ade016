//! Loads through a local store: stored data is not downloaded again, and data without the right digest
//! is not trusted.

use super::server::{Act::*, *};
use super::*;
use crate::manifest::{Digest, FileManifest, Manifest};
use crate::weights::Stored;
use sha2::Digest as _;

/// Small, so that a file has several chunks.
const CHUNK: u64 = 1000;
/// The first shard, which is opened once.
const SHARD: &str = "a.safetensors";

fn stored(
    script: &Script,
    store: &MemoryStore,
    manifest: Option<&Manifest>,
) -> Stored<HttpSource<Script>, MemoryStore> {
    Stored::with_chunks(script.source(), Some(store.clone()), manifest.cloned(), CHUNK)
}

/// Loads the weights, and ends the load as an engine does.
fn load_with(
    script: &Script,
    store: &MemoryStore,
    manifest: Option<&Manifest>,
) -> Result<HostWeights> {
    let source = stored(script, store, manifest);
    block_on(source.finish(load(&source, &Quantise::KEEP)))
}

fn load_from(script: &Script, store: &MemoryStore) -> Result<HostWeights> {
    load_with(script, store, None)
}

fn digest(bytes: &[u8]) -> FileManifest {
    FileManifest {
        sha256: Digest(sha2::Sha256::digest(bytes).into()),
        bytes: Some(bytes.len() as u64),
        chunks: bytes.chunks(CHUNK as usize).map(|c| Digest(blake3::hash(c).into())).collect(),
    }
}

fn manifest() -> Manifest {
    let files = sharded_source().files;
    let files = files.iter().map(|(name, bytes)| (name.clone(), digest(bytes)));
    Manifest { files: files.collect(), is_partial: false }
}

/// The same without digests of chunks.
fn manifest_of_files() -> Manifest {
    let mut manifest = manifest();
    manifest.files.values_mut().for_each(|file| file.chunks.clear());
    manifest
}

fn script() -> Script {
    let script = Script::new(sharded_source().files);
    script.cut(300);
    script
}

fn expected() -> HostWeights {
    load(&sharded_source(), &Quantise::KEEP).unwrap()
}

/// A store with a loaded model.
fn warm() -> (Script, MemoryStore) {
    let (script, store) = (script(), MemoryStore::default());
    load_from(&script, &store).unwrap();
    script.take_requests();
    (script, store)
}

fn entry(file: &str, index: usize) -> String {
    format!("{FOLDER}{file}?tabloom={index}")
}

fn is_integrity(error: &Error, file: &str) -> bool {
    matches!(error, Error::Integrity { what, .. } if *what == format!("{FOLDER}{file}"))
}

#[test]
fn a_stored_model_loads_without_a_server() {
    for manifest in [None, Some(manifest()), Some(manifest_of_files())] {
        let (script, store) = (script(), MemoryStore::default());
        let source = stored(&script, &store, manifest.as_ref());
        let loaded = block_on(source.finish(load(&source, &Quantise::KEEP)));
        assert_eq!(loaded.unwrap(), expected());
        assert!(source.is_stored());
        let sizes: usize = sharded_source().files.values().map(Vec::len).sum();
        assert!((sizes..sizes + 20_000).contains(&store.bytes()), "bytes, records, nothing else");

        script.take_requests();
        for _ in 0..2 {
            assert_eq!(load_with(&script, &store, manifest.as_ref()).unwrap(), expected());
            assert_eq!(script.take_requests(), 0);
        }
    }
}

#[test]
fn the_digest_is_that_of_the_files_downloaded_or_stored() {
    let digest_of = |script: &Script, store: &MemoryStore| {
        let source = stored(script, store, None);
        let loaded = load(&source, &Quantise::KEEP);
        let digest = source.digest();
        block_on(source.finish(loaded)).unwrap();
        digest
    };
    let (script, store) = (script(), MemoryStore::default());
    let first = digest_of(&script, &store).expect("all is known");
    // A file that does not exist is noted, too.
    assert_eq!(digest_of(&script, &store), Some(first));
    let other = Script::new({
        let mut files = sharded_source().files;
        *files.get_mut(SHARD).and_then(|bytes| bytes.last_mut()).expect("it has weights") ^= 1;
        files
    });
    assert_ne!(digest_of(&other, &MemoryStore::default()), Some(first));
    let none = Stored::<_, MemoryStore>::with_chunks(script.source(), None, None, CHUNK);
    load(&none, &Quantise::KEEP).unwrap();
    assert_eq!(none.digest(), None, "nothing is digested without a store");
}

#[test]
fn an_interrupted_load_resumes_after_its_last_chunk() {
    for manifest in [None, Some(manifest()), Some(manifest_of_files())] {
        let (script, store) = (script(), MemoryStore::default());
        script.act(SHARD, [Drop(2700)]);
        script.act(SHARD, vec![Refuse; 5]);
        let error = load_with(&script, &store, manifest.as_ref()).unwrap_err();
        assert!(matches!(error, Error::Fetch { .. }), "{error}");

        script.take_requests();
        assert_eq!(load_with(&script, &store, manifest.as_ref()).unwrap(), expected());
        assert_eq!(script.asked(SHARD), [2000]);
    }
}

#[test]
fn a_download_resumes_only_with_the_same_file() {
    let (script, store) = (script(), MemoryStore::default());
    script.set_version("\"one\"");
    script.act(SHARD, [Drop(2700)]);
    script.act(SHARD, vec![Refuse; 5]);
    load_from(&script, &store).unwrap_err();
    script.set_version("\"two\"");
    assert!(is_integrity(&load_from(&script, &store).unwrap_err(), SHARD));
    assert_eq!(load_from(&script, &store).unwrap(), expected());
}

#[test]
fn only_evicted_entries_are_fetched_again() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..30 {
        let (script, store) = warm();
        let keys = store.keys();
        let evicted: Vec<&String> = keys.iter().filter(|_| rng.u8(..5) == 0).collect();
        evicted.iter().for_each(|key| store.evict(key));
        assert_eq!(load_from(&script, &store).unwrap(), expected(), "{evicted:?}");
        let touched = |file: &str| evicted.iter().any(|key| key.contains(&format!("/{file}?")));
        for file in sharded_source().files.keys() {
            assert_eq!(!script.asked(file).is_empty(), touched(file), "{file}: {evicted:?}");
        }
        assert_eq!(store.keys(), keys, "all is stored again");
    }
    let (script, store) = warm();
    store.evict(&entry(SHARD, 2));
    load_from(&script, &store).unwrap();
    assert_eq!(script.asked(SHARD), [2000]);
}

#[test]
fn changed_entries_are_fetched_again() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (script, store) = warm();
    for key in store.keys().into_iter().filter(|key| key.contains("?tabloom=")) {
        let place = rng.u32(..);
        store.edit(&key, |bytes| {
            let place = place as usize % bytes.len();
            bytes[place] ^= 1 << rng.u8(..8);
        });
        script.take_requests();
        assert_eq!(load_from(&script, &store).unwrap(), expected(), "{key}");
        assert_eq!(script.take_requests(), 1);
        assert_eq!(load_from(&script, &store).unwrap(), expected(), "{key}");
        assert_eq!(script.take_requests(), 0);
    }
    for cut in [0, 1, 999] {
        store.edit(&entry(SHARD, 1), |bytes| bytes.truncate(cut));
        assert_eq!(load_from(&script, &store).unwrap(), expected());
    }
    store.edit(&entry(SHARD, 1), |bytes| bytes.push(0));
    assert_eq!(load_from(&script, &store).unwrap(), expected());
    // Invalid records are ignored.
    for record in ["", "{}", "[]", "{\"chunk_bytes\": 1000, \"chunks\": [\"zz\"]}"] {
        store.edit(&format!("{FOLDER}{SHARD}?tabloom"), |bytes| *bytes = record.into());
        assert_eq!(load_from(&script, &store).unwrap(), expected());
    }
}

#[test]
fn a_damaged_chunk_is_fetched_once_more() {
    let bytes = sharded_source().files[SHARD].len();
    for at in [0, 1000, bytes - 1] {
        let (script, store) = (script(), MemoryStore::default());
        script.act(SHARD, [Flip(at)]);
        assert_eq!(load_with(&script, &store, Some(&manifest())).unwrap(), expected(), "{at}");
        assert_eq!(script.asked(SHARD), [0, at as u64 / CHUNK * CHUNK]);
    }
}

#[test]
fn a_chunk_that_stays_damaged_is_an_error_and_not_stored() {
    let (script, store) = (script(), MemoryStore::default());
    script.act(SHARD, [Flip(2500), Flip(2501)]);
    let error = load_with(&script, &store, Some(&manifest())).unwrap_err();
    assert!(is_integrity(&error, SHARD), "{error}");
    let Error::Integrity { expected: promised, found, .. } = &error else { unreachable!() };
    let digest = manifest().files[SHARD].chunks[2].to_string();
    assert!(promised.contains(&digest) && found.len() == 64 && *found != digest);
    assert_eq!(script.asked(SHARD), [0, 2000]);
    assert!(!store.keys().contains(&entry(SHARD, 2)));
    script.take_requests();
    assert_eq!(load_with(&script, &store, Some(&manifest())).unwrap(), expected());
    assert_eq!(script.asked(SHARD), [2000], "the good chunks are still stored");
}

#[test]
fn a_file_with_the_wrong_digest_is_never_loaded() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for manifest in [manifest(), manifest_of_files()] {
        for (file, bytes) in sharded_source().files {
            let (script, store) = (script(), MemoryStore::default());
            let mut bytes = bytes;
            let at = rng.usize(..bytes.len());
            bytes[at] ^= 1 << rng.u8(..8);
            script.set(&file, bytes);
            // Damage may be noticed before the end of the file.
            assert!(load_with(&script, &store, Some(&manifest)).is_err(), "{file} at {at}");
            let good = sharded_source().files[&file].clone();
            script.set(&file, good);
            assert_eq!(load_with(&script, &store, Some(&manifest)).unwrap(), expected());
        }
        for length in [0, 900, 3000] {
            let (script, store) = (script(), MemoryStore::default());
            let mut bytes = sharded_source().files[SHARD].clone();
            bytes.truncate(length);
            script.set(SHARD, bytes);
            assert!(load_with(&script, &store, Some(&manifest)).is_err());
        }
    }
    // Only values are wrong: only the digest shows it.
    let (script, store) = (script(), MemoryStore::default());
    let mut bytes = sharded_source().files[SHARD].clone();
    *bytes.last_mut().unwrap() ^= 1;
    script.set(SHARD, bytes);
    let error = load_with(&script, &store, Some(&manifest_of_files())).unwrap_err();
    assert!(is_integrity(&error, SHARD), "{error}");
    assert!(!store.keys().iter().any(|key| key.contains(SHARD)), "nothing of it is stored");
    assert!(load_from(&script, &store).is_ok(), "without a manifest it cannot be noticed");
}

#[test]
fn digests_of_chunks_hold_whatever_the_store_says() {
    let (script, store) = (script(), MemoryStore::default());
    load_with(&script, &store, Some(&manifest())).unwrap();
    let digest = |chunk: &[u8]| String::from(Digest(blake3::hash(chunk).into()));
    let mut digests = [String::new(), String::new()];
    store.edit(&entry(SHARD, 1), |chunk| {
        digests[0] = digest(chunk);
        chunk[5] ^= 1;
        digests[1] = digest(chunk);
    });
    // The record agrees with the changed chunk.
    let mut edits = 0;
    store.edit(&format!("{FOLDER}{SHARD}?tabloom"), |record| {
        let text = String::from_utf8(record.clone()).unwrap();
        edits += text.matches(&digests[0]).count();
        *record = text.replace(&digests[0], &digests[1]).into();
    });
    assert_eq!(edits, 1);
    script.take_requests();
    assert_eq!(load_with(&script, &store, Some(&manifest())).unwrap(), expected());
    assert_eq!(script.asked(SHARD), [1000], "the chunk alone is fetched again");
}

#[test]
fn files_that_a_manifest_does_not_list_do_not_exist() {
    let mut manifest = manifest();
    manifest.files.remove(SHARD);
    let (script, store) = (script(), MemoryStore::default());
    let error = load_with(&script, &store, Some(&manifest)).unwrap_err();
    assert!(matches!(&error, Error::Fetch { what, .. } if what.ends_with(SHARD)), "{error}");
    assert_eq!(script.asked(SHARD), [0; 0]);
    manifest.is_partial = true;
    assert_eq!(load_with(&script, &store, Some(&manifest)).unwrap(), expected());
}

#[test]
fn another_manifest_replaces_stored_files() {
    let (script, store) = (script(), MemoryStore::default());
    load_with(&script, &store, Some(&manifest_of_files())).unwrap();
    let mut tensors = tiny_tensors();
    tensors.iter_mut().for_each(|tensor| tensor.3.reverse());
    let bytes = serialized(&tensors[..4]);
    script.set(SHARD, bytes.clone());
    let mut newer = manifest_of_files();
    newer.files.insert(SHARD.into(), FileManifest { chunks: Vec::new(), ..digest(&bytes) });
    let loaded = load_with(&script, &store, Some(&newer)).unwrap();
    assert_ne!(loaded, expected());
    script.take_requests();
    assert_eq!(load_with(&script, &store, Some(&newer)).unwrap(), loaded);
    assert_eq!(script.take_requests(), 0);
}

#[test]
fn stored_chunks_are_not_mixed_with_those_of_another_file() {
    let (script, store) = warm();
    let mut bytes = sharded_source().files[SHARD].clone();
    bytes[2500] ^= 1;
    script.set(SHARD, bytes);
    assert_eq!(load_from(&script, &store).unwrap(), expected(), "all of it is stored");
    store.evict(&entry(SHARD, 2));
    let error = load_from(&script, &store).unwrap_err();
    assert!(is_integrity(&error, SHARD), "{error}");
    assert_eq!(script.asked(SHARD), [2000, 2000]);
    // The next load trusts the new file.
    assert_ne!(load_from(&script, &store).unwrap(), expected());
}

#[test]
fn a_load_works_without_room_in_the_store() {
    for tells in [true, false] {
        for room in [0, 500, 3000, 6000] {
            let (script, store) = (script(), MemoryStore::default());
            store.limit(room, tells);
            let source = stored(&script, &store, None);
            let loaded = block_on(source.finish(load(&source, &Quantise::KEEP)));
            assert_eq!(loaded.unwrap(), expected());
            assert!(!source.is_stored(), "{room} bytes");
            assert!(store.bytes() <= room);
            assert_eq!(load_from(&script, &store).unwrap(), expected());
        }
    }
    let none = Stored::<_, MemoryStore>::with_chunks(script().source(), None, None, CHUNK);
    let loaded = block_on(none.finish(load(&none, &Quantise::KEEP)));
    assert_eq!(loaded.unwrap(), expected());
    assert!(!none.is_stored());
    let listed = Some(manifest_of_files());
    let script = script();
    script.act(SHARD, [Flip(3000)]);
    let none = Stored::<_, MemoryStore>::with_chunks(script.source(), None, listed, CHUNK);
    assert!(load(&none, &Quantise::KEEP).is_err(), "digests are checked without a store");
}

#[test]
fn files_that_do_not_load_are_not_stored() {
    let page = b"<!DOCTYPE html><html><body>Sign in to the network</body></html>";
    for file in ["config.json", SHARD, "model.safetensors.index.json"] {
        let (script, store) = (script(), MemoryStore::default());
        let good = sharded_source().files[file].clone();
        script.set(file, page.to_vec());
        load_from(&script, &store).unwrap_err();
        script.set(file, good);
        assert_eq!(load_from(&script, &store).unwrap(), expected(), "{file}");
    }
    // A missing file is not recorded either, unless a model can do without it.
    let (script, store) = (script(), MemoryStore::default());
    script.act(SHARD, [Status(404)]);
    load_from(&script, &store).unwrap_err();
    assert_eq!(load_from(&script, &store).unwrap(), expected());
}
