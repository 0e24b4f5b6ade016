//! Every container of weights from every source: a file that is not what a manifest says is refused and
//! not kept, and what was loaded once loads again without a request.

use super::draft::{self, torch};
use super::server::*;
use super::*;
use crate::manifest::{Digest, FileManifest, Manifest};
use crate::weights::Stored;
use crate::weights::gguf::tests::checkpoint as gguf;
use crate::weights::source::read_to_end;
use crate::weights::store::Record;
use futures::future::Either;
use sha2::Digest as _;

type Files = BTreeMap<String, Vec<u8>>;

/// A model or a drafter in one kind of files.
struct Container {
    name: &'static str,
    files: Files,
    /// What follows the folder in its address.
    address: &'static str,
    load: fn(&Kept) -> Result<HostWeights>,
    /// Whether bytes after the last tensor are a fault.
    has_end: bool,
}

impl Container {
    /// Bytes of its longest file.
    fn longest(&self) -> usize {
        self.files.values().map(Vec::len).max().unwrap()
    }
}

fn containers() -> Vec<Container> {
    let folder = |source: &Kept| load(source, &Quantise::KEEP);
    let gguf_file = |source: &Kept| gguf::load_from(source, &Quantise::KEEP);
    let named = |names: [&str; 2]| {
        let parts = gguf::parts().map(|part| part.bytes());
        names.map(String::from).into_iter().zip(parts).collect::<Files>()
    };
    let whole = Files::from([("m.gguf".into(), gguf::llama().bytes())]);
    // Some writers leave the last tensor without padding.
    let unpadded = Files::from([("m.gguf".into(), gguf::without_padding())]);
    let head = std::fs::read_dir(torch::golden("eagle3")).unwrap().map(|entry| entry.unwrap());
    let head = head.filter(|entry| entry.file_name() != "expected.safetensors").map(|entry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    });
    let odd_shards = || {
        let mut files = sharded_source().files;
        let shard = files.remove("a.safetensors").unwrap();
        files.insert("a 1+é%#?.safetensors".into(), shard);
        let index = files.get_mut("model.safetensors.index.json").unwrap();
        *index = String::from_utf8_lossy(index).replace("a.safe", "a 1+é%#?.safe").into_bytes();
        files
    };
    let odd = ["m 1+é%#?-00001-of-00002.gguf", "m 1+é%#?-00002-of-00002.gguf"];
    let row =
        |name, files, address, load, has_end| Container { name, files, address, load, has_end };
    vec![
        row("safetensors", tiny_source().files, "", folder, true),
        row("shards", sharded_source().files, "", folder, true),
        row("shards with odd names", odd_shards(), "", folder, true),
        row("GGUF", whole, "m.gguf", gguf_file, false),
        row("GGUF without padding", unpadded, "m.gguf", gguf_file, false),
        row(
            "split GGUF",
            named(["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]),
            "m-00001-of-00002.gguf",
            gguf_file,
            false,
        ),
        row(
            "split GGUF with an odd name",
            named(odd),
            "m%201%2B%C3%A9%25%23%3F-00001-of-00002.gguf",
            gguf_file,
            false,
        ),
        row("PyTorch", head.collect(), "", |source| Ok(draft::keep(source)?.1), true),
    ]
}

/// Where a container comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Server,
    /// Whose answers hide the length of files.
    Silent,
    /// The page itself: no store is needed.
    Page,
}

const SOURCES: [From; 3] = [From::Server, From::Silent, From::Page];

type Kept = Stored<Either<Parallel<Script>, Page>, MemoryStore>;

/// Files that a page has.
struct Page(MemorySource, String);

impl Source for Page {
    type Stream = MemoryStream;

    async fn open(&self, file: &str) -> Result<Option<MemoryStream>> {
        self.0.open(file).await
    }

    fn gguf(&self) -> Option<&str> {
        Some(&self.1[..]).filter(|name| name.ends_with(".gguf"))
    }

    fn locate(&self, file: &str) -> String {
        format!("{FOLDER}{file}")
    }
}

impl RangeSource for Page {
    async fn open_at(&self, file: &str, start: u64) -> Result<Option<MemoryStream>> {
        let mut stream = self.0.open(file).await?;
        if let Some(stream) = &mut stream {
            stream.rest.drain(..start as usize);
        }
        Ok(stream)
    }

    fn address(&self, file: &str) -> String {
        self.locate(file)
    }
}

/// A container behind a source, with a store of its own.
struct Site<'a> {
    container: &'a Container,
    from: From,
    chunk: u64,
    script: Script,
    store: MemoryStore,
}

impl Site<'_> {
    fn new(container: &Container, from: From, chunk: u64) -> Site<'_> {
        let script = Script::new(container.files.clone());
        script.cut(container.longest() / 9);
        if from == From::Silent {
            script.hide_length();
        }
        Site { container, from, chunk, script, store: MemoryStore::default() }
    }

    fn source(&self, files: &Files, manifest: Option<&Manifest>) -> Kept {
        let (store, address) = (self.store.clone(), self.container.address);
        let (source, store) = match self.from {
            From::Page => {
                let name = files.keys().next().unwrap().clone();
                let files = MemorySource { files: files.clone(), ..tiny_source() };
                (Either::Right(Page(files, name)), None)
            }
            _ => {
                files.iter().for_each(|(name, bytes)| self.script.set(name, bytes.clone()));
                let source = self.script.source_at(&format!("{FOLDER}{address}"));
                (
                    Either::Left(Parallel::with_parts(source, self.container.longest() as u64 / 6)),
                    Some(store),
                )
            }
        };
        Stored::with_chunks(source, store, manifest.cloned(), self.chunk)
    }

    /// Loads as an engine does, and compares what is said of the store with what is in it.
    fn load(&self, files: &Files, manifest: Option<&Manifest>) -> Result<HostWeights> {
        let source = self.source(files, manifest);
        let loaded = block_on(source.finish((self.container.load)(&source)));
        if loaded.is_ok() {
            assert_eq!(source.is_stored(), self.from != From::Page, "{}", self.name());
            assert_eq!(source.is_stored(), self.is_complete(), "{}", self.name());
        }
        loaded
    }

    /// Whether all entries are there that the records in the store name, as `Engine.store.list()` finds.
    fn is_complete(&self) -> bool {
        let keys = self.store.keys();
        let records = keys.iter().filter(|key| key.ends_with("?tabloom"));
        let mut files = 0;
        let mut is_complete = true;
        for key in records {
            let bytes = block_on(async {
                let mut stream = self.store.get(key).await.unwrap();
                read_to_end(key, &mut stream).await.unwrap()
            });
            let record: Record = serde_json::from_slice(&bytes).unwrap();
            let chunks = keys.iter().filter(|chunk| chunk.starts_with(&format!("{key}="))).count();
            files += usize::from(!record.is_absent);
            is_complete &= record.is_sealed && chunks == record.chunks.len();
        }
        is_complete && files == self.container.files.len()
    }

    /// Whether anything of a file is in the store.
    fn has(&self, file: &str) -> bool {
        let address = Address::new(&format!("{FOLDER}{}", self.container.address)).of(file);
        self.store.keys().iter().any(|key| key.starts_with(&format!("{address}?")))
    }

    fn name(&self) -> String {
        format!("{} from {:?} in chunks of {}", self.container.name, self.from, self.chunk)
    }
}

fn described(bytes: &[u8]) -> FileManifest {
    let sha256 = Digest(sha2::Sha256::digest(bytes).into());
    FileManifest { sha256, bytes: Some(bytes.len() as u64), chunks: Vec::new() }
}

fn manifest(files: &Files) -> Manifest {
    let files = files.iter().map(|(name, bytes)| (name.clone(), described(bytes)));
    Manifest { files: files.collect(), is_partial: false }
}

/// Does something with each container from each source, in chunks shorter than a file, just as long as its
/// longest, and longer.
fn each(check: impl Fn(&Site)) {
    for container in containers() {
        let longest = container.longest() as u64;
        for from in SOURCES {
            for chunk in [longest / 3, longest, 2 * longest] {
                check(&Site::new(&container, from, chunk));
            }
        }
    }
}

#[test]
fn what_was_loaded_once_loads_again_without_a_request() {
    each(|site| {
        let files = &site.container.files;
        let right = manifest(files);
        let partial = Manifest { is_partial: true, ..right.clone() };
        let mut without_lengths = right.clone();
        without_lengths.files.values_mut().for_each(|file| file.bytes = None);
        let first = site.load(files, None).unwrap();
        for manifest in [None, Some(&partial), Some(&without_lengths)] {
            let site = Site::new(site.container, site.from, site.chunk);
            assert!(site.load(files, manifest).unwrap() == first, "{}", site.name());
            assert!(site.from == From::Page || site.script.take_requests() > 0);
            assert!(site.load(files, manifest).unwrap() == first, "{}", site.name());
            assert_eq!(site.script.take_requests(), 0, "{}", site.name());
            // What was trusted can be checked later.
            assert!(site.load(files, Some(&right)).unwrap() == first, "{}", site.name());
            assert_eq!(site.script.take_requests(), 0, "{}", site.name());
        }
    });
}

#[test]
fn a_file_that_is_not_what_a_manifest_says_is_refused_and_not_kept() {
    each(|site| {
        let files = &site.container.files;
        for (file, bytes) in files {
            // As Hugging Face's list, which has large files only.
            let is_partial = site.chunk == site.container.longest() as u64;
            let listed = Manifest { is_partial, ..manifest(files) };
            let name = format!("{file} of {}", site.name());
            let failed = |manifest: &Manifest, files: &Files| {
                let site = Site::new(site.container, site.from, site.chunk);
                let error = site.load(files, Some(manifest)).err()?;
                assert!(!site.has(file), "{name}: something is kept after {error}");
                Some(error)
            };
            let refused = |manifest: &Manifest, files: &Files| {
                failed(manifest, files).unwrap_or_else(|| panic!("{name} loads"))
            };
            let is_integrity = |error: &Error, promised: &str, actual: &str| {
                let place = format!("{FOLDER}{file}");
                let Error::Integrity { what, expected, found } = error else {
                    panic!("{name}: {error}");
                };
                assert_eq!(*what, place);
                assert!(expected.contains(promised) && found.contains(actual), "{name}: {error}");
            };
            let actual = listed.files[file].sha256.to_string();

            let mut wrong = listed.clone();
            wrong.files.get_mut(file).unwrap().sha256 = Digest([7; 32]);
            is_integrity(&refused(&wrong, files), &"07".repeat(32), &actual);

            let mut wrong = listed.clone();
            let length = bytes.len() as u64;
            wrong.files.get_mut(file).unwrap().bytes = Some(length + 1);
            let error = refused(&wrong, files);
            if site.from != From::Silent {
                is_integrity(&error, &format!("{} bytes", length + 1), &format!("{length} bytes"));
            }

            let changed = |change: fn(&mut Vec<u8>)| {
                let mut files = files.clone();
                change(files.get_mut(file).unwrap());
                files
            };
            let flipped = changed(|bytes| *bytes.last_mut().unwrap() ^= 1);
            let error = refused(&listed, &flipped);
            if !file.ends_with(".bin") {
                is_integrity(&error, &actual, "");
            }
            let site = Site::new(site.container, site.from, site.chunk);
            assert!(site.load(&flipped, Some(&listed)).is_err(), "{name}");
            assert!(site.load(files, Some(&listed)).is_ok(), "{name} after another one");
            for other in [
                changed(|bytes| bytes.truncate(bytes.len() - 1)),
                changed(|bytes| bytes.truncate(bytes.len() / 2)),
                changed(|bytes| bytes.push(b' ')),
                changed(|bytes| bytes.extend([0; 5000])),
            ] {
                let error = failed(&listed, &other);
                let found = other[file].len();
                if site.from != From::Silent {
                    let error = error.unwrap_or_else(|| panic!("{name} of {found} bytes loads"));
                    is_integrity(&error, &format!("{length} bytes"), &format!("{found} bytes"));
                } else {
                    // Of a longer file, parts of the listed length are all that was asked for.
                    assert!(
                        error.is_some() || found as u64 > length,
                        "{name} of {found} bytes loads"
                    );
                }
            }
        }
    });
}

#[test]
fn without_a_manifest_a_file_is_at_least_whole() {
    each(|site| {
        let files = &site.container.files;
        let whole = site.load(files, None).unwrap();
        for (file, bytes) in files.iter().filter(|(file, _)| !file.ends_with(".json")) {
            let name = format!("{file} of {}", site.name());
            let with = |bytes: Vec<u8>| {
                let mut files = files.clone();
                files.insert(file.clone(), bytes);
                files
            };
            let site = Site::new(site.container, site.from, site.chunk);
            for length in [bytes.len() / 2, bytes.len() - 33] {
                let error = site.load(&with(bytes[..length].to_vec()), None).err();
                let error = error.unwrap_or_else(|| panic!("{name} of {length} bytes loads"));
                assert!(error.to_string().contains(file.as_str()), "{name}: {error}");
                assert!(!site.has(file), "{name}");
            }
            let longer = with([&bytes[..], &[0; 99]].concat());
            match site.container.has_end {
                true if file.ends_with(".bin") => {}
                // Parts of the length that it states are all that was asked for.
                true if site.from == From::Silent => {}
                true => {
                    assert!(site.load(&longer, None).is_err(), "{name}");
                    assert!(!site.has(file), "{name}");
                }
                false => assert!(site.load(&longer, None).unwrap() == whole, "{name}"),
            }
        }
    });
}

/// Where each file of a container is asked for, below an address with a query and a signature.
#[test]
fn a_signature_is_sent_with_each_request_and_found_nowhere_else() {
    for container in containers() {
        let site = Site::new(&container, From::Server, 1000);
        let script = &site.script;
        let open = |signature: &str| {
            let address = format!("{FOLDER}{}?v=2#{signature}", container.address);
            let source = Either::Left(Parallel::new(script.source_at(&address)));
            Stored::with_chunks(source, Some(site.store.clone()), None, 1000)
        };
        script.require("v=2&sig=first");
        let source = open("sig=first");
        let loaded = block_on(source.finish((container.load)(&source))).unwrap();
        for address in script.take_addresses() {
            assert!(address.ends_with("?v=2&sig=first"), "{address}");
            assert!(!address.contains("%25C3") && !address.contains(' '), "{address}");
        }
        assert!(site.store.keys().iter().all(|key| key.contains("?v=2?tabloom")));
        let source = open("sig=second");
        assert!(block_on(source.finish((container.load)(&source))).unwrap() == loaded);
        assert_eq!(script.take_addresses(), [""; 0], "a new signature finds what is kept");

        let file = container.files.keys().find(|file| *file != "config.json").unwrap();
        for key in site.store.keys() {
            site.store.evict(&key);
        }
        let source = open("sig=second");
        let error = block_on(source.finish((container.load)(&source))).err().unwrap().to_string();
        assert!(error.contains("403") && !error.contains("second"), "{error}");
        script.require("v=2&sig=second");
        script.set(file, Vec::new());
        let error = (container.load)(&open("sig=second")).err().unwrap().to_string();
        assert!(!error.contains("second"), "{error}");
        assert!(error.contains(file.as_str()) || container.name == "PyTorch", "{error}");
    }
}

#[test]
fn records_of_other_versions_are_read() {
    let json = r#"{ "chunk_bytes": 8, "chunks": [], "is_sealed": true, "from_later": [1] }"#;
    let record: Record = serde_json::from_str(json).unwrap();
    assert_eq!(record, Record { chunk_bytes: 8, is_sealed: true, ..Default::default() });
}
