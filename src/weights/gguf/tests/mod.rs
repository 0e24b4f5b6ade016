//! Headers of GGUF files, good and bad.

pub mod checkpoint;
mod corpus;
mod writer;

use super::*;
use crate::weights::tests::MemoryStream;
use pollster::block_on;
use proptest::prelude::*;
use serde_json::json;
use writer::{Entry, File};

/// A file of every kind of value and of three tensors.
fn good() -> File {
    File::new()
        .key("general.architecture", Entry::Text("llama"))
        .key("llama.block_count", Entry::U32(1))
        .key("llama.rope.freq_base", Entry::F32(10_000.0))
        .key("tokenizer.ggml.add_bos_token", Entry::Bool(true))
        .key("tokenizer.ggml.tokens", Entry::Texts(vec!["<unk>", "é", ""]))
        .key("tokenizer.ggml.scores", Entry::F32s(vec![0.5, -1.0, f32::NEG_INFINITY]))
        .key("tokenizer.ggml.token_type", Entry::I32s(vec![2, 1, -1]))
        .tensor("a.weight", &[32, 3], 2, vec![1; 54])
        .tensor("b.weight", &[5], 0, vec![2; 20])
        .tensor("c.weight", &[2, 3, 2], 1, vec![3; 24])
}

fn read_bytes(bytes: &[u8], chunk: usize, tells_length: bool) -> Result<(Metadata, Header, u64)> {
    let length = tells_length.then_some(bytes.len() as u64);
    let stream = MemoryStream { rest: bytes.to_vec(), chunk, length };
    let mut reader = Reader::new(stream);
    let (metadata, header) = block_on(read("model.gguf", &mut reader))?;
    Ok((metadata, header, reader.position()))
}

#[test]
fn a_file_is_read_with_any_chunk_sizes() {
    let (bytes, _, header_end) = good().parts();
    let data = header_end.next_multiple_of(32) as u64;
    for chunk in [1, 3, 8, 100, 1 << 20] {
        for tells_length in [true, false] {
            let (metadata, header, position) = read_bytes(&bytes, chunk, tells_length).unwrap();
            let expected = json!({
                "general.architecture": "llama",
                "llama.block_count": 1,
                "llama.rope.freq_base": 10_000.0,
                "tokenizer.ggml.add_bos_token": true,
                "tokenizer.ggml.tokens": ["<unk>", "é", ""],
                "tokenizer.ggml.scores": [0.5, -1.0, "-inf"],
                "tokenizer.ggml.token_type": [2, 1, -1],
            });
            assert_eq!(Value::Object(metadata), expected);
            let found: Vec<_> = header
                .tensors
                .iter()
                .map(|t| (&t.name[..], t.elements.to_string(), &t.shape[..], t.start, t.bytes))
                .collect();
            assert_eq!(
                found,
                [
                    ("a.weight", "Q4_0".into(), &[3, 32][..], data, 54),
                    ("b.weight", "F32".into(), &[5], data + 64, 20),
                    ("c.weight", "F16".into(), &[2, 3, 2], data + 96, 24),
                ]
            );
            assert_eq!(header.end, data + 120);
            assert_eq!(position, header_end as u64);
        }
    }
}

#[test]
fn numbers_of_all_types_keep_their_value() {
    let mut file = File::new();
    let values: [(u32, Vec<u8>, Value); 11] = [
        (0, vec![255], json!(255)),
        (1, vec![255], json!(-1)),
        (2, vec![255; 2], json!(65_535)),
        (3, vec![254, 255], json!(-2)),
        (4, vec![255; 4], json!(u32::MAX)),
        (5, vec![255; 4], json!(-1)),
        (6, 0.25f32.to_le_bytes().into(), json!(0.25)),
        (6, f32::NAN.to_le_bytes().into(), json!("NaN")),
        (10, vec![255; 8], json!(u64::MAX)),
        (11, vec![255; 8], json!(-1)),
        (12, 1e300f64.to_le_bytes().into(), json!(1e300)),
    ];
    for (i, (kind, value, _)) in values.iter().enumerate() {
        let (name, value) = (i.to_string().into_bytes(), value.clone());
        file.keys.push(writer::Key { name, length: None, kind: *kind, value });
    }
    let (metadata, _, _) = read_bytes(&file.bytes(), 1000, true).unwrap();
    for (i, (_, _, expected)) in values.iter().enumerate() {
        assert_eq!(metadata[&i.to_string()], *expected);
    }
}

#[test]
fn tensors_may_be_described_in_any_order() {
    let mut file = good();
    let offsets = [0, 64, 96];
    for (tensor, offset) in file.tensors.iter_mut().zip(offsets) {
        tensor.offset = Some(offset);
    }
    let sorted = read_bytes(&file.bytes(), 1000, true).unwrap().1;
    let (bytes, ..) = file.parts();
    file.tensors.reverse();
    let header = file.parts().0;
    let data = header.len() - 128;
    let shuffled = [&header[..data], &bytes[data..]].concat();
    assert_eq!(read_bytes(&shuffled, 1000, true).unwrap().1, sorted);
}

proptest! {
    /// After any change the header is read or refused, and what is read stays within the file.
    #[test]
    fn damaged_files_are_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        wide in prop::option::of((any::<prop::sample::Index>(), any::<u64>())),
        cut in prop::option::of(any::<prop::sample::Index>()),
        chunk in 1usize..200,
    ) {
        let mut bytes = good().bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some((at, number)) = wide {
            let at = at.index(bytes.len() - 8);
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let known = read_bytes(&bytes, chunk, true);
        if let Ok((_, header, position)) = &known {
            prop_assert!(header.end <= bytes.len() as u64 && *position <= bytes.len() as u64);
            let mut end = *position;
            for tensor in &header.tensors {
                prop_assert!(tensor.start >= end);
                end = tensor.start + tensor.bytes;
            }
            prop_assert_eq!(&read_bytes(&bytes, chunk, false), &known);
        }
    }
}
