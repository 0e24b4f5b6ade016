//! Weights in host memory: for the CPU executor, and as the oracle of GPU repacking.

use super::Chunk;
use super::sink::{Encoding, PIECE_BYTES, RepackJob, Weight, WeightSink};
use crate::error::{Error, Result};
use crate::layout::{
    BlockType, FloatType, Grid, HostMatrix, Layout, Mins, Number, Packing, pack_halves,
    power_of_two, unpack_halves,
};
use crate::model::{Param, Shape};
use half::{bf16, f16};
use std::collections::HashMap;
use std::ops::Range;

/// All weights of a model in host memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostWeights {
    /// The parts of each matrix, from the top down.
    pub matrices: HashMap<Param, Vec<HostMatrix>>,
    pub vectors: HashMap<Param, Vec<f32>>,
    /// Column order of parts with reordered columns, by first row: `[k]`.
    pub orders: HashMap<(Param, usize), Vec<u32>>,
}

/// Shares the embeddings and the output matrix, `head`, of a target's matrices, if these have none.
pub(super) fn share<M: Clone>(
    matrices: &mut HashMap<Param, M>,
    target: &HashMap<Param, M>,
    head: Param,
) {
    for (param, of_target) in [(Param::Embed, Param::Embed), (Param::Head, head)] {
        if let Some(matrix) = target.get(&of_target) {
            matrices.entry(param).or_insert_with(|| matrix.clone());
        }
    }
}

impl HostWeights {
    /// Shares the embeddings and the output matrix, `head`, of a target, if it has none of its own.
    pub(crate) fn share(&mut self, target: &HostWeights, head: Param) {
        share(&mut self.matrices, &target.matrices, head);
    }

    /// Cuts the part of a matrix in two that row `at` is in the midst of.
    fn split(&mut self, param: Param, at: usize) {
        let Some(parts) = self.matrices.get_mut(&param) else { return };
        let mut first = 0;
        for index in 0..parts.len() {
            let end = first + parts[index].n;
            if first < at && at < end {
                let rest = parts[index].split_off(at - first);
                return parts.insert(index + 1, rest);
            }
            first = end;
        }
    }

    /// The part of a matrix that a job fills, and the job with rows relative to that part.
    fn part_mut(&mut self, job: &RepackJob) -> Option<(&mut HostMatrix, RepackJob)> {
        let mut first_row = job.first_row;
        for part in self.matrices.get_mut(&job.param)? {
            if first_row < part.n {
                return Some((part, RepackJob { first_row, ..*job }));
            }
            first_row -= part.n;
        }
        None
    }
}

/// Fills [`HostWeights`] from a checkpoint.
#[derive(Debug)]
pub struct HostSink {
    weights: HostWeights,
    staging: Vec<u8>,
    /// Jobs whose rows still lack their mins, by first row.
    unfinished: HashMap<(Param, usize), RepackJob>,
}

impl HostSink {
    /// Starts without weights.
    pub fn new() -> HostSink {
        HostSink {
            weights: HostWeights::default(),
            staging: vec![0; PIECE_BYTES as usize],
            unfinished: HashMap::new(),
        }
    }

    /// Converts the staged bytes to part of a weight.
    fn repack(&mut self, job: &RepackJob) {
        let bytes = &self.staging[..job.bytes() as usize];
        if job.encoding.leaves().is_some() {
            self.unfinished.insert((job.param, job.first_row), *job);
        }
        if let Some(vector) = self.weights.vectors.get_mut(&job.param) {
            let (float, more) = match job.encoding {
                Encoding::Float(float) => (float, 0.0),
                Encoding::LessOne(float) => (float, 1.0),
                _ => return,
            };
            let mut values = vec![0.0; job.rows];
            decode(float, bytes, &mut values);
            for (i, value) in values.into_iter().enumerate() {
                vector[job.row(i)] = value + more;
            }
        } else if let Some((matrix, job)) = self.weights.part_mut(job) {
            let job = &job;
            match job.encoding {
                Encoding::Float(float) => {
                    pack_rows(matrix, job, bytes, |row, values| decode(float, row, values));
                }
                Encoding::FloatColumns(float) => pack_columns(matrix, job, float, bytes),
                Encoding::Blocks(block) if block.layout() == Some(matrix.layout) => {
                    repack_blocks(matrix, job, block, bytes);
                }
                Encoding::Blocks(block) => {
                    pack_rows(matrix, job, bytes, |row, values| block.dequantise(row, values));
                }
                Encoding::Nibbles(packing) => put_nibbles(matrix, job, packing, bytes),
                Encoding::Bytes { unsigned, transposed: false } => {
                    put_bytes(matrix, job, unsigned, bytes);
                }
                Encoding::Bytes { unsigned, transposed: true } => {
                    put_words(matrix, job, unsigned, bytes);
                }
                Encoding::Scales { number, grid, zero } => {
                    set_scales(matrix, job, grid, &numbers(number, bytes), zero);
                }
                // For vectors, and never simple.
                Encoding::LessOne(_) | Encoding::NibblesOfTwo { .. } => {}
                Encoding::Mins { float, grid, .. } | Encoding::ZeroNumbers { float, grid } => {
                    let numbers = numbers(Number::Float(float), bytes);
                    for_each_scale(matrix, job, grid, |word, i, _| {
                        set_half(word, 1, f16::from_f32(numbers[i]));
                    });
                }
                Encoding::ZeroPoints { packing, grid, wraps } => {
                    set_zero_points(matrix, job, packing, grid, wraps, bytes);
                }
            }
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

/// Checks for memory before it is allocated: a failed allocation would abort the program.
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
        for Weight { param, shape, parts, .. } in weights {
            match *shape {
                Shape::Vector { n } => {
                    self.weights.vectors.insert(*param, vec![0.0; n]);
                }
                Shape::Matrix { k, .. } => {
                    let parts =
                        parts.iter().map(|part| HostMatrix::zeroed(part.layout, part.rows, k));
                    self.weights.matrices.insert(*param, parts.collect());
                }
            }
        }
        Ok(())
    }

    fn stage(&mut self, _job: &RepackJob, offset: u64, bytes: &Chunk) -> Result<()> {
        bytes.copy_to(&mut self.staging[offset as usize..][..bytes.len()]);
        Ok(())
    }

    async fn flush(&mut self, job: &RepackJob) -> Result<()> {
        job.simple().for_each(|job| self.repack(&job));
        Ok(())
    }

    async fn reorder(&mut self, param: Param, rows: Range<usize>, order: &[u32]) -> Result<()> {
        [rows.start, rows.end].into_iter().for_each(|row| self.weights.split(param, row));
        let mut first = 0;
        for matrix in self.weights.matrices.get_mut(&param).into_iter().flatten() {
            first += matrix.n;
            if !rows.contains(&(first - matrix.n)) {
                continue;
            }
            self.weights.orders.insert((param, first - matrix.n), order.to_vec());
            for row in 0..matrix.n {
                let (words, _) = matrix.row_mut(row);
                let before = words.to_vec();
                words.fill(0);
                for (place, column) in order.iter().map(|column| *column as usize).enumerate() {
                    let q = before[column / 8] >> (column % 8 * 4) & 15;
                    words[place / 8] |= q << (place % 8 * 4);
                }
            }
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        for (_, job) in self.unfinished.drain() {
            let Some((matrix, job)) = self.weights.part_mut(&job) else { continue };
            let Some(mins) = job.encoding.leaves() else { continue };
            for row in 0..job.rows {
                for word in matrix.row_mut(job.row(row)).1 {
                    let [scale, min] = unpack_halves(*word);
                    let min = match mins {
                        Mins::ZeroPoints => -min * scale,
                        Mins::Shifted(shift) => min + shift as f32 * scale,
                    };
                    set_half(word, 1, f16::from_f32(min));
                }
            }
        }
        Ok(())
    }
}

/// Decodes rows with `decode` and packs them in the layout of the matrix.
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

/// The same for columns.
fn pack_columns(matrix: &mut HostMatrix, job: &RepackJob, float: FloatType, bytes: &[u8]) {
    let mut stored = vec![0.0; job.columns * job.rows];
    decode(float, bytes, &mut stored);
    for row in 0..job.rows {
        let values: Vec<f32> = stored[row..].iter().step_by(job.rows).copied().collect();
        matrix.pack_columns(job.row(row), job.first_column, &values);
    }
}

fn repack_blocks(matrix: &mut HostMatrix, job: &RepackJob, block: BlockType, bytes: &[u8]) {
    let rows = bytes.chunks_exact(job.encoding.bytes(1, job.columns) as usize);
    for (i, bytes) in rows.enumerate() {
        let (words, scales) = matrix.row_mut(job.row(i));
        block.repack(bytes, words, scales);
    }
}

fn put_nibbles(matrix: &mut HostMatrix, job: &RepackJob, packing: Packing, bytes: &[u8]) {
    let stored: Vec<u32> = words(bytes).collect();
    let flip = if packing == Packing::Signed { 8 } else { 0 };
    for row in 0..job.rows {
        let (words, _) = matrix.row_mut(job.row(row));
        let words = &mut words[job.first_column / 8..][..job.columns.div_ceil(8)];
        words.fill(0);
        for column in 0..job.columns {
            let (word, nibble) = packing.place([job.rows, job.columns], row, column);
            let q = (stored[word] >> (4 * nibble) & 15) ^ flip;
            words[column / 8] |= q << (column % 8 * 4);
        }
    }
}

fn put_bytes(matrix: &mut HostMatrix, job: &RepackJob, unsigned: bool, bytes: &[u8]) {
    let flip = if unsigned { 0x80 } else { 0 };
    for (i, stored) in bytes.chunks_exact(job.columns).enumerate() {
        let (words, _) = matrix.row_mut(job.row(i));
        for (word, bytes) in words.iter_mut().zip(stored.chunks(4)) {
            let mut padded = [0; 4];
            padded.iter_mut().zip(bytes).for_each(|(padded, byte)| *padded = byte ^ flip);
            *word = u32::from_le_bytes(padded);
        }
    }
}

/// The same for words with four columns of a row each: `[⌈columns / 4⌉][rows]`.
fn put_words(matrix: &mut HostMatrix, job: &RepackJob, unsigned: bool, bytes: &[u8]) {
    let flip = if unsigned { 0x8080_8080 } else { 0 };
    let stored: Vec<u32> = words(bytes).collect();
    for row in 0..job.rows {
        let (words, _) = matrix.row_mut(job.row(row));
        let stored = stored[row..].iter().step_by(job.rows);
        for (word, stored) in words[job.first_column / 4..].iter_mut().zip(stored) {
            *word = stored ^ flip;
        }
    }
}

fn set_scales(
    matrix: &mut HostMatrix,
    job: &RepackJob,
    grid: Grid,
    numbers: &[f32],
    zero: Option<u32>,
) {
    let layout = matrix.layout;
    for_each_scale(matrix, job, grid, |word, i, group| match (layout, zero) {
        (Layout::Codebook { codebook, .. }, _) => {
            *word = *word & !(0xffff << (group % 2 * 16))
                | u32::from(codebook.scale_bits(numbers[i])) << (group % 2 * 16);
        }
        (_, None) => set_half(word, 0, f16::from_f32(numbers[i])),
        (_, Some(0)) => *word = u32::from(f16::from_f32(numbers[i]).to_bits()),
        (_, Some(zero)) => *word = with_min(f16::from_f32(numbers[i]).to_f32(), zero as f32),
    });
}

/// Writes zero points to the high halves of the scale words, for [`WeightSink::finish`].
fn set_zero_points(
    matrix: &mut HostMatrix,
    job: &RepackJob,
    packing: Packing,
    grid: Grid,
    wraps: bool,
    bytes: &[u8],
) {
    // Stored values are one less in each nibble; the sum carries over, as in GPTQModel.
    let one_more = if wraps { 0x1111_1111 } else { 0 };
    let stored: Vec<u32> = words(bytes).map(|word: u32| word.wrapping_add(one_more)).collect();
    // Row and column indices as numbers, which `for_each_scale` passes back.
    let grid = Grid { transposed: false, ..grid };
    for_each_scale(matrix, job, grid, |word, i, _| {
        let (row, column) = (i / job.columns, i % job.columns);
        let (at, nibble) = packing.place([job.rows, job.columns], row, column);
        set_half(word, 1, f16::from_f32((stored[at] >> (4 * nibble) & 15) as f32));
    });
}

/// Calls `set` with each scale word that the job's numbers belong to, the index of the number, and the
/// group.
fn for_each_scale(
    matrix: &mut HostMatrix,
    job: &RepackJob,
    grid: Grid,
    mut set: impl FnMut(&mut u32, usize, usize),
) {
    let per_word = matrix.layout.groups_per_word();
    let groups = matrix.layout.groups(matrix.k);
    for row in 0..job.rows {
        let (_, scales) = matrix.row_mut(job.row(row));
        for group in 0..groups {
            let column = group / grid.groups;
            if !(job.first_column..job.first_column + job.columns).contains(&column) {
                continue;
            }
            let column = column - job.first_column;
            let i = match grid.transposed {
                true => column * job.rows + row,
                false => row / grid.rows * job.columns + column,
            };
            set(&mut scales[group / per_word], i, group);
        }
    }
}

fn set_half(word: &mut u32, half: usize, value: f16) {
    *word = *word & !(0xffff << (16 * half)) | u32::from(value.to_bits()) << (16 * half);
}

fn numbers(number: Number, bytes: &[u8]) -> Vec<f32> {
    let floats = |float: FloatType| {
        let mut values = vec![0.0; bytes.len() / float.bytes() as usize];
        decode(float, bytes, &mut values);
        values
    };
    match number {
        Number::Float(float) => floats(float),
        // A division might be rounded differently on the GPU.
        Number::Float127(float) => {
            floats(float).into_iter().map(|value| value * (1.0 / 127.0)).collect()
        }
        Number::Exponent => bytes.iter().map(|exponent| power_of_two(*exponent)).collect(),
    }
}

/// The scale word of nibbles with a given zero point: min = −zero point·scale.
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
