//! Whole loads of GGUF files into host memory.

use super::writer::{Entry, File};
use crate::error::{Error, Result};
use crate::layout::{BlockType, Layout};
use crate::model::Param;
use crate::weights::tests::MemorySource;
use crate::weights::{Checkpoint, HostSink, HostWeights, Quantise, Source};
use pollster::block_on;
use std::ops::ControlFlow;

/// Type numbers.
const F32: u32 = 0;
const Q4_0: u32 = 2;
const Q8_0: u32 = 8;
const Q6_K: u32 = 14;
const IQ2_S: u32 = 22;

/// Name, dimensions with the row length first.
const TENSORS: [(&str, &[u64]); 11] = [
    ("token_embd.weight", &[256, 8]),
    ("blk.0.attn_norm.weight", &[256]),
    ("blk.0.attn_q.weight", &[256, 32]),
    ("blk.0.attn_k.weight", &[256, 16]),
    ("blk.0.attn_v.weight", &[256, 16]),
    ("blk.0.attn_output.weight", &[32, 256]),
    ("blk.0.ffn_norm.weight", &[256]),
    ("blk.0.ffn_gate.weight", &[256, 64]),
    ("blk.0.ffn_up.weight", &[256, 64]),
    ("blk.0.ffn_down.weight", &[64, 256]),
    ("output_norm.weight", &[256]),
];

/// A Llama with one layer and two heads of 16, all f32: element i of a tensor is i.
pub fn llama() -> File {
    let mut file = File::new()
        .key("general.architecture", Entry::Text("llama"))
        .key("llama.block_count", Entry::U32(1))
        .key("llama.context_length", Entry::U32(64))
        .key("llama.embedding_length", Entry::U32(256))
        .key("llama.feed_forward_length", Entry::U32(64))
        .key("llama.attention.head_count", Entry::U32(2))
        .key("llama.attention.head_count_kv", Entry::U32(1))
        .key("llama.attention.key_length", Entry::U32(16))
        .key("llama.attention.layer_norm_rms_epsilon", Entry::F32(1e-5));
    for (name, dimensions) in TENSORS {
        let count: u64 = dimensions.iter().product();
        let bytes = (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect();
        file = file.tensor(name, dimensions, F32, bytes);
    }
    file
}

/// The same, with another last tensor that ends where the file does.
pub fn without_padding() -> Vec<u8> {
    let mut file = llama().key("general.alignment", Entry::U32(128)).tensor(
        "rope_freqs.weight",
        &[8],
        F32,
        1f32.to_le_bytes().repeat(8),
    );
    file.alignment = 128;
    let mut bytes = file.bytes();
    bytes.truncate(bytes.len() - 96);
    bytes
}

/// Replaces a tensor by random blocks; returns their values.
fn put_blocks(file: &mut File, name: &str, block: BlockType, kind: u32) -> Vec<f32> {
    let tensor = file.tensors.iter_mut().find(|t| t.name == name.as_bytes()).unwrap();
    let count = tensor.dimensions.iter().product::<u64>() as usize;
    let mut rng = fastrand::Rng::with_seed(count as u64);
    // Small bytes make small f16 in any position.
    let bytes = (0..count / block.elements() * block.bytes()).map(|_| rng.u8(..40)).collect();
    (tensor.kind, tensor.bytes) = (kind, bytes);
    let mut values = vec![0.0; count];
    block.dequantise(&tensor.bytes, &mut values);
    values
}

fn source(file: &File) -> MemorySource {
    MemorySource::new([("model.gguf", file.bytes())])
}

pub fn load_from(source: &impl Source, quantise: &Quantise) -> Result<HostWeights> {
    block_on(async {
        let checkpoint = Checkpoint::open(source).await?;
        let config = checkpoint.config()?.expect("a GGUF file has it");
        let plan = checkpoint.plan(&config, None, quantise)?;
        let mut sink = HostSink::new();
        checkpoint.load(&plan, &mut sink, |_| ControlFlow::Continue(())).await?;
        Ok(sink.into_weights())
    })
}

fn load(file: &File) -> Result<HostWeights> {
    load_from(&source(file), &Quantise::KEEP)
}

fn rows(weights: &HostWeights, param: Param) -> Vec<Vec<f32>> {
    let rows = weights.matrices[&param].iter().flat_map(|part| {
        (0..part.n).map(|i| {
            let mut row = vec![0.0; part.k];
            part.dequantise_row(i, &mut row);
            row
        })
    });
    rows.collect()
}

#[test]
fn rows_of_queries_and_keys_get_their_order_back() {
    for chunk in [1, 100, 1 << 20] {
        let weights = load_from(&MemorySource { chunk, ..source(&llama()) }, &Quantise::KEEP);
        let qkv = rows(&weights.unwrap(), Param::Qkv(0));
        let first_of = |row: usize| qkv[row][0] as usize / 256;
        // Two query heads and one key head: stored rows 2i + a are rows i + 8a.
        for row in 0..48 {
            let (head, a, i) = (row / 16, row % 16 / 8, row % 8);
            let stored = 16 * head + 2 * i + a;
            let in_tensor = if row < 32 { stored } else { stored - 32 };
            assert_eq!(first_of(row), in_tensor, "row {row}");
        }
        assert!((48..64).all(|row| first_of(row) == row - 48), "values keep theirs");
        assert!(qkv.iter().all(|row| row[7] - row[0] == 7.0));
    }
    // In Qwen, rotated pairs are not neighbours.
    let mut qwen = llama();
    for key in &mut qwen.keys {
        key.name = String::from_utf8_lossy(&key.name).replace("llama", "qwen3").into();
    }
    qwen.set("general.architecture", Entry::Text("qwen3"));
    for name in ["blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"] {
        qwen = qwen.tensor(name, &[16], F32, vec![0; 64]);
    }
    let qkv = rows(&load(&qwen).unwrap(), Param::Qkv(0));
    assert!((0..32).all(|row| qkv[row][0] == 256.0 * row as f32));
}

#[test]
fn an_output_matrix_and_rope_factors_are_used_if_present() {
    let tied = load(&llama()).unwrap();
    assert!(!tied.matrices.contains_key(&Param::Head));
    let more = llama().tensor("output.weight", &[256, 8], F32, vec![0; 8192]).tensor(
        "rope_freqs.weight",
        &[8],
        F32,
        [1f32, 2.0].map(f32::to_le_bytes).concat().repeat(4),
    );
    let weights = load(&more).unwrap();
    assert_eq!(weights.matrices[&Param::Head][0].n, 8);
    assert_eq!(weights.vectors[&Param::RopeFactors], [1.0, 2.0].repeat(4));
}

#[test]
fn blocks_keep_their_values() {
    let mut file = llama();
    let down = put_blocks(&mut file, "blk.0.ffn_down.weight", BlockType::Q4_0, Q4_0);
    let embed = put_blocks(&mut file, "token_embd.weight", BlockType::Q8_0, Q8_0);
    let queries = put_blocks(&mut file, "blk.0.attn_q.weight", BlockType::Q4_0, Q4_0);
    put_blocks(&mut file, "blk.0.attn_k.weight", BlockType::Q4_0, Q4_0);
    put_blocks(&mut file, "blk.0.attn_v.weight", BlockType::Q4_0, Q4_0);
    let weights = load(&file).unwrap();
    assert_eq!(weights.matrices[&Param::Down(0)][0].layout, Layout::W4 { group: 32 });
    assert_eq!(rows(&weights, Param::Down(0)).concat(), down);
    assert_eq!(weights.matrices[&Param::Embed][0].layout, Layout::W8 { group: 32 });
    assert_eq!(rows(&weights, Param::Embed).concat(), embed);
    let qkv = rows(&weights, Param::Qkv(0));
    assert_eq!(qkv[8], queries[256..512], "stored row 1 of a head is row 8");

    // Joined rows of two types are two parts of the matrix.
    let values = put_blocks(&mut file, "blk.0.attn_v.weight", BlockType::Q6_K, Q6_K);
    let weights = load(&file).unwrap();
    let layouts = |param| weights.matrices[&param].iter().map(|part| (part.n, part.layout));
    let expected = [(48, Layout::W4 { group: 32 }), (16, Layout::W6)];
    assert!(layouts(Param::Qkv(0)).eq(expected));
    let found = rows(&weights, Param::Qkv(0));
    assert_eq!(found[..48], qkv[..48]);
    assert_eq!(found[48..].concat(), values);

    // Gate and up rows need the same layout.
    let values = put_blocks(&mut file, "blk.0.ffn_up.weight", BlockType::Q6_K, Q6_K);
    let weights = load(&file).unwrap();
    let [gate_up] = &weights.matrices[&Param::GateUp(0)][..] else { panic!("it is in parts") };
    assert_eq!((gate_up.n, gate_up.layout), (128, Layout::W8 { group: 32 }));
    let found = &rows(&weights, Param::GateUp(0))[64..];
    for (found, expected) in found.iter().zip(values.chunks(256)) {
        for (found, expected) in found.chunks(32).zip(expected.chunks(32)) {
            let step = expected.iter().fold(0f32, |peak, x| peak.max(x.abs())) / 127.0;
            let within = |(a, b): (&f32, &f32)| (a - b).abs() <= 0.6 * step;
            assert!(found.iter().zip(expected).all(within));
        }
    }
}

#[test]
fn errors_name_tensors_that_do_not_fit() {
    type Change = fn(&mut File);
    let cases: [(&str, Change, &str); 6] = [
        (
            "blk.0.attn_k.bias",
            |f| *f = f.clone().tensor("blk.0.attn_k.bias", &[16], F32, vec![0; 64]),
            "absent: this architecture",
        ),
        ("blk.0.attn_v.weight", |f| f.tensors[4].dimensions.swap(0, 1), "is F32 [256, 16]"),
        ("output_norm.weight", |f| f.tensors[10].dimensions = vec![128, 2], "expected F32"),
        ("blk.0.ffn_up.weight", |f| drop(f.tensors.remove(8)), "no tensor"),
        (
            "blk.0.ffn_gate.weight",
            |f| (f.tensors[7].kind, f.tensors[7].bytes) = (IQ2_S, vec![0; 64 * 82]),
            "is IQ2_S [64, 256], expected one of F32, F16, BF16, Q4_0",
        ),
        (
            "blk.0.attn_norm.weight",
            |f| (f.tensors[1].kind, f.tensors[1].bytes) = (Q8_0, vec![0; 8 * 34]),
            "is Q8_0 [256], expected F32 or F16 or BF16 [256]",
        ),
    ];
    for (name, change, words) in cases {
        let mut file = llama();
        change(&mut file);
        let error = load(&file).unwrap_err();
        match &error {
            Error::WrongTensor { name: found, .. } | Error::MissingTensor { name: found } => {
                assert_eq!(found, name);
            }
            other => panic!("{name}: {other}"),
        }
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn truncated_data_is_an_error_when_read() {
    let whole = llama().bytes();
    for cut in [whole.len() - 100, whole.len() / 2] {
        let cut_source = MemorySource {
            tells_length: false,
            ..MemorySource::new([("model.gguf", whole[..cut].to_vec())])
        };
        let error = load_from(&cut_source, &Quantise::KEEP).unwrap_err();
        assert!(matches!(error, Error::Truncated { found, .. } if found == cut as u64), "{error}");
    }
}

/// The Llama in two files.
pub fn parts() -> [File; 2] {
    let whole = llama();
    let part = |no: u16, keys: Vec<_>, tensors: &[_]| {
        let mut file = File { keys, tensors: tensors.to_vec(), ..File::new() };
        for (name, number) in [("split.no", no), ("split.count", 2)] {
            let (name, value) = (name.into(), number.to_le_bytes().into());
            file.keys.push(super::writer::Key { name, length: None, kind: 2, value });
        }
        file
    };
    let (first, second) = whole.tensors.split_at(4);
    [part(0, whole.keys.clone(), first), part(1, Vec::new(), second)]
}

const PARTS: [&str; 2] = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];

#[test]
fn a_model_may_be_split() {
    let [first, second] = parts();
    let files = [(PARTS[0], first.bytes()), (PARTS[1], second.bytes())];
    let source = MemorySource::new(files);
    assert_eq!(load_from(&source, &Quantise::KEEP), load(&llama()));
    assert_eq!(source.opened.into_inner(), [PARTS[0], PARTS[1], PARTS[1]]);
}

#[test]
fn errors_name_missing_or_swapped_parts() {
    let [first, second] = parts().map(|part| part.bytes());
    let refused = |files: Vec<(&'static str, Vec<u8>)>| {
        load_from(&MemorySource::new(files), &Quantise::KEEP).unwrap_err().to_string()
    };
    let error = refused(vec![(PARTS[0], first.clone())]);
    assert!(error.contains(PARTS[1]) && error.contains("no such file"), "{error}");
    let error = refused(vec![(PARTS[0], first.clone()), (PARTS[1], first.clone())]);
    assert!(error.contains("its split.no is 0, expected 1"), "{error}");
    let error = refused(vec![(PARTS[0], second)]);
    assert!(error.contains("its split.no is 1, expected 0"), "{error}");
    let error = refused(vec![("model.gguf", first)]);
    assert!(error.contains("split.count is 2, but its name does not end with"), "{error}");
}
