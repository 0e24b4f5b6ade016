//! Weights in device memory, repacked there from the raw bytes of a checkpoint.

use std::collections::HashMap;
use std::ops::Range;

use bytemuck::Zeroable;

use super::{Chunk, Encoding, PIECE_BYTES, Part, RepackJob, Weight, WeightSink};
use crate::{
    Error, Result,
    gpu::{Gpu, Kernels, Mark},
    kernels::{
        Repack,
        repack::{Codes, Rows},
    },
    layout::{Layout, row_stride},
    model::{Param, Shape},
};

/// Bytes of a lap. Before the bytes of a lap are staged, the device must have finished the lap before
/// the last. So it stays busy while more bytes arrive, and at most 32 MiB are in flight.
const LAP_BYTES: u64 = 16 << 20;

/// A model's weights on a device.
#[derive(Clone, Default)]
pub struct GpuWeights {
    pub matrices: HashMap<Param, GpuMatrix>,
    /// f32, each padded with zeros to a multiple of 32.
    pub vectors: HashMap<Param, wgpu::Buffer>,
    /// Column order of parts with reordered columns, by first row: `[k]` u32.
    pub orders: HashMap<(Param, usize), wgpu::Buffer>,
}

/// A matrix in its canonical layouts, split by rows where the layout changes and where a part would
/// exceed one binding.
#[derive(Clone)]
pub struct GpuMatrix {
    pub n: usize,
    pub k: usize,
    pub parts: Vec<GpuPart>,
}

/// Rows `first .. first + rows` of a matrix.
#[derive(Clone)]
pub struct GpuPart {
    pub first: usize,
    pub rows: usize,
    pub layout: Layout,
    pub words: wgpu::Buffer,          // [rows][layout.row_words(k)]
    pub scales: Option<wgpu::Buffer>, // [rows][layout.row_scales(k)]
}

impl GpuWeights {
    /// Bytes held on the device.
    pub fn bytes(&self) -> u64 {
        self.buffers().map(wgpu::Buffer::size).sum()
    }

    /// Frees the memory; dropping a buffer does not on the web.
    pub fn destroy(&self) {
        self.buffers().for_each(wgpu::Buffer::destroy);
    }

    /// Shares the embeddings and the output matrix, `head`, of a target, if it has none of its own.
    pub(crate) fn share(&mut self, target: &GpuWeights, head: Param) {
        super::host::share(&mut self.matrices, &target.matrices, head);
    }

    fn buffers(&self) -> impl Iterator<Item = &wgpu::Buffer> {
        let parts = self.matrices.values().flat_map(|matrix| &matrix.parts);
        let parts = parts.flat_map(|part| [Some(&part.words), part.scales.as_ref()]);
        parts.flatten().chain(self.vectors.values()).chain(self.orders.values())
    }
}

/// Fills [`GpuWeights`] from a checkpoint.
///
/// Bytes go from the source straight to the device, which repacks them; the host holds only the current
/// chunk.
pub struct GpuSink<'a> {
    gpu: &'a Gpu,
    largest_part: u64,
    kernels: Kernels,
    weights: GpuWeights,
    staging: wgpu::Buffer, // [PIECE_BYTES]
    job: wgpu::Buffer,     // Rows
    /// Bytes staged in this lap.
    staged: u64,
    /// End of the last lap.
    lap: Option<Mark>,
    /// Jobs whose rows still lack their mins, by first row.
    unfinished: HashMap<(Param, usize), RepackJob>,
}

impl<'a> GpuSink<'a> {
    /// Allocates the staging area.
    ///
    /// Matrices are split between units into parts of at most `largest_part` bytes, usually
    /// [`Gpu::largest_binding`].
    pub async fn new(gpu: &'a Gpu, largest_part: u64) -> Result<GpuSink<'a>> {
        Ok(GpuSink {
            gpu,
            largest_part,
            kernels: Kernels::default(),
            weights: GpuWeights::default(),
            staging: gpu.storage("staging", PIECE_BYTES).await?,
            job: gpu.storage("repacking job", size_of::<Rows>() as u64).await?,
            staged: 0,
            lap: None,
            unfinished: HashMap::new(),
        })
    }

    /// Returns the weights of a finished load.
    pub fn into_weights(mut self) -> GpuWeights {
        std::mem::take(&mut self.weights)
    }

    async fn matrix(&self, weight: &Weight, n: usize, k: usize) -> Result<GpuMatrix> {
        let what = format!("{:?}", weight.param);
        let mut matrix = GpuMatrix { n, k, parts: Vec::new() };
        let mut first = 0;
        for &Part { rows, layout } in &weight.parts {
            let end = first + rows;
            let row_bytes = layout.row_words(k) as u64 * 4;
            let units = self.largest_part / (row_bytes * weight.unit as u64);
            let most = units.max(1) as usize * weight.unit;
            while first < end {
                let rows = most.min(end - first);
                let scales = (rows * layout.row_scales(k)) as u64 * 4;
                matrix.parts.push(GpuPart {
                    first,
                    rows,
                    layout,
                    words: self.gpu.storage(&what, rows as u64 * row_bytes).await?,
                    scales: match scales {
                        0 => None,
                        bytes => Some(self.gpu.storage(&what, bytes).await?),
                    },
                });
                first += rows;
            }
        }
        Ok(matrix)
    }

    /// Cuts the part of a matrix in two that row `at` is in the midst of.
    async fn split(&mut self, param: Param, at: usize) -> Result<()> {
        let gpu = self.gpu;
        let matrix = self.weights.matrices.get_mut(&param).ok_or_else(|| param.missing())?;
        let is_cut = |part: &GpuPart| part.first < at && at < part.first + part.rows;
        let Some(index) = matrix.parts.iter().position(is_cut) else { return Ok(()) };
        let whole = matrix.parts[index].clone();
        for rows in [whole.first..at, at..whole.first + whole.rows] {
            let part = whole.copy(gpu, &format!("{param:?}"), rows, matrix.k).await?;
            matrix.parts.push(part);
        }
        let whole = matrix.parts.remove(index);
        [Some(whole.words), whole.scales].into_iter().flatten().for_each(|buffer| buffer.destroy());
        matrix.parts.sort_by_key(|part| part.first);
        Ok(())
    }

    /// Runs one repacking operation over rows of the staged piece.
    async fn repack(&mut self, repack: Repack, rows: Rows, outputs: &[wgpu::Buffer]) -> Result<()> {
        let gpu = self.gpu;
        let pipeline = self.kernels.pipeline(gpu, &repack.shader()).await?;
        let mut bound = vec![&self.job];
        if !matches!(repack, Repack::Finish(_)) {
            bound.push(&self.staging);
        }
        bound.extend(outputs);
        let dispatch = self.kernels.bind(gpu, &pipeline, &bound);
        gpu.queue.write_buffer(&self.job, 0, bytemuck::bytes_of(&rows));
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        dispatch.record(&mut encoder.begin_compute_pass(&Default::default()), repack.grid(&rows));
        gpu.queue.submit([encoder.finish()]);
        Ok(())
    }

    /// Runs the operations that `step` chooses by layout, for the parts of a matrix that a job fills.
    async fn repack_matrix(
        &mut self,
        job: &RepackJob,
        step: impl Fn(Layout) -> Option<Repack>,
    ) -> Result<()> {
        let matrix = self.weights.matrices.get(&job.param).ok_or_else(|| job.param.missing())?;
        let fills: Vec<_> = matrix.fills(job, step).collect();
        for Fill { repack, rows, part } in fills {
            // Unchanged rows were written when they were staged.
            if repack.kept_row(&rows).is_none() {
                self.repack(repack, rows, &part.written(repack)).await?;
            }
        }
        Ok(())
    }
}

/// Rows of a piece that belong to one part of a matrix, and the operation that writes them there.
struct Fill {
    repack: Repack,
    rows: Rows,
    part: GpuPart,
}

impl GpuMatrix {
    /// The parts that a job fills, with the operation that `step` chooses by layout.
    fn fills(
        &self,
        job: &RepackJob,
        step: impl Fn(Layout) -> Option<Repack>,
    ) -> impl Iterator<Item = Fill> {
        self.parts.iter().filter_map(move |part| {
            let start = job.first_row.max(part.first);
            let end = (job.first_row + job.rows).min(part.first + part.rows);
            let repack = step(part.layout).filter(|_| start < end)?;
            let rows = Rows {
                source: (start - job.first_row) as u32,
                row: (start - part.first) as u32,
                rows: (end - start) as u32,
                columns: job.columns as u32,
                stride: repack.stride(part.layout, self.k) as u32,
                interleaved: job.interleaved.unwrap_or(0) as u32,
                staged: job.rows as u32,
                first_column: job.first_column as u32,
                width: self.k as u32,
            };
            Some(Fill { repack, rows, part: part.clone() })
        })
    }
}

impl Fill {
    /// Writes rows that need no change, `row` bytes each, from a chunk that starts at byte `offset` of
    /// the piece.
    fn write(&self, gpu: &Gpu, row: u64, offset: u64, bytes: &Chunk) -> Result<()> {
        let [source, to, count] =
            [self.rows.source, self.rows.row, self.rows.rows].map(|rows| u64::from(rows) * row);
        let start = source.max(offset);
        let end = (source + count).min(offset + bytes.len() as u64);
        if start >= end {
            return Ok(());
        }
        let bytes = bytes.slice((start - offset) as usize..(end - offset) as usize);
        write(gpu, &self.part.words, to + start - source, &bytes)
    }
}

impl Encoding {
    /// The operation that converts these bytes to part of a weight; `None` if it takes two, see
    /// [`RepackJob::simple`].
    pub fn step(self, to: Layout) -> Option<Repack> {
        Some(match self {
            Encoding::Float(float) => Repack::Numbers { from: float.layout(), to },
            Encoding::FloatColumns(float) => Repack::Columns { from: float.layout(), to },
            Encoding::LessOne(float) => Repack::LessOne { from: float.layout() },
            Encoding::Blocks(from) => Repack::Blocks { from, to },
            Encoding::Nibbles(packing) => Repack::Codes(Codes::Nibbles(packing)),
            Encoding::NibblesOfTwo { .. } => return None,
            Encoding::Bytes { unsigned, transposed } => {
                Repack::Codes(Codes::Bytes { unsigned, transposed })
            }
            Encoding::Scales { number, grid, zero } => Repack::Scales { number, grid, zero, to },
            Encoding::Mins { float: from, grid, .. }
            | Encoding::ZeroNumbers { float: from, grid } => Repack::Mins { from, grid, to },
            Encoding::ZeroPoints { packing, grid, wraps } => {
                Repack::ZeroPoints { packing, grid, wraps, to }
            }
        })
    }
}

impl GpuPart {
    /// A part with copies of some of its rows, of `k` columns.
    async fn copy(&self, gpu: &Gpu, what: &str, rows: Range<usize>, k: usize) -> Result<GpuPart> {
        let copied = async |from: &wgpu::Buffer, row_words: usize| {
            let [start, length] = [rows.start - self.first, rows.len()].map(|n| n * row_words * 4);
            let to = gpu.storage(what, length as u64).await?;
            let mut encoder = gpu.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(from, start as u64, &to, 0, length as u64);
            gpu.queue.submit([encoder.finish()]);
            Ok::<_, Error>(to)
        };
        Ok(GpuPart {
            first: rows.start,
            rows: rows.len(),
            layout: self.layout,
            words: copied(&self.words, self.layout.row_words(k)).await?,
            scales: match &self.scales {
                Some(scales) => Some(copied(scales, self.layout.row_scales(k)).await?),
                None => None,
            },
        })
    }

    /// The output buffers of a repacking operation (handles, cheap to clone).
    fn written(&self, repack: Repack) -> Vec<wgpu::Buffer> {
        let words = repack.writes_words().then_some(&self.words);
        let scales = self.scales.as_ref().filter(|_| repack.writes_scales(self.layout));
        words.into_iter().chain(scales).cloned().collect()
    }
}

impl WeightSink for GpuSink<'_> {
    async fn create(&mut self, weights: &[Weight]) -> Result<()> {
        for weight in weights {
            match weight.shape {
                Shape::Vector { n } => {
                    let bytes = row_stride(n) as u64 * 4;
                    let buffer = self.gpu.storage(&format!("{:?}", weight.param), bytes).await?;
                    self.weights.vectors.insert(weight.param, buffer);
                }
                Shape::Matrix { n, k } => {
                    let matrix = self.matrix(weight, n, k).await?;
                    self.weights.matrices.insert(weight.param, matrix);
                }
            }
        }
        Ok(())
    }

    fn stage(&mut self, job: &RepackJob, offset: u64, bytes: &Chunk) -> Result<()> {
        self.staged += bytes.len() as u64;
        let matrix = self.weights.matrices.get(&job.param);
        let fills = matrix.map(|matrix| matrix.fills(job, |to| job.encoding.step(to)).collect());
        let fills: Vec<Fill> = fills.unwrap_or_default();
        let mut is_repacked = fills.is_empty();
        for fill in &fills {
            match fill.repack.kept_row(&fill.rows) {
                Some(row) => fill.write(self.gpu, row, offset, bytes)?,
                None => is_repacked = true,
            }
        }
        match is_repacked {
            true => write(self.gpu, &self.staging, offset, bytes),
            false => Ok(()),
        }
    }

    async fn flush(&mut self, job: &RepackJob) -> Result<()> {
        match (self.weights.vectors.get(&job.param), job.encoding.step(Layout::F32)) {
            (Some(vector), Some(repack)) => {
                let (row, rows) = (job.first_row as u32, job.rows as u32);
                let interleaved = job.interleaved.unwrap_or(0) as u32;
                let (columns, stride, staged) = (1, 1, rows);
                let rows =
                    Rows { row, rows, columns, stride, interleaved, staged, ..Rows::zeroed() };
                let outputs = [vector.clone()];
                self.repack(repack, rows, &outputs).await?;
            }
            _ => {
                for job in job.simple() {
                    self.repack_matrix(&job, |to| job.encoding.step(to)).await?;
                }
            }
        }
        if job.encoding.leaves().is_some() {
            self.unfinished.insert((job.param, job.first_row), *job);
        }
        if self.staged + PIECE_BYTES > LAP_BYTES {
            self.staged = 0;
            if let Some(before) = self.lap.replace(self.gpu.mark()) {
                self.gpu.reach(before).await?;
            }
        }
        Ok(())
    }

    async fn reorder(&mut self, param: Param, rows: Range<usize>, order: &[u32]) -> Result<()> {
        let gpu = self.gpu;
        for row in [rows.start, rows.end] {
            self.split(param, row).await?;
        }
        let Some(matrix) = self.weights.matrices.get(&param) else {
            return Err(param.missing());
        };
        let order = gpu.upload("order of columns", order).await?;
        let pipeline = self.kernels.pipeline(gpu, &Repack::Reorder.shader()).await?;
        for part in matrix.parts.iter().filter(|part| rows.contains(&part.first)) {
            self.weights.orders.insert((param, part.first), order.clone());
            let row_words = part.layout.row_words(matrix.k);
            let most = (PIECE_BYTES as usize / (4 * row_words)).max(1);
            for first in (0..part.rows).step_by(most) {
                let count = most.min(part.rows - first);
                let (at, bytes) = ((first * row_words * 4) as u64, (count * row_words * 4) as u64);
                let rows = Rows {
                    row: first as u32,
                    rows: count as u32,
                    columns: matrix.k as u32,
                    stride: row_words as u32,
                    ..Rows::zeroed()
                };
                let bound = [&self.job, &self.staging, &order, &part.words];
                let dispatch = self.kernels.bind(gpu, &pipeline, &bound);
                gpu.queue.write_buffer(&self.job, 0, bytemuck::bytes_of(&rows));
                let mut encoder = gpu.device.create_command_encoder(&Default::default());
                encoder.copy_buffer_to_buffer(&part.words, at, &self.staging, 0, bytes);
                let grid = Repack::Reorder.grid(&rows);
                dispatch.record(&mut encoder.begin_compute_pass(&Default::default()), grid);
                gpu.queue.submit([encoder.finish()]);
            }
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        for (_, job) in std::mem::take(&mut self.unfinished) {
            let step = |_| job.encoding.leaves().map(Repack::Finish);
            self.repack_matrix(&job, step).await?;
        }
        self.gpu.idle().await
    }
}

impl Drop for GpuSink<'_> {
    fn drop(&mut self) {
        self.staging.destroy();
        self.job.destroy();
        // Empty once the load has succeeded.
        self.weights.destroy();
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn write(gpu: &Gpu, buffer: &wgpu::Buffer, offset: u64, bytes: &Chunk) -> Result<()> {
    gpu.queue.write_buffer(buffer, offset, bytes.as_slice());
    gpu.check()
}

/// Hands the bytes to the browser without a detour through wasm memory.
#[cfg(target_arch = "wasm32")]
fn write(gpu: &Gpu, buffer: &wgpu::Buffer, offset: u64, bytes: &Chunk) -> Result<()> {
    if let (Some(queue), Some(buffer)) = (gpu.queue.as_webgpu(), buffer.as_webgpu()) {
        queue
            .write_buffer_with_f64_and_buffer_source(buffer, offset as f64, &bytes.as_js())
            .map_err(|error| Error::Gpu { reason: format!("{error:?}") })?;
    }
    gpu.check()
}
