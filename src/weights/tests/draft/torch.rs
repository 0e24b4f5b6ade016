//! Heads in PyTorch files, compared with the same tensors in safetensors.

use super::*;
use crate::model::{ParamSource, ParamSpec, Shape};
use std::path::{Path, PathBuf};

pub(in crate::weights::tests) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/draft_torch").join(name)
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(golden(name)).expect(name)
}

/// The same, from files that can be read from anywhere.
struct Ranged(MemorySource);

impl Source for Ranged {
    type Stream = MemoryStream;

    async fn open(&self, file: &str) -> Result<Option<MemoryStream>> {
        self.0.open(file).await
    }

    async fn open_near(&self, file: &str, start: u64) -> Result<Option<(MemoryStream, u64)>> {
        let mut stream = self.0.open(file).await?;
        if let Some(stream) = &mut stream {
            stream.rest.drain(..start as usize);
        }
        Ok(stream.map(|stream| (stream, start)))
    }
}

/// A head of a folder, and the same from safetensors.
fn both(name: &str) -> [(Draft, HostWeights); 2] {
    let twin = MemorySource::new([
        ("config.json", read(&format!("{name}/config.json"))),
        ("model.safetensors", read(&format!("{name}/expected.safetensors"))),
    ]);
    [keep(&FolderSource::new(golden(name))).unwrap(), keep(&twin).unwrap()]
}

#[test]
fn heads_in_pytorch_files_equal_those_in_safetensors() {
    let [eagle3, expected] = both("eagle3");
    assert_eq!(eagle3, expected);
    assert_eq!(eagle3.0.config.family, DraftFamily::Eagle3);
    assert_eq!(eagle3.0.vocabulary.as_deref(), Some(&[1, 2, 5, 8, 10][..]));
    let [medusa, expected] = both("medusa");
    assert_eq!(medusa, expected);
    assert_eq!(medusa.0.config.family, DraftFamily::Medusa { heads: 2, blocks: 2 });
    let [repeated, expected] = both("repeated");
    assert_eq!(repeated, expected);
    assert_eq!(repeated.0.config.family, DraftFamily::Medusa { heads: 3, blocks: 2 });
    let blocks = [0, 1].map(|block| &repeated.1.matrices[&Param::MedusaBlock(block)]);
    assert_eq!(blocks[0], blocks[1]);
}

#[test]
fn a_tensor_with_several_names_has_equal_values_under_each() {
    let tensor = |name: &str| TensorInfo {
        name: name.into(),
        elements: Elements::Plain(header::Dtype::F32),
        shape: vec![4],
        start: 64,
        bytes: 16,
    };
    let header = Header { tensors: vec![tensor("a"), tensor("b")], end: 80 };
    let weight = |param, name: &str, less_one| {
        let (rows, name) = (4, name.into());
        let source = ParamSource { name, rows, interleaved: None, by_columns: false, slice: None };
        let shape = Shape::Vector { n: rows };
        ParamSpec { param, shape, sources: vec![source], unit: rows, less_one }
    };
    let plan = |less_one| {
        let weights =
            [weight(Param::FuseBias, "a", false), weight(Param::FinalNorm, "b", less_one)];
        LoadPlan::of(&weights, None, &Quantise::KEEP, &[&header])
    };
    assert!(plan(false).is_ok());
    let error = plan(true).unwrap_err();
    assert!(matches!(&error, Error::WrongTensor { name, .. } if name == "b"), "{error:?}");
}

/// The archive with this many zeros before its fourth entry, and before the list of entries.
fn stretched(archive: &[u8], zeros: usize) -> Vec<u8> {
    let u16_at = |at: usize| u16::from_le_bytes(archive[at..][..2].try_into().unwrap()) as usize;
    let u32_at = |at: usize| u32::from_le_bytes(archive[at..][..4].try_into().unwrap()) as usize;
    let trailer = archive.len() - 22;
    let (count, list) = (u16_at(trailer + 10), u32_at(trailer + 16));
    let mut entries = Vec::new();
    let mut at = list;
    for _ in 0..count {
        entries.push((u32_at(at + 42), at + 42));
        at += 46 + u16_at(at + 28) + u16_at(at + 30) + u16_at(at + 32);
    }
    entries.sort();
    let fourth = entries[3].0;
    let mut end = archive[list..].to_vec();
    for (position, at) in &entries[3..] {
        let moved = (position + zeros) as u32;
        end[at - list..][..4].copy_from_slice(&moved.to_le_bytes());
    }
    // The trailer has the position of the list; large archives have another record with it.
    let locator = trailer - 20;
    assert!(archive[locator..].starts_with(b"PK\x06\x07"));
    for at in [trailer + 16, locator + 8, u32_at(locator + 8) + 48] {
        let moved = (u32_at(at) + 2 * zeros) as u32;
        end[at - list..][..4].copy_from_slice(&moved.to_le_bytes());
    }
    let gap = vec![0; zeros];
    [&archive[..fourth], &gap, &archive[fourth..list], &gap, &end].concat()
}

#[test]
fn an_archive_is_read_wherever_its_entries_are() {
    let [(_, expected), _] = both("eagle3");
    let archive = stretched(&read("eagle3/pytorch_model.bin"), 3 << 19);
    let mut source = MemorySource::new([
        ("config.json", read("eagle3/config.json")),
        ("pytorch_model.bin", archive),
    ]);
    source.chunk = 100_000;
    assert_eq!(keep(&source).unwrap().1, expected);
    assert_eq!(keep(&Ranged(source.clone())).unwrap().1, expected);
    source.tells_length = false;
    assert_eq!(keep(&source).unwrap().1, expected);
}

#[test]
fn safetensors_are_read_first() {
    let source = MemorySource::new([
        ("config.json", read("eagle3/config.json")),
        ("model.safetensors", read("eagle3/expected.safetensors")),
        ("pytorch_model.bin", b"nothing of use".to_vec()),
    ]);
    keep(&source).unwrap();
}

/// The error for a head with these bytes.
fn refusal(archive: Vec<u8>) -> Error {
    let config = read("eagle3/config.json");
    let source = MemorySource::new([("config.json", config), ("pytorch_model.bin", archive)]);
    keep(&source).unwrap_err()
}

#[test]
fn unsupported_pytorch_files_are_refused() {
    for (archive, expected) in [
        (read("legacy.bin"), "it is no zip archive, as those of PyTorch 1.6 and later. Convert it"),
        (read("shared.bin"), "\"a\" and \"b\" share bytes. Convert it to safetensors"),
        (read("reshaped.bin"), "\"a\" and \"b\" share bytes. Convert it to safetensors"),
        (read("strided.bin"), "tensor \"a\" [6, 4] does not lie in one piece in its storage"),
        (read("object.bin"), "its pickle asks for torch.device, which tensors do not need"),
        (b"<!DOCTYPE html>".to_vec(), "found an HTML page"),
        (b"version https://git-lfs.github.com/spec/v1".to_vec(), "found a Git LFS pointer"),
    ] {
        let error = refusal(archive);
        assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let source = MemorySource::new([("config.json", read("eagle3/config.json"))]);
    assert!(matches!(keep(&source), Err(Error::Fetch { what, .. }) if what == "model.safetensors"));
}

/// If any byte is wrong or missing, the result is an error or the head.
#[test]
fn damaged_archives_give_an_error_or_the_head() {
    let archive = read("eagle3/pytorch_model.bin");
    let mut refused = 0;
    for at in (0..archive.len()).step_by(7) {
        let mut damaged = archive.clone();
        damaged[at] ^= 0x55;
        let source = MemorySource::new([
            ("config.json", read("eagle3/config.json")),
            ("pytorch_model.bin", damaged),
        ]);
        refused += usize::from(keep(&source).is_err());
    }
    assert!(refused > 100, "{refused}");
    for length in (0..archive.len()).step_by(997) {
        let error = refusal(archive[..length].to_vec());
        assert!(matches!(error, Error::Malformed { .. } | Error::Truncated { .. }), "{error:?}");
    }
}
