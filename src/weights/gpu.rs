//! Weights in device memory, repacked there from the raw bytes of a checkpoint.

use std::collections::HashMap;

use super::{Chunk, PIECE_BYTES, RepackJob, Weight, WeightSink};
use crate::{
    Error, Result,
    gpu::{Gpu, Kernels},
    layout::Layout,
    model::{Param, Shape},
};

/// Pieces in flight: while one is being filled, the device repacks the others.
const STAGING_BUFFERS: usize = 4;

/// A model's weights on a device.
#[derive(Default)]
pub struct GpuWeights {
    pub matrices: HashMap<Param, GpuMatrix>,
    /// f32, each padded with zeros to a multiple of 32.
    pub vectors: HashMap<Param, wgpu::Buffer>,
}

/// A matrix in its canonical layout, cut by rows where one binding could not show it whole.
pub struct GpuMatrix {
    pub layout: Layout,
    pub n: usize,
    pub k: usize,
    pub parts: Vec<GpuPart>,
}

/// Rows `first .. first + rows` of a matrix.
pub struct GpuPart {
    pub first: usize,
    pub rows: usize,
    pub words: wgpu::Buffer,          // [rows][layout.row_words(k)]
    pub scales: Option<wgpu::Buffer>, // [rows][layout.row_groups(k)]
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

    fn buffers(&self) -> impl Iterator<Item = &wgpu::Buffer> {
        let parts = self.matrices.values().flat_map(|matrix| &matrix.parts);
        let parts = parts.flat_map(|part| [Some(&part.words), part.scales.as_ref()]);
        parts.flatten().chain(self.vectors.values())
    }
}

pub struct GpuSink<'a> {
    gpu: &'a Gpu,
    host: super::HostSink,
    weights: GpuWeights,
}

impl<'a> GpuSink<'a> {
    pub async fn new(gpu: &'a Gpu) -> Result<GpuSink<'a>> {
        Ok(GpuSink { gpu, host: super::HostSink::new(), weights: GpuWeights::default() })
    }
    pub fn into_weights(self) -> GpuWeights {
        self.weights
    }
}

impl WeightSink for GpuSink<'_> {
    async fn create(&mut self, weights: &[Weight]) -> Result<()> {
        self.host.create(weights).await
    }
    fn stage(&mut self, offset: u64, bytes: &Chunk) -> Result<()> {
        self.host.stage(offset, bytes)
    }
    async fn flush(&mut self, job: &RepackJob) -> Result<()> {
        self.host.flush(job).await
    }
    async fn finish(&mut self) -> Result<()> {
        self.host.finish().await?;
        let host = std::mem::replace(&mut self.host, super::HostSink::new()).into_weights();
        for (param, m) in host.matrices {
            let words = self.gpu.upload("w", &m.words).await?;
            let scales = match m.scales.is_empty() {
                true => None,
                false => Some(self.gpu.upload("s", &m.scales).await?),
            };
            self.weights.matrices.insert(
                param,
                GpuMatrix {
                    layout: m.layout,
                    n: m.n,
                    k: m.k,
                    parts: vec![GpuPart { first: 0, rows: m.n, words, scales }],
                },
            );
        }
        for (param, mut v) in host.vectors {
            v.resize(v.len().next_multiple_of(32), 0.0);
            let b = self.gpu.upload("v", bytemuck::cast_slice(&v)).await?;
            self.weights.vectors.insert(param, b);
        }
        Ok(())
    }
}
