//! Blocks against the values of ggml, and layouts against blocks.

use super::*;
use crate::layout::{HostMatrix, unpack_halves};
use half::f16;
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
fn values_equal_those_of_llama_cpp_bit_for_bit() {
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
fn layouts_keep_the_values_of_blocks() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let rng = &mut fastrand::Rng::with_seed(seed);
    for block in BlockType::READABLE {
        let layout = block.layout().unwrap();
        let k = 512;
        let stored = random_blocks(rng, block, k / block.elements());
        let mut expected = vec![0.0; k];
        block.dequantise(&stored, &mut expected);
        let mut matrix = HostMatrix::zeroed(layout, 1, k);
        block.repack(&stored, &mut matrix.words, &mut matrix.scales);
        let mut found = vec![0.0; k];
        matrix.dequantise_row(0, &mut found);
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // Scales that are products are rounded to f16; codes are up to 31, table values up to 127.
            let bound = match block {
                BlockType::Q4_K | BlockType::Q5_K => {
                    let record = matrix.scales.len() / (k / 32);
                    let [scale, min] = unpack_halves(matrix.scales[i / 32 * record]);
                    (31.0 * scale.abs() + min.abs()) / 2048.0
                }
                BlockType::IQ4_XS => expected.abs() / 2048.0,
                _ => 0.0,
            };
            assert!((found - expected).abs() <= bound, "{block} {i}: {found}, not {expected}");
        }
    }
}

/// Blocks of random bits with scales of a sensible size.
fn random_blocks(rng: &mut fastrand::Rng, block: BlockType, count: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count * block.bytes()).map(|_| rng.u8(..)).collect();
    for bytes in bytes.chunks_mut(block.bytes()) {
        let halves = match block {
            BlockType::MXFP4 => {
                bytes[0] = rng.u8(100..140);
                0..0
            }
            BlockType::Q2_K => 80..84,
            BlockType::Q3_K => 108..110,
            BlockType::Q6_K => 208..210,
            BlockType::Q4_0 | BlockType::Q5_0 | BlockType::Q8_0 => 0..2,
            BlockType::IQ4_NL | BlockType::IQ4_XS => 0..2,
            _ => 0..4,
        };
        for half in bytes[halves].chunks_mut(2) {
            half.copy_from_slice(&f16::from_f32((rng.f32() - 0.5) / 16.0).to_le_bytes());
        }
    }
    bytes
}
