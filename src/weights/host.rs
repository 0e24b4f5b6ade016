//! Weights in host memory: what the CPU executor runs on, and the oracle of the GPU's repacking.

use super::Chunk;
use super::sink::{Encoding, FloatType, PIECE_BYTES, RepackJob, Weight, WeightSink};
use crate::error::{Error, Result};
use crate::layout::{BlockType, HostMatrix, pack_halves, unpack_halves};
use crate::model::{Param, Shape};
use half::{bf16, f16};
use std::collections::{HashMap, HashSet};

/// All weights of a model in host memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostWeights {
    pub matrices: HashMap<Param, HostMatrix>,
    pub vectors: HashMap<Param, Vec<f32>>,
}

/// Fills [`HostWeights`] from a checkpoint.
#[derive(Debug)]
pub struct HostSink {
    weights: HostWeights,
    staging: Vec<u8>,
    /// Matrices whose scale words hold a zero point where the min belongs.
    zero_points: HashSet<Param>,
}

impl HostSink {
    /// Starts without weights.
    pub fn new() -> HostSink {
        HostSink {
            weights: HostWeights::default(),
            staging: vec![0; PIECE_BYTES as usize],
            zero_points: HashSet::new(),
        }
    }

    /// Returns the weights of a finished load.
    pub fn into_weights(self) -> HostWeights {
        self.weights
    }
}

impl Default for HostSink {
    fn default() -> HostSink {
        HostSink::new()
    }
}

/// Asks for main memory before it is taken: a failed allocation would abort the program.
pub(crate) fn ensure_room(what: &str, bytes: u64) -> Result<()> {
    let room = usize::try_from(bytes).ok();
    match room.is_none_or(|room| Vec::<u8>::new().try_reserve_exact(room).is_err()) {
        true => Err(Error::TooLarge { what: what.into(), bytes, limit: isize::MAX as u64 }),
        false => Ok(()),
    }
}

impl WeightSink for HostSink {
    async fn create(&mut self, weights: &[Weight]) -> Result<()> {
        ensure_room("the model in main memory", weights.iter().map(Weight::bytes).sum())?;
        for Weight { param, shape, layout } in weights {
            match *shape {
                Shape::Vector { n } => {
                    self.weights.vectors.insert(*param, vec![0.0; n]);
                }
                Shape::Matrix { n, k } => {
                    self.weights.matrices.insert(*param, HostMatrix::zeroed(*layout, n, k));
                }
            }
        }
        Ok(())
    }

    fn stage(&mut self, offset: u64, bytes: &Chunk) -> Result<()> {
        bytes.copy_to(&mut self.staging[offset as usize..][..bytes.len()]);
        Ok(())
    }

    async fn flush(&mut self, job: &RepackJob) -> Result<()> {
        let bytes = &self.staging[..job.bytes() as usize];
        if let Some(vector) = self.weights.vectors.get_mut(&job.param) {
            let values = &mut vector[job.first_row..][..job.rows];
            match job.encoding {
                Encoding::Float(float) => decode(float, bytes, values),
                Encoding::LessOne(float) => {
                    decode(float, bytes, values);
                    values.iter_mut().for_each(|value| *value += 1.0);
                }
                _ => {}
            }
        } else if let Some(matrix) = self.weights.matrices.get_mut(&job.param) {
            match job.encoding {
                Encoding::Float(float) => {
                    pack_rows(matrix, job, bytes, |row, values| decode(float, row, values));
                }
                Encoding::Blocks(block) if block.layout() == Some(matrix.layout) => {
                    repack_blocks(matrix, job, block, bytes);
                }
                Encoding::Blocks(block) => {
                    pack_rows(matrix, job, bytes, |row, values| block.dequantise(row, values));
                }
                Encoding::LessOne(_) => {}
                Encoding::Nibbles => copy_nibbles(matrix, job, bytes),
                Encoding::Scales { float, symmetric } => {
                    set_scales(matrix, job, float, symmetric, bytes);
                }
                Encoding::ZeroPoints => {
                    set_zero_points(matrix, job, bytes);
                    self.zero_points.insert(job.param);
                }
            }
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        for param in self.zero_points.drain() {
            let matrix = self.weights.matrices.get_mut(&param);
            for word in matrix.into_iter().flat_map(|matrix| &mut matrix.scales) {
                let [scale, zero_point] = unpack_halves(*word);
                *word = with_min(scale, zero_point);
            }
        }
        Ok(())
    }
}

/// Converts rows to the layout of the matrix, by way of the values that `decode` finds in them.
fn pack_rows(
    matrix: &mut HostMatrix,
    job: &RepackJob,
    bytes: &[u8],
    decode: impl Fn(&[u8], &mut [f32]),
) {
    let mut values = vec![0.0; job.columns];
    let rows = bytes.chunks_exact(job.encoding.bytes(1, job.columns) as usize);
    for (i, bytes) in rows.enumerate() {
        decode(bytes, &mut values);
        matrix.pack_row(job.row(i), &values);
    }
}

fn repack_blocks(matrix: &mut HostMatrix, job: &RepackJob, block: BlockType, bytes: &[u8]) {
    let row_words = matrix.layout.row_words(matrix.k);
    let row_groups = matrix.layout.row_groups(matrix.k);
    let rows = bytes.chunks_exact(job.encoding.bytes(1, job.columns) as usize);
    for (i, bytes) in rows.enumerate() {
        let row = job.row(i);
        let words = &mut matrix.words[row * row_words..][..row_words];
        let scales = &mut matrix.scales[row * row_groups..][..row_groups];
        block.repack(bytes, words, scales);
    }
}

fn copy_nibbles(matrix: &mut HostMatrix, job: &RepackJob, bytes: &[u8]) {
    let row_words = matrix.layout.row_words(matrix.k);
    let rows = matrix.words.chunks_exact_mut(row_words).skip(job.first_row);
    let stored = bytes.chunks_exact(job.encoding.bytes(1, job.columns) as usize);
    for (row, stored) in rows.zip(stored) {
        for (word, stored) in row.iter_mut().zip(words(stored)) {
            *word = stored;
        }
    }
}

/// Replaces the low halves of the scale words, and the high ones too where the zero point is 8.
fn set_scales(
    matrix: &mut HostMatrix,
    job: &RepackJob,
    float: FloatType,
    symmetric: bool,
    bytes: &[u8],
) {
    let mut scales = vec![0.0; job.rows * job.columns];
    decode(float, bytes, &mut scales);
    for_each_scale(matrix, job, |word, row, column| {
        let scale = f16::from_f32(scales[row * job.columns + column]);
        *word = if symmetric {
            with_min(scale.to_f32(), 8.0)
        } else {
            *word & 0xffff_0000 | u32::from(scale.to_bits())
        };
    });
}

/// Puts zero points in the high halves of the scale words, where [`WeightSink::finish`] finds them.
fn set_zero_points(matrix: &mut HostMatrix, job: &RepackJob, bytes: &[u8]) {
    let zero_points: Vec<u32> = words(bytes).collect();
    for_each_scale(matrix, job, |word, row, column| {
        let nibbles = zero_points[row / 8 * job.columns + column];
        let zero_point = f16::from_f32((nibbles >> (row % 8 * 4) & 15) as f32);
        *word = *word & 0xffff | u32::from(zero_point.to_bits()) << 16;
    });
}

/// Calls `set` with each scale word of the job's rows, the row in the job and the stored column.
fn for_each_scale(
    matrix: &mut HostMatrix,
    job: &RepackJob,
    mut set: impl FnMut(&mut u32, usize, usize),
) {
    let row_groups = matrix.layout.row_groups(matrix.k);
    let rows = matrix.scales.chunks_exact_mut(row_groups).skip(job.first_row).take(job.rows);
    for (row, words) in rows.enumerate() {
        for (group, word) in words.iter_mut().enumerate() {
            set(word, row, group.min(job.columns - 1));
        }
    }
}

/// The scale word of nibbles whose zero point is given: min = −zero point·scale.
fn with_min(scale: f32, zero_point: f32) -> u32 {
    pack_halves(f16::from_f32(scale), f16::from_f32(-zero_point * scale))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

fn decode(float: FloatType, bytes: &[u8], out: &mut [f32]) {
    match float {
        FloatType::F32 => {
            for (value, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        FloatType::F16 => {
            for (value, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = f16::from_le_bytes(*bytes).to_f32();
            }
        }
        FloatType::Bf16 => {
            for (value, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = bf16::from_le_bytes(*bytes).to_f32();
            }
        }
    }
}
