//! Nibbles, scales and zero points as compressed-tensors writes them, in every order.

use super::*;
use crate::layout::{FloatType, Grid, HostMatrix, Layout, Number, Packing};
use crate::model::Param;
use half::f16;

/// The first three rows of a 16 × 64 matrix that compressed-tensors packed in groups of 32.
const PACKED: [[u32; 8]; 3] = [
    [
        0x6720_aa38,
        0x49b7_aa47,
        0x6b56_7a38,
        0x6f99_8965,
        0xb447_db46,
        0x9c99_95bc,
        0x5661_b98b,
        0xb960_d4f7,
    ],
    [
        0x329f_78fe,
        0x8eb7_ebd5,
        0xa7d3_886d,
        0x10a8_9edd,
        0xb6e6_4a42,
        0x9a0c_6474,
        0x7f89_6815,
        0x3fac_e993,
    ],
    [
        0x3258_2534,
        0x7037_fc87,
        0x3669_6454,
        0x2596_b651,
        0x8a2a_2f32,
        0x7114_8365,
        0xb47c_757d,
        0x5dd0_17d8,
    ],
];
const SCALES: [[f32; 2]; 3] =
    [[0.013641357, 0.0105896], [0.008483887, 0.011100769], [0.016815186, 0.011657715]];
/// Zero points of rows 0..8.
const ZERO_WORDS: [u32; 2] = [0x7b87_96a7, 0x8879_6688];
/// The same, row by row.
const ZEROS: [[f32; 2]; 3] = [[7.0, 8.0], [10.0, 8.0], [6.0, 6.0]];
/// The first group of the second row.
const Q: [u8; 32] = [
    14, 15, 8, 7, 15, 9, 2, 3, 5, 13, 11, 14, 7, 11, 14, 8, 13, 6, 8, 8, 3, 13, 7, 10, 13, 13, 14,
    9, 8, 10, 0, 1,
];

const PARAM: Param = Param::Down(0);

fn bytes(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Three rows in the middle of a matrix of nine, in these encodings.
fn repack(jobs: &[(Encoding, usize, Vec<u8>)]) -> HostMatrix {
    let layout = Layout::W4 { group: 32 };
    let mut sink = HostSink::new();
    block_on(async {
        let weight = Weight::matrix(PARAM, (9, 64), layout);
        sink.create(&[weight]).await?;
        for (encoding, columns, bytes) in jobs {
            let job = RepackJob {
                param: PARAM,
                encoding: *encoding,
                first_row: 5,
                rows: 3,
                first_column: 0,
                columns: *columns,
                interleaved: None,
            };
            assert_eq!(job.bytes(), bytes.len() as u64);
            sink.stage(&job, 0, &bytes.clone().into())?;
            sink.flush(&job).await?;
        }
        sink.finish().await
    })
    .unwrap();
    sink.into_weights().matrices.remove(&PARAM).unwrap().remove(0)
}

fn scale_word(scale: f32, zero_point: f32) -> u32 {
    let min = f16::from_f32(-zero_point * scale).to_bits();
    u32::from(f16::from_f32(scale).to_bits()) | u32::from(min) << 16
}

#[test]
fn zero_points_scales_and_nibbles_come_in_any_order() {
    let scales = SCALES.iter().flatten().map(|scale| scale.to_bits());
    let (number, grid) = (Number::Float(FloatType::F32), Grid::EACH);
    let packing = Packing::RowsOfEight;
    let jobs = [
        (Encoding::Nibbles(Packing::Rows), 64, bytes(PACKED.into_iter().flatten())),
        (Encoding::Scales { number, grid, zero: None }, 2, bytes(scales)),
        (Encoding::ZeroPoints { packing, grid, wraps: false }, 2, bytes(ZERO_WORDS)),
    ];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let matrix = repack(&order.map(|i| jobs[i].clone()));
        assert_eq!(matrix.words[5 * 8..8 * 8], PACKED.concat());
        let expected: Vec<u32> = SCALES
            .iter()
            .zip(&ZEROS)
            .flat_map(|(scales, zeros)| [0, 1].map(|i| scale_word(scales[i], zeros[i])))
            .collect();
        assert_eq!(matrix.scales[5 * 2..8 * 2], expected);
        for row in [0, 4, 8] {
            assert!(matrix.words[row * 8..][..8].iter().all(|word| *word == 0), "row {row}");
            let zero = |word: &u32| word & 0x7fff_7fff == 0;
            assert!(matrix.scales[row * 2..][..2].iter().all(zero), "row {row}");
        }

        let mut row = [0.0; 64];
        matrix.dequantise_row(6, &mut row);
        for (found, q) in row.iter().zip(Q) {
            let expected = (f32::from(q) - ZEROS[1][0]) * SCALES[1][0];
            assert!((found - expected).abs() < 0.01 * SCALES[1][0], "{found}, not {expected}");
        }
    }
}

#[test]
fn a_symmetric_scale_of_a_whole_row_serves_every_group() {
    let halves = |scale: f32| half::bf16::from_f32(scale).to_le_bytes();
    let scales: Vec<u8> = [0.5, 0.25, 1.5].into_iter().flat_map(halves).collect();
    let number = Number::Float(FloatType::Bf16);
    let grid = Grid { groups: 2, ..Grid::EACH };
    let encoding = Encoding::Scales { number, grid, zero: Some(8) };
    let matrix = repack(&[(encoding, 1, scales)]);
    let expected = [0.5, 0.5, 0.25, 0.25, 1.5, 1.5].map(|scale| scale_word(scale, 8.0));
    assert_eq!(matrix.scales[5 * 2..8 * 2], expected);
}
