//! Blocks against the values that ggml gives, and layouts against blocks.

use super::*;
use crate::layout::HostMatrix;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Rows of a type and their values, computed by llama.cpp.
#[derive(Deserialize)]
struct Vector {
    rows: usize,
    cols: usize,
    bytes_hex: String,
    /// f32, little-endian
    f32_hex: String,
}

fn vectors() -> Vec<(BlockType, Vector)> {
    let json = include_str!("../../../../tests/goldens/gguf/blocks.json");
    let mut vectors: BTreeMap<String, Vector> = serde_json::from_str(json).unwrap();
    let found: Vec<_> = BlockType::READABLE
        .into_iter()
        .map(|block| (block, vectors.remove(&block.to_string()).unwrap()))
        .collect();
    assert!(vectors.is_empty(), "a type is missing");
    found
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

#[test]
fn values_are_those_of_llama_cpp_to_the_bit() {
    for (block, vector) in vectors() {
        let stored = bytes(&vector.bytes_hex);
        let count = vector.rows * vector.cols;
        assert_eq!(stored.len(), count / block.elements() * block.bytes(), "{block}");
        let mut values = vec![f32::NAN; count];
        block.dequantise(&stored, &mut values);
        let expected = bytes(&vector.f32_hex);
        for (i, (value, expected)) in values.iter().zip(expected.as_chunks().0).enumerate() {
            assert_eq!(value.to_bits(), u32::from_le_bytes(*expected), "{block} element {i}");
        }
    }
}

#[test]
fn layouts_keep_what_blocks_hold() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let rng = &mut fastrand::Rng::with_seed(seed);
    for block in BlockType::READABLE {
        let Some(layout) = block.layout() else { continue };
        let k = 512;
        let stored = random_blocks(rng, block, k / block.elements());
        let mut expected = vec![0.0; k];
        block.dequantise(&stored, &mut expected);
        let mut matrix = HostMatrix::zeroed(layout, 1, k);
        block.repack(&stored, &mut matrix.words, &mut matrix.scales);
        let mut found = vec![0.0; k];
        matrix.dequantise_row(0, &mut found);
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // Of Q4_K scale and min are rounded to halves; nibbles reach 15.
            let bound = match block {
                BlockType::Q4_K => {
                    let [scale, min] = crate::layout::unpack_halves(matrix.scales[i / 32]);
                    (15.0 * scale.abs() + min.abs()) / 2048.0
                }
                _ => 0.0,
            };
            assert!((found - expected).abs() <= bound, "{block} {i}: {found}, not {expected}");
        }
    }
}

/// Blocks of random bits with scales of a sensible size.
fn random_blocks(rng: &mut fastrand::Rng, block: BlockType, count: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count * block.bytes()).map(|_| rng.u8(..)).collect();
    for block in bytes.chunks_mut(block.bytes()) {
        for at in [0, 2] {
            let scale = f16::from_f32((rng.f32() - 0.5) / 16.0);
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    bytes
}
